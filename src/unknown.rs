//! Members of a request that the document does not have.
//!
//! The service ignores them, as the interface has it: a misspelt field runs the default. So they
//! are looked for on both sides, and named with what was probably meant.

use std::fmt;

use serde_json::Value;

use crate::workflow::types::LocItem;

/// The body of a request.
pub trait Request: serde::de::DeserializeOwned {
    /// Name of its schema in the document.
    const SCHEMA: &'static str;
}

/// Implements [`Request`] for generated structs, which are called as their schemas.
macro_rules! requests {
    ($($name:ident),* $(,)?) => {
        $(
            impl $crate::Request for $name {
                const SCHEMA: &'static str = stringify!($name);
            }
        )*
    };
}
pub(crate) use requests;

/// A field: its name, the schema of the object that it holds, empty for a plain value, whether it
/// holds a list of them, and what is allowed of its value, as JSON.
type Field = (&'static str, &'static str, bool, &'static str);
type Object = (&'static str, &'static [Field]);

static OBJECTS: &[Object] = include!(concat!(env!("OUT_DIR"), "/fields.rs"));

/// So many are listed; a request with more has one cause.
const MAX_LISTED: usize = 20;
/// A longer name is cut where it is reported, and is not compared.
const MAX_NAME: usize = 64;
/// Names are alike from here on, from 0 to 1.
const ALIKE: f64 = 0.6;
/// The same for names of other places in the request.
const ALIKE_ELSEWHERE: f64 = 0.85;

/// A member of a request that the document does not have.
///
/// Reads `equilibration[1].tme: no such field; did you mean equilibration[1].time?`.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownField {
    /// Where it is, outermost first. Names are cut to a length that can be shown.
    pub loc: Vec<LocItem>,
    /// Paths of the fields that were probably meant, the likeliest first; none when nothing is like
    /// it.
    pub nearest: Vec<String>,
}

/// Members of a request that the document does not have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownFields {
    /// The first of them, in their order.
    pub listed: Vec<UnknownField>,
    /// How many there are besides.
    pub more: usize,
}

/// Looks for members of a request that the document does not have, in all of it. A null counts, for
/// it was written; what is inside of an unknown member is not looked at.
///
/// ```
/// use molbox::workflow::types::JobCreateParams;
///
/// let request = serde_json::json!({"temprature": 310, "production": {"time": 1}});
/// let unknown = molbox::unknown_fields::<JobCreateParams>(&request);
/// let field = unknown.listed[0].to_string();
/// assert_eq!(field, "temprature: no such field; did you mean temperature?");
/// ```
pub fn unknown_fields<T: Request>(request: &Value) -> UnknownFields {
    let mut search = Search { root: T::SCHEMA, loc: Vec::new(), found: UnknownFields::default() };
    search.look(T::SCHEMA, request);
    search.found
}

/// Letters and digits alone, in lower case: what is the same in `keep_Hs`, `keepHs` and `keep-hs`.
pub(crate) fn folded(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The path of a place in a request, `equilibration[1].time`.
pub(crate) fn path(loc: &[LocItem]) -> String {
    let mut path = String::new();
    for item in loc {
        match item {
            LocItem::Int64(index) => path.push_str(&format!("[{index}]")),
            LocItem::String(name) if path.is_empty() => path.push_str(name),
            LocItem::String(name) => {
                path.push('.');
                path.push_str(name);
            }
        }
    }
    path
}

impl UnknownField {
    /// A member at this place of a request of type `T`, which somebody else has found unknown.
    pub fn at<T: Request>(loc: Vec<LocItem>) -> Self {
        let mut schema = T::SCHEMA;
        let mut prefix = Vec::new();
        for item in &loc[..loc.len().saturating_sub(1)] {
            if let LocItem::String(name) = item {
                schema = child(schema, name).unwrap_or_default();
            }
            prefix.push(item.clone());
        }
        let name = match loc.last() {
            Some(LocItem::String(name)) => name.clone(),
            _ => String::new(),
        };
        Self::new(T::SCHEMA, schema, prefix, &name)
    }

    fn new(root: &str, schema: &str, mut loc: Vec<LocItem>, name: &str) -> Self {
        let nearest = nearest(root, schema, &loc, name);
        loc.push(LocItem::String(shown(name)));
        Self { loc, nearest }
    }

    /// Path of the member, `equilibration[1].tme`.
    pub fn path(&self) -> String {
        path(&self.loc)
    }

    /// `did you mean production.time or equilibration[].time?`; nothing when nothing is like it.
    pub fn question(&self) -> Option<String> {
        (!self.nearest.is_empty()).then(|| format!("did you mean {}?", self.nearest.join(" or ")))
    }
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no such field", self.path())?;
        self.question().map_or(Ok(()), |question| write!(f, "; {question}"))
    }
}

/// A name as it can be shown to people, whatever somebody has sent.
fn shown(name: &str) -> String {
    let mut shown: String = name.chars().take(MAX_NAME).map(harmless).collect();
    if shown.len() < name.len() && name.chars().nth(MAX_NAME).is_some() {
        shown.push('…');
    }
    shown
}

fn harmless(c: char) -> char {
    // Direction marks would turn round what follows in a terminal.
    let is_direction_mark = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || is_direction_mark { char::REPLACEMENT_CHARACTER } else { c }
}

pub(crate) fn fields(schema: &str) -> &'static [Field] {
    OBJECTS.iter().find(|(name, _)| *name == schema).map_or(&[], |(_, fields)| fields)
}

/// Schema of the objects that a field holds; none when the schema lacks the field.
fn child(schema: &str, field: &str) -> Option<&'static str> {
    fields(schema).iter().find(|(name, ..)| *name == field).map(|(_, of, ..)| *of)
}

struct Search {
    root: &'static str,
    loc: Vec<LocItem>,
    found: UnknownFields,
}

impl Search {
    fn look(&mut self, schema: &'static str, value: &Value) {
        match value {
            Value::Array(items) if !schema.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    self.loc.push(LocItem::Int64(index as i64));
                    self.look(schema, item);
                    self.loc.pop();
                }
            }
            Value::Object(members) if !schema.is_empty() => {
                for (name, member) in members {
                    match child(schema, name) {
                        Some(of) => {
                            self.loc.push(LocItem::String(name.clone()));
                            self.look(of, member);
                            self.loc.pop();
                        }
                        None if self.found.listed.len() == MAX_LISTED => self.found.more += 1,
                        None => {
                            let unknown =
                                UnknownField::new(self.root, schema, self.loc.clone(), name);
                            self.found.listed.push(unknown);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// How alike two folded names are, from 0 to 1: by edits, or because one is a part of the other, as
/// `cutoff` is of `non_bonded_cutoff`.
fn likeness(wrong: &str, known: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(wrong, known);
    let (short, long) = if wrong.len() < known.len() { (wrong, known) } else { (known, wrong) };
    let is_part = (short.len() >= 4 && long.contains(short))
        || (short.len() >= 3 && known.starts_with(wrong));
    let part = ALIKE + (1.0 - ALIKE) * short.len() as f64 / long.len().max(1) as f64;
    if is_part { edits.max(part) } else { edits }
}

/// Paths of the fields that a name in `schema`, which stands at `loc` of a request, is most like:
/// those of its own place first, then those of others.
fn nearest(root: &str, schema: &str, loc: &[LocItem], name: &str) -> Vec<String> {
    if name.chars().nth(MAX_NAME).is_some() {
        return Vec::new();
    }
    let wrong = folded(name);
    let here: Vec<(f64, String)> = fields(schema)
        .iter()
        .map(|(field, ..)| {
            let whole = [loc, &[LocItem::String((*field).to_owned())]].concat();
            (likeness(&wrong, &folded(field)), path(&whole))
        })
        .collect();
    let mut elsewhere = Vec::new();
    collect(root, schema, "", &wrong, &mut elsewhere);
    let candidates = [
        best(&here, 1.0),
        best(&elsewhere, 1.0),
        best(&here, ALIKE),
        best(&elsewhere, ALIKE_ELSEWHERE),
    ];
    candidates.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// Likeness and path of every field of `of` and below that does not belong to `schema`.
fn collect(of: &str, schema: &str, prefix: &str, wrong: &str, out: &mut Vec<(f64, String)>) {
    for (field, below, is_list, _) in fields(of) {
        let whole = format!("{prefix}{field}");
        if of != schema {
            out.push((likeness(wrong, &folded(field)), whole.clone()));
        }
        if !below.is_empty() {
            collect(
                below,
                schema,
                &format!("{whole}{}.", if *is_list { "[]" } else { "" }),
                wrong,
                out,
            );
        }
    }
}

/// The paths of those that are most alike, if they are alike enough.
fn best(found: &[(f64, String)], enough: f64) -> Vec<String> {
    let most = found.iter().map(|(likeness, _)| *likeness).fold(enough, f64::max);
    found.iter().filter(|(likeness, _)| *likeness >= most).map(|(_, path)| path.clone()).collect()
}

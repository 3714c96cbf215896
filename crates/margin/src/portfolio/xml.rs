//! XML: a `<portfolio>`, or a whole `<marginJob>` with one.
//!
//! A pull parser and not a tree of the document: the trees to be had take time or memory that grows
//! with the square of a hostile input, for the attributes of one element or for namespaces declared
//! one inside another. Only the elements asked for are kept, one at a time.

use std::mem;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion, escape};
use serde_json::{Map, Value, json};

use super::position::{Positions, uncounted, unreadable};
use crate::check::{Place, ValueError};
use crate::schema::{Part, word_for_positions};
use crate::unknown::UnknownFields;

// Limits of one kept element, far above what a trade needs.
const MAX_DEPTH: usize = 64;
const MAX_ATTRIBUTES: usize = 64;
const MAX_ELEMENTS: usize = 100_000;
const MAX_NAME_BYTES: usize = 256;

enum Kept {
    Position,
    Field(&'static str, Part),
}

pub(super) fn read(text: &str, positions: &mut Positions<'_>) -> Result<Value, ValueError> {
    let (root, mut elements) = Elements::open(text)?;
    if !matches!(root.name.as_str(), "portfolio" | "marginJob") {
        return Err(unreadable(format!(
            "XML: the root is <{}>, not <portfolio> or <marginJob>",
            root.name
        )));
    }
    let mut job = fields(&root, Part::Job, None, positions)?;
    let mut n_futures = 0;
    let mut stranger = None;
    let mut stray = None;
    let mut unknown = UnknownFields::default();
    while let Some((kept, element)) = elements.next(|path| match path {
        "/portfolio/futures/future" | "/marginJob/portfolio/futures/future" => Some(Kept::Position),
        "/portfolio/futures" | "/marginJob/portfolio/futures" => {
            n_futures += 1;
            None
        }
        _ => {
            let field = path.strip_prefix("/marginJob/").and_then(|name| Part::Job.field(name));
            if field.is_none() && stranger.is_none() {
                stranger = among_positions(path).map(str::to_owned);
            }
            if field.is_none() {
                stray = stray.take().or_else(|| of_positions(path).map(str::to_owned));
                note_unknown(path, &mut unknown);
            }
            let (name, part) = field?;
            (part != Part::Portfolio).then_some(Kept::Field(name, part))
        }
    })? {
        match kept {
            Kept::Position => {
                let place = Place::Position(positions.n_read);
                let fields = fields(&element, Part::Position, Some(place), positions)?;
                positions.push(&fields.into());
            }
            Kept::Field(name, Part::Settings) => {
                let fields = fields(&element, Part::Settings, Some(Place::Settings), positions)?;
                insert(&mut job, name, fields.into())?;
            }
            Kept::Field(name, part) => insert(&mut job, name, part.of_text(&element.whole_text()))?,
        }
    }
    refuse_misplaced(stranger, stray)?;
    positions.unknown.append(unknown);
    let portfolio = match n_futures {
        0 => json!({}),
        1 => json!({ "futures": [] }),
        _ => return Err(unreadable("XML: <futures> is given twice")),
    };
    if root.name == "portfolio" {
        return Ok(portfolio);
    }
    insert(&mut job, "portfolio", portfolio)?;
    Ok(job.into())
}

/// Refuses names of elements that may be positions, and are none or stand elsewhere: a margin without
/// them is too low.
fn refuse_misplaced(stranger: Option<String>, stray: Option<String>) -> Result<(), ValueError> {
    match (stranger, stray) {
        (Some(name), _) => Err(unreadable(format!(
            "XML: <futures> holds <{name}>; each position in it is a <future>"
        ))),
        (None, Some(name)) => Err(uncounted(&format!("XML: <{name}>"))),
        (None, None) => Ok(()),
    }
}

/// The name of an element that stands where positions do.
fn among_positions(path: &str) -> Option<&str> {
    let (parent, name) = path.rsplit_once('/')?;
    matches!(parent, "/portfolio/futures" | "/marginJob/portfolio/futures").then_some(name)
}

/// The name of an element that is called as positions are, and stands where none are read.
fn of_positions(path: &str) -> Option<&str> {
    let (parent, name) = path.rsplit_once('/')?;
    let is_beside_futures = matches!(parent, "/portfolio" | "/marginJob" | "/marginJob/portfolio");
    match word_for_positions(name)? {
        "future" | "futures" => Some(name),
        // Elsewhere, these are words that other things have, too.
        _ => is_beside_futures.then_some(name),
    }
}

/// Notes an element that is right where fields are, and is none.
fn note_unknown(path: &str, unknown: &mut UnknownFields) {
    let Some((parent, name)) = path.rsplit_once('/') else { return };
    match parent {
        "/marginJob" => unknown.add(Place::Body, &[], name),
        "/portfolio" | "/marginJob/portfolio" => unknown.add(Place::Portfolio, &[], name),
        _ => {}
    }
}

/// The fields of an element, which are attributes or elements in it; others are noted if `place`
/// says where they are. The root has attributes that are no fields: namespaces, and where its
/// schema is.
fn fields(
    element: &Element,
    part: Part,
    place: Option<Place>,
    positions: &mut Positions<'_>,
) -> Result<Map<String, Value>, ValueError> {
    let mut fields = Map::new();
    let attributes = element.attributes.iter().map(|(name, text)| (name, text.clone()));
    for (name, text) in
        attributes.chain(element.children.iter().map(|child| (&child.name, child.whole_text())))
    {
        let is_future = matches!(word_for_positions(name), Some("future" | "futures"));
        if let Some((name, part)) = part.field(name) {
            insert(&mut fields, name, part.of_text(&text))?;
        } else if part == Part::Position && is_future {
            return Err(uncounted(&format!("XML: <{name}> in a <future>")));
        } else if let Some(place) = place {
            positions.unknown.add(place, &[], name);
        }
    }
    Ok(fields)
}

fn insert(fields: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), ValueError> {
    match fields.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(unreadable(format!("XML: {name} is given twice in one place"))),
    }
}

/// An element with everything in it, names without their prefixes.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Self>,
    /// Its own text, without that of its children.
    pub(super) text: String,
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'e>(&'e self, name: &'e str) -> impl Iterator<Item = &'e Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Its own text and those of its children.
    fn whole_text(&self) -> String {
        self.children.iter().fold(self.text.clone(), |text, child| text + " " + &child.text)
    }

    /// The element reached by taking the first child of each name.
    pub(super) fn at<'e>(&'e self, path: &'e [&'e str]) -> Option<&'e Self> {
        path.iter().try_fold(self, |element, name| element.all(name).next())
    }
}

/// A document that is read from the beginning to the end.
pub(super) struct Elements<'t> {
    reader: Reader<&'t [u8]>,
    text: &'t str,
    /// Names of the open elements, each after a slash.
    path: String,
    depth: usize,
}

impl<'t> Elements<'t> {
    /// Reads up to the root element, which is returned without what is in it.
    pub(super) fn open(text: &'t str) -> Result<(Element, Self), ValueError> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().expand_empty_elements = true;
        let mut elements = Self { reader, text, path: String::new(), depth: 1 };
        loop {
            match elements.event()? {
                Event::Start(tag) => {
                    let root = elements.element(&tag)?;
                    elements.path = format!("/{}", root.name);
                    return Ok((root, elements));
                }
                Event::Text(text) if text.trim_ascii().is_empty() => {}
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                _ => return Err(elements.unreadable("no root element")),
            }
        }
    }

    /// The next element that `keep` wants, asked with its path; nothing at the end of the document.
    pub(super) fn next<K>(
        &mut self,
        mut keep: impl FnMut(&str) -> Option<K>,
    ) -> Result<Option<(K, Element)>, ValueError> {
        loop {
            match self.event()? {
                Event::Start(_) if self.path.is_empty() => {
                    return Err(self.unreadable("a second root element"));
                }
                Event::Start(_) if self.depth == MAX_DEPTH => {
                    return Err(self.unreadable("nested too deeply"));
                }
                Event::Start(tag) => {
                    let length = self.path.len();
                    self.path.push('/');
                    self.path.push_str(self.name(&tag)?);
                    if let Some(kept) = keep(&self.path) {
                        self.path.truncate(length);
                        return Ok(Some((kept, self.whole(&tag)?)));
                    }
                    self.depth += 1;
                }
                Event::End(_) => {
                    self.path.truncate(self.path.rfind('/').unwrap_or_default());
                    self.depth -= 1;
                }
                Event::Eof if self.path.is_empty() => return Ok(None),
                Event::Eof => return Err(self.unreadable("the document ends within an element")),
                Event::Text(text) if self.path.is_empty() && !text.trim_ascii().is_empty() => {
                    return Err(self.unreadable("text after the root element"));
                }
                // Positions in another notation, perhaps; they would not count.
                Event::Text(text) if self.is_among_positions() && !text.trim_ascii().is_empty() => {
                    return Err(
                        self.unreadable("<futures> holds text; each position in it is a <future>")
                    );
                }
                Event::CData(_) if self.is_among_positions() => {
                    return Err(
                        self.unreadable("<futures> holds text; each position in it is a <future>")
                    );
                }
                _ => {}
            }
        }
    }

    fn is_among_positions(&self) -> bool {
        matches!(self.path.as_str(), "/portfolio/futures" | "/marginJob/portfolio/futures")
    }

    /// The element that begins with `tag`, and everything in it.
    fn whole(&mut self, tag: &BytesStart<'_>) -> Result<Element, ValueError> {
        let mut element = self.element(tag)?;
        let mut parents = Vec::new();
        for _ in 0..MAX_ELEMENTS {
            match self.event()? {
                Event::Start(_) if parents.len() == MAX_DEPTH => {
                    return Err(self.unreadable("nested too deeply"));
                }
                Event::Start(tag) => parents.push(mem::replace(&mut element, self.element(&tag)?)),
                Event::End(_) => match parents.pop() {
                    None => return Ok(element),
                    Some(parent) => {
                        let child = mem::replace(&mut element, parent);
                        element.children.push(child);
                    }
                },
                Event::Text(text) => element.text.push_str(&text),
                Event::CData(text) => element.text.push_str(&text),
                Event::GeneralRef(entity) => {
                    let character = entity
                        .resolve_char_ref()
                        .map_err(|error| self.unreadable(&error.to_string()))?;
                    match (character, escape::resolve_xml_entity(&entity)) {
                        (Some(character), _) => element.text.push(character),
                        (None, Some(text)) => element.text.push_str(text),
                        (None, None) => {
                            return Err(self.unreadable("an entity that XML does not define"));
                        }
                    }
                }
                Event::Eof => return Err(self.unreadable("the document ends within an element")),
                _ => {}
            }
        }
        Err(self.unreadable("an element with too much in it"))
    }

    fn element(&self, tag: &BytesStart<'_>) -> Result<Element, ValueError> {
        let mut element = Element { name: self.name(tag)?.to_owned(), ..Element::default() };
        for attribute in tag.attributes() {
            if element.attributes.len() == MAX_ATTRIBUTES {
                return Err(self.unreadable("an element with too many attributes"));
            }
            let attribute = attribute.map_err(|error| self.unreadable(&error.to_string()))?;
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| self.unreadable(&error.to_string()))?;
            element
                .attributes
                .push((attribute.key.local_name().as_ref().to_owned(), value.into_owned()));
        }
        Ok(element)
    }

    fn name<'n>(&self, tag: &'n BytesStart<'_>) -> Result<&'n str, ValueError> {
        let name = tag.local_name().into_inner();
        if name.len() > MAX_NAME_BYTES || name.contains('/') {
            return Err(self.unreadable("a name that no element has"));
        }
        Ok(name)
    }

    fn event(&mut self) -> Result<Event<'t>, ValueError> {
        let event =
            self.reader.read_event().map_err(|error| self.unreadable(&error.to_string()))?;
        match &event {
            Event::DocType(_) => Err(self.unreadable("a document type is not accepted")),
            Event::Decl(declaration) => match declaration.encoding() {
                Some(Ok(name))
                    if !["utf-8", "us-ascii"].contains(&name.to_ascii_lowercase().as_str()) =>
                {
                    Err(self.unreadable(&format!(
                        "the document says that it is {name}, it must be UTF-8"
                    )))
                }
                _ => Ok(event),
            },
            _ => Ok(event),
        }
    }

    pub(super) fn unreadable(&self, problem: &str) -> ValueError {
        let position = (self.reader.buffer_position() as usize).min(self.text.len());
        let line =
            1 + self.text.as_bytes()[..position].iter().filter(|byte| **byte == b'\n').count();
        unreadable(format!("XML, line {line}: {problem}"))
    }
}

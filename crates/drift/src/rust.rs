//! What changed in the public surface of the Rust that is generated of two documents.

use crate::finding::{Rust, RustChange, Verdict};
use crate::shape::{Api, canonical};
use crate::surface::{Kind, Surface};

/// Compares the code of both documents, or gives the reason why there is none.
pub(crate) fn compare(old: &Api, new: &Api) -> Rust {
    if canonical(&old.value) == canonical(&new.value) {
        return Rust::Compared(Vec::new());
    }
    match (surface("old", old), surface("new", new)) {
        (Ok(old), Ok(new)) => Rust::Compared(changes(old, new)),
        (Err(reason), _) | (_, Err(reason)) => Rust::Unknown(reason),
    }
}

fn surface<'a>(side: &str, api: &'a Api) -> Result<&'a Surface, String> {
    let surface = api.surface.get_or_init(|| Surface::of(&api.value)).as_ref();
    surface.map_err(|reason| format!("no code can be generated of the {side} document: {reason}"))
}

/// What users of the old code meet in the new.
fn changes(old: &Surface, new: &Surface) -> Vec<RustChange> {
    let mut out = Vec::new();
    let mut say = |verdict, item: &str, message: String| {
        out.push(RustChange { verdict, item: item.to_owned(), message })
    };
    for (path, before) in &old.items {
        let Some(after) = new.items.get(path) else {
            // With a type goes all that it has.
            if before.owner.as_ref().is_none_or(|owner| new.items.contains_key(owner)) {
                say(Verdict::Breaking, path, format!("the {} is gone", before.kind.name()));
            }
            continue;
        };
        // A field is listed once, not again with its setter.
        let field = path.strip_suffix("()").and_then(|path| path.rsplit_once("::"));
        let field =
            field.map(|(owner, name)| format!("{}.{name}", owner.replace("::builder::", "::")));
        let is_listed =
            field.is_some_and(|field| match (old.items.get(&field), new.items.get(&field)) {
                (Some(before), Some(after)) => before.text != after.text,
                _ => false,
            });
        if before.text != after.text && !is_listed {
            say(Verdict::Breaking, path, format!("{} became {}", before.text, after.text));
        } else if !before.is_required && after.is_required && !is_listed {
            say(Verdict::Breaking, path, "must be given from now on".to_owned());
        }
    }
    for (path, after) in new.items.iter().filter(|(path, _)| !old.items.contains_key(*path)) {
        let owner = after.owner.as_ref().filter(|owner| old.items.contains_key(*owner));
        match (after.kind, owner) {
            // New with its type.
            (_, None) if after.owner.is_some() => {}
            (Kind::Variant, Some(owner)) if old.is_answered(owner) || new.is_answered(owner) => {
                say(
                    Verdict::Breaking,
                    path,
                    "the variant is new, and a match of what comes back lacks it".to_owned(),
                );
            }
            (Kind::Method, Some(_)) if after.is_required => {
                say(
                    Verdict::Breaking,
                    path,
                    "is new, and nothing can be sent without it".to_owned(),
                );
            }
            (kind, _) => say(Verdict::Compatible, path, format!("the {} is new", kind.name())),
        }
    }
    out.sort_by_key(|change| std::cmp::Reverse(change.verdict));
    out
}

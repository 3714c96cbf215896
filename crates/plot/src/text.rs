//! How wide texts are, texts that fit, and their outlines.

use std::sync::OnceLock;

use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{FontRef, GlyphId, MetadataProvider as _};
use tiny_skia::{Path, PathBuilder};

pub(crate) const FAMILY: &str = "DejaVu Sans";

/// The font, which is part of the crate: a picture looks the same on a machine without any.
fn font() -> &'static FontRef<'static> {
    static LOADED: OnceLock<FontRef<'static>> = OnceLock::new();
    LOADED.get_or_init(|| {
        FontRef::new(include_bytes!("../fonts/DejaVuSans.ttf"))
            .expect("the font of this crate is one")
    })
}

/// The glyphs of a text; what controls is a blank, as it is in the SVG.
fn glyphs(text: &str) -> impl Iterator<Item = GlyphId> {
    let glyphs = font().charmap();
    text.chars().map(move |c| glyphs.map(if c.is_control() { ' ' } else { c }).unwrap_or_default())
}

/// Width of a line of text in this size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let metrics = font().glyph_metrics(Size::new(size as f32), LocationRef::default());
    glyphs(text).map(|glyph| metrics.advance_width(glyph).map_or(0.0, f64::from)).sum()
}

/// The outlines of a line of text in this size, from the origin to the right on a vertical axis that
/// points down; none of blanks.
pub(crate) fn outlines(text: &str, size: f64) -> Option<Path> {
    let size = Size::new(size as f32);
    let outlines = font().outline_glyphs();
    let metrics = font().glyph_metrics(size, LocationRef::default());
    let mut pen = Pen { path: PathBuilder::new(), x: 0.0 };
    for glyph in glyphs(text) {
        if let Some(outline) = outlines.get(glyph) {
            outline
                .draw(DrawSettings::unhinted(size, LocationRef::default()), &mut pen)
                .expect("the glyphs of this crate's font have outlines");
        }
        pen.x += metrics.advance_width(glyph).unwrap_or_default();
    }
    pen.path.finish()
}

/// Draws glyphs where the line of text has come to.
struct Pen {
    path: PathBuilder,
    x: f32,
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.x + x, -y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.x + x, -y);
    }

    fn quad_to(&mut self, by_x: f32, by_y: f32, x: f32, y: f32) {
        self.path.quad_to(self.x + by_x, -by_y, self.x + x, -y);
    }

    fn curve_to(&mut self, a_x: f32, a_y: f32, b_x: f32, b_y: f32, x: f32, y: f32) {
        self.path.cubic_to(self.x + a_x, -a_y, self.x + b_x, -b_y, self.x + x, -y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

/// The text, or its beginning and end with an ellipsis between if it is wider than there is room.
pub(crate) fn shortened(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut shorter = (0..chars.len()).rev().map(|n| with_ellipsis(&chars, n));
    shorter.find(|text| width(text, size) <= room).unwrap_or_else(|| "…".to_owned())
}

/// `n` characters of a text, half of them from its end.
fn with_ellipsis(chars: &[char], n: usize) -> String {
    let tail = n / 2;
    let head = n - tail;
    chars[..head].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect()
}

/// An axis title on at most so many lines, broken at blanks. One that is too long loses words at
/// its end, but not the unit in parentheses that it ends with.
pub(crate) fn titled(title: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let (text, unit) = match title.rsplit_once(" (") {
        Some((text, unit)) if unit.ends_with(')') => (text, Some(format!("({unit}"))),
        _ => (title, None),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    for n in (1..=words.len()).rev() {
        let mut parts: Vec<String> = words[..n].iter().map(|word| (*word).to_owned()).collect();
        if n < words.len() {
            parts[n - 1].push('…');
        }
        parts.extend(unit.clone());
        let lines = broken(&parts, size, room);
        if lines.len() <= most && lines.iter().all(|line| width(line, size) <= room) {
            return lines;
        }
    }
    wrapped(title, size, room, most)
}

/// Words on as many lines as it takes.
fn broken(words: &[String], size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.clone()),
        }
    }
    lines
}

/// The text on at most so many lines, broken at blanks; what is too wide all the same is shortened.
pub(crate) fn wrapped(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_last = lines.len() == most;
        match lines.last_mut() {
            Some(line)
                if is_last || width(line, size) + width(" ", size) + width(word, size) <= room =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| shortened(line, size, room)).collect()
}

#[cfg(test)]
mod tests {
    use super::{shortened, titled, width, wrapped};

    #[test]
    fn wider_texts_are_wider() {
        assert_eq!(width("", 14.0), 0.0);
        assert!(width("RMSD (Å)", 14.0) > width("RMSD", 14.0));
        assert!((width("W", 28.0) - 2.0 * width("W", 14.0)).abs() < 1e-3);
    }

    #[test]
    fn titles_of_axes_are_broken_at_blanks_and_keep_their_unit() {
        assert_eq!(titled("RMSD (Å)", 15.0, 200.0, 2), ["RMSD (Å)"]);
        let distance = "distance of the centres of mass of two masks (Å)";
        let two = titled(distance, 15.0, 210.0, 2);
        assert_eq!(two, ["distance of the centres of", "mass of two masks (Å)"]);
        let longer = distance.replace("two masks", &"some of the ".repeat(9));
        let less = titled(&longer, 15.0, 210.0, 2);
        assert_eq!((less.len(), less[0].as_str()), (2, "distance of the centres of"));
        assert!(less[1].starts_with("mass of some") && less[1].ends_with("… (Å)"), "{less:?}");
        let one = titled("of all residues (10³ %)", 15.0, 140.0, 1);
        assert!(one[0].starts_with("of") && one[0].ends_with("… (10³ %)"), "{one:?}");
        let mask = titled(&":1-12@CA|".repeat(40), 15.0, 210.0, 2);
        assert!(mask.iter().all(|line| width(line, 15.0) <= 210.0), "{mask:?}");
        assert_eq!(titled("", 15.0, 210.0, 2), [""; 0]);
    }

    #[test]
    fn texts_are_made_to_fit() {
        let mask = ":1-12@CA|".repeat(40);
        let short = shortened(&mask, 14.0, 300.0);
        assert!(short.starts_with(":1-12@CA|") && short.contains('…') && short.ends_with('|'));
        assert!((250.0..=300.0).contains(&width(&short, 14.0)));
        assert_eq!(shortened("CA", 14.0, 300.0), "CA");
        assert_eq!(shortened("CA", 14.0, 1.0), "…");
        let lines = wrapped(&"some words and more ".repeat(20), 14.0, 300.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| width(line, 14.0) <= 300.0) && lines[1].contains('…'));
        assert_eq!(wrapped("", 14.0, 300.0, 2), [""; 0]);
    }
}

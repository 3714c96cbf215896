//! How wide texts are, and texts that fit.

use std::sync::OnceLock;

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider as _};

pub(crate) const FONT: &[u8] = include_bytes!("../fonts/DejaVuSans.ttf");

pub(crate) const FAMILY: &str = "DejaVu Sans";

/// Width of a line of text in this size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    static LOADED: OnceLock<FontRef<'static>> = OnceLock::new();
    let font = LOADED.get_or_init(|| FontRef::new(FONT).expect("the font of this crate is one"));
    let glyphs = font.charmap();
    let metrics = font.glyph_metrics(Size::new(size as f32), LocationRef::default());
    text.chars()
        .map(|c| metrics.advance_width(glyphs.map(c).unwrap_or_default()).map_or(0.0, f64::from))
        .sum()
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
    use super::{shortened, width, wrapped};

    #[test]
    fn wider_texts_are_wider() {
        assert_eq!(width("", 14.0), 0.0);
        assert!(width("RMSD (Å)", 14.0) > width("RMSD", 14.0));
        assert!((width("W", 28.0) - 2.0 * width("W", 14.0)).abs() < 1e-3);
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

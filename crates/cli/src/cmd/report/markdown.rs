//! Texts of others in Markdown.

/// Text for a cell of a table.
pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

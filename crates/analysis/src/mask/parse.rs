//! Mask text to syntax tree, by recursive descent.
//!
//! ```text
//! or       := and { [ '|' ] and }
//! and      := not { '&' not }
//! not      := [ '!' ] operand
//! operand  := ( '(' or ')' | '*' | selector ) { selector } { distance }
//! distance := ( '<' | '>' ) ( '@' | ':' | ';' | '^' ) number
//! selector := ( ':' | '::' | ':;' | '@' | '@%' | '@/' | '^' ) item { ',' item }
//! ```
//!
//! A selector right after another is part of its operand where it is a step to a finer level.
//! Elsewhere, and after a distance if it starts with `:` or `^`, it is a new term of "or", as if
//! there were a `|` before it. None may follow a parenthesis.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use super::selection::MaskWarning;
use super::syntax::{Expr, Glyph, Item, Kind, Level, Pattern, Selector, Unit, Within};

/// Longest mask, in characters.
const MAX_CHARS: usize = 64 * 1024;
/// Deepest nesting of parentheses.
const MAX_DEPTH: usize = 64;
/// Most selectors in a mask; each costs a pass over the atoms.
const MAX_SELECTORS: usize = 1000;
/// Most distances in a mask; each costs a search around every atom.
const MAX_DISTANCES: usize = 16;

/// Why a text is not a mask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: expected {expected}, found {}{}", Found(*.found), language(self))]
pub struct ParseError {
    /// Where, in characters from 1; one past the end when the text ends too early.
    pub column: usize,
    /// What could have stood there.
    pub expected: Expected,
    /// What does; none at the end of the text.
    pub found: Option<char>,
    /// The mask that says what the text does in another program's language.
    pub meant: Option<String>,
}

/// What a word tells that stands where a mask begins: it is of another program's language.
fn language(error: &ParseError) -> Cow<'static, str> {
    if let Some(mask) = &error.meant {
        return format!("; masks are written as Amber's, and this one is `{mask}`").into();
    }
    match (&error.expected, error.found) {
        (Expected::Operand, Some(found)) if found.is_alphabetic() => {
            "; masks are written as Amber's: `@CA` for atoms of that name, `:ALA` for residues, `:;41` for \
             the number of one, `::A` for a chain"
                .into()
        }
        _ => "".into(),
    }
}

/// What a mask could have had where it has an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what it is")]
pub enum Expected {
    #[error("a selector (`:`, `::`, `:;`, `@`, `@%`, `@/`, `^` or `*`), `!` or `(`")]
    Operand,
    #[error("`&`, `|`, `<`, `>` or the end of the mask")]
    Operator,
    #[error("`)`")]
    ClosingParenthesis,
    #[error("a name, a number or `*`")]
    Item,
    #[error("a number from 1, or a range such as 3-10")]
    Index,
    #[error("an author's residue number such as 10, -2 or 10A, or a range such as -2-10")]
    AuthorNumber,
    #[error("a range that does not run backwards")]
    AscendingRange,
    #[error("an operator or `,`, for a name holds no blank")]
    NoBlankInName,
    #[error("a character to take literally")]
    Escaped,
    #[error(
        "what the distance takes: `@` atoms, `:` residues, `;` residues by centre or `^` molecules"
    )]
    Unit,
    #[error("a distance in Å, such as 4.0")]
    Distance,
    #[error("at most {MAX_CHARS} characters")]
    FewerChars,
    #[error("at most {MAX_DEPTH} nested parentheses")]
    Shallower,
    #[error("at most {MAX_SELECTORS} selectors")]
    FewerSelectors,
    #[error("at most {MAX_DISTANCES} distances")]
    FewerDistances,
}

struct Found(Option<char>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(c) => write!(f, "`{}`", c.escape_debug()),
            None => f.write_str("the end of the mask"),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<(Expr, Vec<MaskWarning>), ParseError> {
    let chars = text.chars().take(MAX_CHARS + 1).collect();
    let mut parser =
        Parser { chars, at: 0, depth: 0, n_selectors: 0, n_distances: 0, warnings: Vec::new() };
    if parser.chars.len() > MAX_CHARS {
        return Err(parser.expected_at(MAX_CHARS, Expected::FewerChars));
    }
    let expr = parser.or()?;
    match parser.peek() {
        None => Ok((expr, parser.warnings)),
        Some(_) => Err(parser.expected(Expected::Operator)),
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    n_selectors: usize,
    n_distances: usize,
    warnings: Vec<MaskWarning>,
}

impl Parser {
    fn or(&mut self) -> Result<Expr, ParseError> {
        let mut terms = vec![self.and()?];
        loop {
            match self.peek() {
                Some('|') => self.at += 1,
                // An operand ends before a selector only where that is a term of its own.
                Some(':' | '@' | '^') => {
                    self.warnings.push(MaskWarning::Union { column: self.at + 1 })
                }
                _ => return Ok(one_or(terms, Expr::Or)),
            }
            terms.push(self.and()?);
        }
    }

    fn and(&mut self) -> Result<Expr, ParseError> {
        let mut terms = vec![self.not()?];
        while self.eat('&') {
            terms.push(self.not()?);
        }
        Ok(one_or(terms, Expr::And))
    }

    fn not(&mut self) -> Result<Expr, ParseError> {
        if self.eat('!') { Ok(Expr::Not(Box::new(self.operand()?))) } else { self.operand() }
    }

    fn operand(&mut self) -> Result<Expr, ParseError> {
        let mut last = Last::Parenthesis;
        let mut operand = match self.peek() {
            Some('(') => self.parenthesis()?,
            Some('*' | ':' | '@' | '^') => {
                last = Last::Selector;
                self.selectors()?
            }
            _ => return Err(self.expected(Expected::Operand)),
        };
        loop {
            match (self.peek(), last) {
                (Some('<' | '>'), _) => {
                    operand = self.distance(operand)?;
                    last = Last::Distance;
                }
                // A selector that narrows nothing begins a term of its own, as in cpptraj 7: of
                // `:2&:1<:5.0:5` that takes eight atoms, where four would be left if it belonged
                // to the operand before it.
                (None | Some('&' | '|' | ')'), _)
                | (Some(':' | '^'), Last::Distance)
                | (Some(':' | '@' | '^'), Last::Selector) => return Ok(operand),
                _ => return Err(self.expected(Expected::Operator)),
            }
        }
    }

    /// Selectors in a row, as far as each narrows the one before it.
    fn selectors(&mut self) -> Result<Expr, ParseError> {
        let first = if self.peek() == Some('*') { self.everything()? } else { self.selector()? };
        let mut level = first.kind.level();
        let mut all = vec![Expr::Select(first)];
        while let Some(next) = self.level_ahead()
            && level.narrows_to(next)
        {
            all.push(Expr::Select(self.selector()?));
            level = next;
        }
        Ok(one_or(all, Expr::And))
    }

    /// The level of a selector that starts here.
    fn level_ahead(&mut self) -> Option<Level> {
        match self.peek()? {
            ':' => Some(Level::Residue),
            '@' => Some(Level::Atom),
            '^' => Some(Level::Molecule),
            _ => None,
        }
    }

    fn parenthesis(&mut self) -> Result<Expr, ParseError> {
        if self.depth == MAX_DEPTH {
            return Err(self.expected(Expected::Shallower));
        }
        self.at += 1;
        self.depth += 1;
        let inner = self.or()?;
        self.depth -= 1;
        if self.eat(')') { Ok(inner) } else { Err(self.expected(Expected::ClosingParenthesis)) }
    }

    fn distance(&mut self, base: Expr) -> Result<Expr, ParseError> {
        if self.n_distances == MAX_DISTANCES {
            return Err(self.expected(Expected::FewerDistances));
        }
        self.n_distances += 1;
        let column = self.at + 1;
        let farther = self.chars[self.at] == '>';
        self.at += 1;
        let unit = match self.peek() {
            Some('@') => Unit::Atom,
            Some(':') => Unit::Residue,
            Some(';') => Unit::ResidueCentre,
            Some('^') => Unit::Molecule,
            _ => return Err(self.expected(Expected::Unit)),
        };
        self.at += 1;
        self.skip_blanks();
        let digits = self.chars[self.at..].iter().take_while(|c| matches!(c, '0'..='9' | '.'));
        let number: String = digits.collect();
        let cutoff = number.parse().ok().filter(|cutoff: &f64| cutoff.is_finite());
        let cutoff = cutoff.ok_or_else(|| self.expected(Expected::Distance))?;
        self.at += number.len();
        Ok(Expr::Within(Box::new(Within { base, unit, farther, cutoff, column })))
    }

    /// `*` as an operand of its own; the names after it are read over, as in the middle of a name.
    fn everything(&mut self) -> Result<Selector, ParseError> {
        self.count_selector()?;
        let column = self.at + 1;
        if self.glyphs()?.len() > 1 {
            self.warnings.push(MaskWarning::AfterWildcard { column });
        }
        Ok(Selector { kind: Kind::Residue, items: vec![Item::All] })
    }

    fn selector(&mut self) -> Result<Selector, ParseError> {
        self.count_selector()?;
        let kind = self.kind();
        let mut items = Vec::new();
        loop {
            match self.peek() {
                Some(',') => self.at += 1,
                Some(c) if is_name_char(c) => items.push(self.item(kind)?),
                _ if items.is_empty() => return Err(self.expected(Expected::Item)),
                _ => return Ok(Selector { kind, items }),
            }
        }
    }

    fn count_selector(&mut self) -> Result<(), ParseError> {
        self.n_selectors += 1;
        if self.n_selectors > MAX_SELECTORS {
            Err(self.expected(Expected::FewerSelectors))
        } else {
            Ok(())
        }
    }

    /// The kind of the selector that starts here with `:`, `@` or `^`.
    fn kind(&mut self) -> Kind {
        let first = self.chars[self.at];
        self.at += 1;
        let kind = match (first, self.peek()) {
            (':', Some(':')) => Kind::Chain,
            (':', Some(';')) => Kind::AuthorNumber,
            ('@', Some('%')) => Kind::AtomType,
            ('@', Some('/')) => Kind::Element,
            (':', _) => return Kind::Residue,
            ('@', _) => return Kind::Atom,
            _ => return Kind::Molecule,
        };
        self.at += 1;
        kind
    }

    fn item(&mut self, kind: Kind) -> Result<Item, ParseError> {
        let start = self.at;
        let column = start + 1;
        let glyphs = self.glyphs()?;
        if glyphs[0] == Glyph::AnyRest {
            if glyphs.len() > 1 {
                self.warnings.push(MaskWarning::AfterWildcard { column });
            }
            return Ok(Item::All);
        }
        let text: Option<String> = glyphs.iter().map(plain).collect();
        let item = match (kind, text) {
            (Kind::AuthorNumber, text) => author_number(text.as_deref(), column),
            (Kind::Molecule, text) => index_range(text.as_deref(), column),
            (Kind::Residue | Kind::Atom, Some(text)) if is_numeric(&text) => {
                index_range(Some(&text), column)
            }
            _ => Ok(self.name(glyphs, kind, column)),
        };
        item.map_err(|expected| self.expected_at(start, expected))
    }

    fn name(&mut self, mut glyphs: Vec<Glyph>, kind: Kind, column: usize) -> Item {
        if kind == Kind::Atom && matches!(glyphs[0], Glyph::Char('%' | '/')) {
            self.warnings.push(MaskWarning::MarkerInList { column });
        }
        let star = glyphs.iter().position(|glyph| *glyph == Glyph::AnyRest);
        if let Some(star) = star {
            if star + 1 < glyphs.len() {
                self.warnings.push(MaskWarning::AfterWildcard { column });
            }
            glyphs.truncate(star);
        }
        Item::Name { pattern: Pattern { glyphs, prefix: star.is_some() }, column }
    }

    /// The characters of an item. Blanks may stand around the `-` of a range; between two letters
    /// one is more likely a forgotten operator than a part of the name.
    fn glyphs(&mut self) -> Result<Vec<Glyph>, ParseError> {
        let mut glyphs = Vec::new();
        loop {
            let before = self.at;
            let Some(c) = self.peek().filter(|c| is_name_char(*c)) else { return Ok(glyphs) };
            if self.at > before && !glyphs.is_empty() && !may_part(&glyphs, c) {
                return Err(self.expected(Expected::NoBlankInName));
            }
            self.at += 1;
            glyphs.push(match c {
                '*' | '=' => Glyph::AnyRest,
                '?' => Glyph::AnyChar,
                '\\' => self.escaped()?,
                c => Glyph::Char(c),
            });
        }
    }

    fn escaped(&mut self) -> Result<Glyph, ParseError> {
        let c = self.chars.get(self.at).copied().filter(|c| is_name_char(*c));
        let c = c.ok_or_else(|| self.expected(Expected::Escaped))?;
        self.at += 1;
        Ok(Glyph::Escaped(c))
    }

    /// The next character that is no blank; the parser stands on it then.
    fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn skip_blanks(&mut self) {
        self.at += self.chars[self.at..].iter().take_while(|c| c.is_whitespace()).count();
    }

    fn expected(&self, expected: Expected) -> ParseError {
        self.expected_at(self.at, expected)
    }

    fn expected_at(&self, at: usize, expected: Expected) -> ParseError {
        ParseError { column: at + 1, expected, found: self.chars.get(at).copied(), meant: None }
    }
}

/// What an operand ends with.
#[derive(Clone, Copy)]
enum Last {
    Parenthesis,
    Distance,
    Selector,
}

fn one_or(mut terms: Vec<Expr>, many: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        last => many(terms.into_iter().chain(last).collect()),
    }
}

/// Names take any character that is printed and has no meaning of its own; more than the reference
/// takes, since names in PDB, mmCIF and SDF files hold `_`, `"` and others.
fn is_name_char(c: char) -> bool {
    c.is_ascii_graphic()
        && !matches!(c, '!' | '&' | '(' | ')' | ',' | ':' | '<' | '>' | '@' | '^' | '|')
}

fn may_part(before: &[Glyph], next: char) -> bool {
    let dash = next == '-' || before.last() == Some(&Glyph::Char('-'));
    dash && before.iter().all(|glyph| matches!(glyph, Glyph::Char('0'..='9' | '-')))
}

fn plain(glyph: &Glyph) -> Option<char> {
    if let Glyph::Char(c) = glyph { Some(*c) } else { None }
}

fn is_numeric(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'-'))
}

/// `7` or `3-10`.
fn index_range(text: Option<&str>, column: usize) -> Result<Item, Expected> {
    let text = text.ok_or(Expected::Index)?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (digits(first), digits(last)) {
        (Some(first @ 1..), Some(last)) => numbers(first..=last, column),
        _ => Err(Expected::Index),
    }
}

/// `7`, `-7`, `3-10`, `-3--1` or `10A`.
fn author_number(text: Option<&str>, column: usize) -> Result<Item, Expected> {
    let text = text.ok_or(Expected::AuthorNumber)?;
    if let Some(code) = text.chars().last().filter(char::is_ascii_alphabetic) {
        let number = signed(&text[..text.len() - 1]).ok_or(Expected::AuthorNumber)?;
        return Ok(Item::Inserted { number, code });
    }
    let dash = text.bytes().skip(1).position(|b| b == b'-').map(|before| before + 1);
    let (first, last) = dash.map_or((text, text), |dash| (&text[..dash], &text[dash + 1..]));
    match (signed(first), signed(last)) {
        (Some(first), Some(last)) => numbers(first..=last, column),
        _ => Err(Expected::AuthorNumber),
    }
}

fn numbers(range: RangeInclusive<i64>, column: usize) -> Result<Item, Expected> {
    if range.is_empty() {
        Err(Expected::AscendingRange)
    } else {
        Ok(Item::Numbers { range, column })
    }
}

fn signed(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(rest) => digits(rest).map(|number| -number),
        None => digits(text),
    }
}

/// A number of any length; one too large to hold is beyond every atom, and stays so.
fn digits(text: &str) -> Option<i64> {
    let all_digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| text.parse().unwrap_or(i64::MAX))
}

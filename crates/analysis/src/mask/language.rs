//! Selections as VMD, `PyMOL` and `MDAnalysis` write them, as far as masks can say the same.

/// The mask that selects what a selection of another program does; none where the text is not one,
/// or there is no such mask.
pub(super) fn as_mask(text: &str) -> Option<String> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
    let Part { mask, .. } = words.or(0)?;
    (words.at == words.words.len()).then_some(mask)
}

/// Longest selection that is looked at, and its deepest nesting.
const MAX_BYTES: usize = 1000;
const MAX_DEPTH: usize = 16;

/// Part of a mask, and whether it is an operand of `&`, or of `!`, as it is.
struct Part {
    mask: String,
    is_union: bool,
    is_one: bool,
}

impl Part {
    fn one(mask: String) -> Self {
        Self { mask, is_union: false, is_one: true }
    }

    fn if_not(self, is_fine: bool) -> String {
        if is_fine { self.mask } else { format!("({})", self.mask) }
    }
}

struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn eat(&mut self, word: &str) -> bool {
        let is_it = self.peek() == Some(word);
        self.at += usize::from(is_it);
        is_it
    }

    fn or(&mut self, depth: usize) -> Option<Part> {
        let mut first = self.and(depth)?;
        while self.eat("or") {
            let next = self.and(depth)?;
            let mask = format!("{}|{}", first.mask, next.mask);
            first = Part { mask, is_union: true, is_one: false };
        }
        Some(first)
    }

    fn and(&mut self, depth: usize) -> Option<Part> {
        let mut first = self.not(depth)?;
        while self.eat("and") {
            let operand = |part: Part| {
                let is_fine = !part.is_union;
                part.if_not(is_fine)
            };
            let next = operand(self.not(depth)?);
            let mask = format!("{}&{next}", operand(first));
            first = Part { mask, is_union: false, is_one: false };
        }
        Some(first)
    }

    fn not(&mut self, depth: usize) -> Option<Part> {
        if !self.eat("not") {
            return self.operand(depth);
        }
        let operand = self.operand(depth)?;
        let is_one = operand.is_one;
        Some(Part { mask: format!("!{}", operand.if_not(is_one)), is_union: false, is_one: false })
    }

    fn operand(&mut self, depth: usize) -> Option<Part> {
        if self.eat("(") {
            let inner = if depth < MAX_DEPTH { self.or(depth + 1)? } else { return None };
            return self.eat(")").then_some(inner);
        }
        let word = self.peek()?;
        self.at += 1;
        Some(match word {
            "all" => Part::one("*".to_owned()),
            "backbone" => Part::one("@N,CA,C,O".to_owned()),
            "water" | "waters" | "solvent" => Part::one(":HOH".to_owned()),
            "hydrogen" | "hydrogens" => Part::one("@/H".to_owned()),
            "noh" => Part { mask: "!@/H".to_owned(), is_union: false, is_one: false },
            "name" => Part::one(format!("@{}", self.values(is_name)?)),
            "element" => Part::one(format!("@/{}", self.values(is_name)?)),
            "resname" | "resn" => Part::one(format!(":{}", self.values(is_name)?)),
            "resid" | "resi" | "resnum" | "resSeq" => {
                Part::one(format!(":;{}", self.values(is_number)?))
            }
            "chain" | "chainid" | "chainID" | "segid" => {
                Part::one(format!("::{}", self.values(is_name)?))
            }
            _ => return None,
        })
    }

    /// What follows a keyword: `CA CB`, `CA+CB`, `5:10`, `5 to 10`.
    fn values(&mut self, is_value: fn(&str) -> bool) -> Option<String> {
        let mut values: Vec<String> = Vec::new();
        while let Some(word) = self.peek() {
            match word {
                "and" | "or" | "(" | ")" => break,
                "to" => {
                    self.at += 1;
                    let end = self.peek()?;
                    let start = values.pop()?;
                    values.push(format!("{start}-{end}"));
                }
                _ => values.extend(word.split('+').map(|value| value.replace(':', "-"))),
            }
            self.at += 1;
        }
        let is_list = !values.is_empty() && values.iter().all(|value| is_value(value));
        is_list.then(|| values.join(","))
    }
}

fn is_name(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || "*'".contains(c))
}

fn is_number(value: &str) -> bool {
    let mut parts = value.split('-');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.by_ref().take(2).all(is_number) && parts.next().is_none()
}

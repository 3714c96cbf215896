//! The header of a classic NetCDF file, and what of it makes a trajectory.

/// Amber's headers have a kilobyte or two, those with many dimensions of replica exchange a few.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// What the header counts of records while nobody knows.
const STREAMING: u64 = u32::MAX as u64;

const DIMENSION: u64 = 10;
const VARIABLE: u64 = 11;
const ATTRIBUTE: u64 = 12;

/// Types of numbers.
const CHAR: u64 = 2;
const FLOAT: u64 = 5;
const DOUBLE: u64 = 6;

/// What is wrong with a header, and where.
#[derive(Debug)]
pub(super) struct HeaderError {
    pub(super) at: usize,
    pub(super) expected: &'static str,
    pub(super) found: String,
}

/// What a header lists.
pub(super) struct Header {
    is_wide: bool,
    dimensions: Vec<Dimension>,
    variables: Vec<Listed>,
    /// Where the list of variables starts.
    variables_at: usize,
}

struct Dimension {
    name: String,
    /// 0 for that of records.
    length: u64,
}

/// A variable as it is listed.
struct Listed {
    at: usize,
    name: String,
    dimensions: Vec<usize>,
    units: Option<String>,
    scale: Option<f64>,
    kind: u64,
    begin: u64,
}

/// What a trajectory is read from.
pub(super) struct TrajectoryHeader {
    pub(super) n_atoms: usize,
    pub(super) coordinates: Variable,
    pub(super) time: Option<Variable>,
    pub(super) cell: Option<[Variable; 2]>,
    pub(super) layout: Layout,
}

/// Where the values of a variable are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable {
    begin: u64,
    /// From one frame to the next.
    stride: u64,
    /// Of one frame.
    n_bytes: u64,
    pub(super) is_double: bool,
    /// Å, degrees or ps in what the file calls 1.
    pub(super) unit: f64,
}

/// How many frames there are, and where they end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    is_wide: bool,
    /// Where frames start, and the bytes of each; only the end of all, if there is a fixed number.
    records: Result<[u64; 2], u64>,
    n_fixed: u64,
}

impl Variable {
    /// Where the values of a frame start, which must be in the file.
    pub(super) fn byte(&self, frame: usize) -> u64 {
        self.begin + frame as u64 * self.stride
    }

    /// Frames of which a file of this size has the values.
    pub(super) fn n_within(&self, size: u64) -> u64 {
        let first_end = self.begin.saturating_add(self.n_bytes);
        size.checked_sub(first_end).map_or(0, |rest| rest / self.stride + 1)
    }
}

impl Layout {
    /// Frames that the start of a file counts; none if it leaves that open.
    pub(super) fn n_frames(&self, start: &[u8; 12]) -> Option<u64> {
        if self.records.is_err() {
            return Some(self.n_fixed);
        }
        let mut cursor = Cursor { bytes: start, at: 4, is_wide: self.is_wide };
        let n_records = cursor.count().ok()?;
        let is_open = n_records == STREAMING || n_records == u64::MAX;
        (!is_open).then_some(n_records)
    }

    /// Where so many frames end.
    pub(super) fn end(&self, n_frames: u64) -> u64 {
        match self.records {
            Ok([first, n_bytes]) => first.saturating_add(n_frames.saturating_mul(n_bytes)),
            Err(end) => end,
        }
    }
}

/// Bytes of a header that are read one after the other.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether counts have 64 bits.
    is_wide: bool,
}

impl<'a> Cursor<'a> {
    fn error<T>(&self, expected: &'static str, found: impl Into<String>) -> Result<T, HeaderError> {
        Err(HeaderError { at: self.at, expected, found: found.into() })
    }

    /// So many bytes, and those that fill them up to a multiple of four.
    fn take(&mut self, n: u64) -> Result<&'a [u8], HeaderError> {
        let n_left = (self.bytes.len() - self.at) as u64;
        let padded = n.checked_next_multiple_of(4).unwrap_or(u64::MAX);
        if padded > n_left {
            let found = if self.bytes.len() as u64 == MAX_BYTES {
                format!("no end of it in {MAX_BYTES} bytes")
            } else {
                "the end of the file".to_owned()
            };
            return self.error("the rest of the header", found);
        }
        let bytes = &self.bytes[self.at..][..n as usize];
        self.at += padded as usize;
        Ok(bytes)
    }

    fn word(&mut self) -> Result<u64, HeaderError> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn long(&mut self) -> Result<u64, HeaderError> {
        Ok(self.word()? << 32 | self.word()?)
    }

    fn count(&mut self) -> Result<u64, HeaderError> {
        if self.is_wide { self.long() } else { self.word() }
    }

    fn name(&mut self) -> Result<String, HeaderError> {
        let n = self.count()?;
        Ok(String::from_utf8_lossy(self.take(n)?).into_owned())
    }

    /// The number of things of a kind that follow. Each takes some bytes, so that a list of more
    /// than there are ends with the header.
    fn list(&mut self, kind: u64, expected: &'static str) -> Result<u64, HeaderError> {
        let at = self.at;
        let (tag, n) = (self.word()?, self.count()?);
        if tag == kind || tag == 0 && n == 0 {
            return Ok(n);
        }
        Err(HeaderError { at, expected, found: format!("{n} of kind {tag}") })
    }

    /// Attributes, of which the units and the factor are wanted.
    fn attributes(&mut self) -> Result<(Option<String>, Option<f64>), HeaderError> {
        let (mut units, mut scale) = (None, None);
        for _ in 0..self.list(ATTRIBUTE, "a list of attributes")? {
            let name = self.name()?;
            let kind = self.word()?;
            let n = self.count()?;
            let width = self.width(kind)?;
            let values = self.take(n.saturating_mul(width))?;
            match (name.as_str(), kind) {
                ("units", CHAR) => {
                    let text = String::from_utf8_lossy(values);
                    units = Some(text.trim_matches(['\0', ' ']).to_ascii_lowercase());
                }
                ("scale_factor", FLOAT) => {
                    scale = values.first_chunk().map(|four| f32::from_be_bytes(*four).into());
                }
                ("scale_factor", DOUBLE) => {
                    scale = values.first_chunk().map(|eight| f64::from_be_bytes(*eight));
                }
                _ => {}
            }
        }
        Ok((units, scale))
    }

    /// Bytes of a number of a type.
    fn width(&self, kind: u64) -> Result<u64, HeaderError> {
        match kind {
            1 | CHAR | 7 => Ok(1),
            3 | 8 => Ok(2),
            4 | FLOAT | 9 => Ok(4),
            DOUBLE | 10 | 11 => Ok(8),
            _ => self.error("a type of numbers from 1 to 11", kind.to_string()),
        }
    }
}

impl Header {
    /// The header that a file starts with.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let mut cursor = Cursor { bytes, at: 0, is_wide: false };
        let magic = cursor.word()?;
        let version = magic & 0xff;
        if !matches!(version, 1 | 2 | 5) {
            cursor.at = 3;
            return cursor.error("version 1, 2 or 5 of classic NetCDF", version.to_string());
        }
        cursor.is_wide = version == 5;
        cursor.count()?;
        let mut dimensions = Vec::new();
        for _ in 0..cursor.list(DIMENSION, "a list of dimensions")? {
            dimensions.push(Dimension { name: cursor.name()?, length: cursor.count()? });
        }
        cursor.attributes()?;
        let variables_at = cursor.at;
        let mut variables = Vec::new();
        for _ in 0..cursor.list(VARIABLE, "a list of variables")? {
            let at = cursor.at;
            let name = cursor.name()?;
            let mut of_dimensions = Vec::new();
            for _ in 0..cursor.count()? {
                let id = cursor.count()?;
                match usize::try_from(id).ok().filter(|id| *id < dimensions.len()) {
                    Some(id) => of_dimensions.push(id),
                    None => return cursor.error("the number of a dimension", id.to_string()),
                }
            }
            let (units, scale) = cursor.attributes()?;
            let kind = cursor.word()?;
            cursor.width(kind)?;
            // How large it is follows from its dimensions, and is too large for its place if large.
            cursor.count()?;
            let begin = if version == 1 { cursor.word()? } else { cursor.long()? };
            let dimensions = of_dimensions;
            variables.push(Listed { at, name, dimensions, units, scale, kind, begin });
        }
        Ok(Self { is_wide: cursor.is_wide, dimensions, variables, variables_at })
    }

    /// What Amber's convention calls the parts of a trajectory.
    pub(super) fn trajectory(&self) -> Result<TrajectoryHeader, HeaderError> {
        let expected = "a variable coordinates(frame, atom, spatial) of Amber's convention";
        let Some(coordinates) = self.find("coordinates") else {
            let names: Vec<_> = self.variables.iter().take(20).map(|v| v.name.as_str()).collect();
            let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(HeaderError { at: self.variables_at, expected, found });
        };
        let lengths = self.lengths(coordinates);
        let (&[frames, n_atoms, 3], true) = (lengths.as_slice(), self.is_of_frames(coordinates))
        else {
            let names = coordinates.dimensions.iter().map(|id| self.dimensions[*id].name.as_str());
            let found = format!("coordinates({})", names.collect::<Vec<_>>().join(", "));
            return Err(HeaderError { at: coordinates.at, expected, found });
        };
        // Atoms are counted in 32 bits.
        let Some(n) = u32::try_from(n_atoms).ok().filter(|n| *n > 0) else {
            let expected = "from 1 to 4294967295 atoms";
            return Err(HeaderError { at: coordinates.at, expected, found: n_atoms.to_string() });
        };
        let is_recorded = frames == 0;
        let layout = self.layout(is_recorded, frames)?;
        let variable = |listed, n, units| self.variable(listed, &layout, n, units);
        let of_frames = |name, n: u64| {
            let listed = self.find(name)?;
            let lengths = self.lengths(listed);
            let (first, rest) = lengths.split_first()?;
            // Of one value for each frame there may be no second dimension.
            let n_values = match rest {
                [] => 1,
                [n_values] => *n_values,
                _ => return None,
            };
            let is_it = *first == frames && n_values == n;
            (is_it && self.is_of_frames(listed)).then_some(listed)
        };
        let time = of_frames("time", 1).map(|listed| variable(listed, 1, &TIMES)).transpose()?;
        let cell = match [of_frames("cell_lengths", 3), of_frames("cell_angles", 3)] {
            [Some(a), Some(b)] => Some([variable(a, 3, &LENGTHS)?, variable(b, 3, &ANGLES)?]),
            _ => None,
        };
        let coordinates = variable(coordinates, 3 * u64::from(n), &LENGTHS)?;
        Ok(TrajectoryHeader { n_atoms: n as usize, coordinates, time, cell, layout })
    }

    fn find(&self, name: &str) -> Option<&Listed> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    /// The lengths of a variable's dimensions.
    fn lengths(&self, variable: &Listed) -> Vec<u64> {
        variable.dimensions.iter().map(|id| self.dimensions[*id].length).collect()
    }

    fn is_of_frames(&self, variable: &Listed) -> bool {
        variable.dimensions.first().is_some_and(|id| self.dimensions[*id].name == "frame")
    }

    fn layout(&self, is_recorded: bool, n_fixed: u64) -> Result<Layout, HeaderError> {
        let is_wide = self.is_wide;
        if !is_recorded {
            let ends = self.variables.iter().map(|variable| {
                let first = self.lengths(variable).first().copied().unwrap_or(1);
                let n_bytes = self.slice_bytes(variable).unwrap_or(u64::MAX).saturating_mul(first);
                variable.begin.saturating_add(n_bytes)
            });
            let end = ends.max().unwrap_or(0);
            return Ok(Layout { is_wide, records: Err(end), n_fixed });
        }
        let mut n_bytes = Some(0_u64);
        let mut first = u64::MAX;
        for variable in &self.variables {
            let is_record = self.lengths(variable).first() == Some(&0);
            if is_record {
                first = first.min(variable.begin);
                n_bytes = n_bytes
                    .zip(self.slice_bytes(variable))
                    .and_then(|(sum, slice)| sum.checked_add(slice.checked_next_multiple_of(4)?));
            }
        }
        match n_bytes {
            Some(n_bytes) => Ok(Layout { is_wide, records: Ok([first, n_bytes]), n_fixed }),
            None => {
                let expected = "frames of fewer bytes than 64 bits count";
                let found = "more".to_owned();
                Err(HeaderError { at: self.variables_at, expected, found })
            }
        }
    }

    /// Bytes of a frame's part of a variable.
    fn slice_bytes(&self, variable: &Listed) -> Option<u64> {
        let width = match variable.kind {
            1 | CHAR | 7 => 1_u64,
            3 | 8 => 2,
            DOUBLE | 10 | 11 => 8,
            _ => 4,
        };
        let lengths = self.lengths(variable);
        lengths.iter().skip(1).try_fold(width, |product, length| product.checked_mul(*length))
    }

    /// A variable of so many numbers for each frame, in one of these units, the usual one first.
    fn variable(
        &self,
        listed: &Listed,
        layout: &Layout,
        n: u64,
        units: &[(&'static str, f64)],
    ) -> Result<Variable, HeaderError> {
        let error = |expected, found| Err(HeaderError { at: listed.at, expected, found });
        let is_double = match listed.kind {
            FLOAT => false,
            DOUBLE => true,
            other => {
                let found = format!("type {other} of {}", listed.name);
                return error("numbers of 32 or 64 bits, type 5 or 6", found);
            }
        };
        let unit = match &listed.units {
            None => units[0].1,
            Some(given) => {
                let one = given.strip_suffix('s').unwrap_or(given);
                let known = units.iter().find(|(name, _)| given == name || one == *name);
                let Some((_, unit)) = known else {
                    let found = format!("{given:?} of {}", listed.name);
                    return error("units that Amber's convention has, or nanometer", found);
                };
                *unit
            }
        };
        let scale = listed.scale.unwrap_or(1.0);
        if !(scale.is_finite() && scale != 0.0) {
            return error("a scale_factor that is finite and not 0", scale.to_string());
        }
        let n_bytes = n * if is_double { 8 } else { 4 };
        let stride = layout.records.map_or(n_bytes, |[_, n_bytes]| n_bytes);
        Ok(Variable { begin: listed.begin, stride, n_bytes, is_double, unit: unit * scale })
    }
}

const LENGTHS: [(&str, f64); 3] = [("angstrom", 1.0), ("nanometer", 10.0), ("nm", 10.0)];
const ANGLES: [(&str, f64); 2] = [("degree", 1.0), ("radian", 180.0 / std::f64::consts::PI)];
const TIMES: [(&str, f64); 4] =
    [("picosecond", 1.0), ("ps", 1.0), ("femtosecond", 1e-3), ("nanosecond", 1e3)];

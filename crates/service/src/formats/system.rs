//! Files of systems that other programs have built: whether they are what they are said to be.
//!
//! What they hold, the worker reads. Of a serialized `System` OpenMM makes an object for each
//! attribute `type`, of plug-ins and of Python too, so only types that calculate and do nothing
//! else pass; `serialized.py` of the worker looks at the same again.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::expression;
use super::problem::Problem;

const MAX_ELEMENTS: usize = 20_000_000;
const MAX_DEPTH: usize = 16;

/// What a `System` may have; those that a job has of its own, the worker takes out.
const TYPES: [&str; 26] = [
    "AndersenThermostat",
    "CMAPTorsionForce",
    "CMMotionRemover",
    "Continuous1DFunction",
    "Continuous2DFunction",
    "Continuous3DFunction",
    "CustomAngleForce",
    "CustomBondForce",
    "CustomCentroidBondForce",
    "CustomCompoundBondForce",
    "CustomExternalForce",
    "CustomNonbondedForce",
    "CustomTorsionForce",
    "Discrete1DFunction",
    "Discrete2DFunction",
    "Discrete3DFunction",
    "HarmonicAngleForce",
    "HarmonicBondForce",
    "MonteCarloAnisotropicBarostat",
    "MonteCarloBarostat",
    "MonteCarloFlexibleBarostat",
    "MonteCarloMembraneBarostat",
    "NonbondedForce",
    "PeriodicTorsionForce",
    "RBTorsionForce",
    "System",
];

/// What a file that begins well goes on as.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Text,
    Binary,
}

/// Whether a file begins as one of its format, which is given by its name.
pub(super) fn check_head(head: &[u8], format: &str) -> Result<Rest, Problem> {
    let problem = match format {
        "zip" if head.starts_with(b"PK\x03\x04") => return Ok(Rest::Binary),
        "zip" => "it is no zip archive",
        // A restart file may be NetCDF, which is no text.
        "inpcrd" if head.starts_with(b"CDF") => return Ok(Rest::Binary),
        "prmtop" if !head.trim_ascii_start().starts_with(b"%") => {
            "it does not begin with %VERSION or %FLAG"
        }
        "psf" if !head.starts_with(b"PSF") => "it does not begin with PSF",
        _ if head.trim_ascii().is_empty() => "it is empty",
        _ => return Ok(Rest::Text),
    };
    Err(Problem::whole(problem))
}

/// Whether the first element of a text is that of a serialized `System`.
pub(super) fn is_system(text: &str) -> bool {
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event() {
            Ok(Event::Start(element) | Event::Empty(element)) => {
                return element.name().as_ref() == "System";
            }
            Ok(Event::Eof) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

/// Whether a text is a `System` of forces that can be run.
pub(super) fn check(text: &str) -> Result<(), Problem> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let (mut depth, mut elements) = (0_usize, 0_usize);
    // A line is counted from where the last one was: a system has millions.
    let (mut line, mut counted) = (1, 0);
    loop {
        let event = reader.read_event();
        let end = usize::try_from(reader.buffer_position()).unwrap_or(text.len()).min(text.len());
        line += text.as_bytes()[counted..end].iter().filter(|byte| **byte == b'\n').count();
        counted = end;
        match event {
            Err(error) => return Err(Problem::at(line, error.to_string())),
            Ok(Event::DocType(_)) => return Err(Problem::at(line, "DOCTYPE is not allowed")),
            Ok(Event::Start(element)) => {
                check_element(&element, depth, line)?;
                (depth, elements) = (depth + 1, elements + 1);
            }
            Ok(Event::Empty(element)) => {
                check_element(&element, depth, line)?;
                elements += 1;
            }
            Ok(Event::End(_)) => depth = depth.saturating_sub(1),
            Ok(Event::Eof) if depth > 0 => {
                return Err(Problem::at(line, "an element is not closed"));
            }
            Ok(Event::Eof) => return Ok(()),
            Ok(_) => {}
        }
        if depth > MAX_DEPTH || elements > MAX_ELEMENTS {
            let what = "it has too many elements, or they are nested too deeply";
            return Err(Problem::at(line, what));
        }
    }
}

fn check_element(element: &BytesStart<'_>, depth: usize, line: usize) -> Result<(), Problem> {
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|e| Problem::at(line, e.to_string()))?;
        let (key, value) = (attribute.key.as_ref(), attribute.value.as_ref());
        match key {
            "type" if !TYPES.contains(&value) || (value == "System") != (depth == 0) => {
                let what = format!(
                    "a {value} is not allowed: it is not one of the forces that jobs run with"
                );
                return Err(Problem::at(line, what));
            }
            "energy" | "expression" => expression::check(value)
                .map_err(|reason| Problem::at(line, format!("{key} {reason}")))?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = r#"<?xml version="1.0" ?>
<System openmmVersion="8.6.1" type="System" version="1">
	<Forces>
		<Force energy="k*(r-r0)^2" name="spring" type="CustomBondForce" version="3"/>
	</Forces>
</System>"#;

    fn problem(text: &str) -> String {
        check(text).err().map_or_else(|| "fine".to_owned(), |problem| problem.to_string())
    }

    #[test]
    fn a_system_of_forces_that_calculate_is_taken() {
        assert!(is_system(SYSTEM) && !is_system("<ForceField/>") && !is_system("System"));
        assert_eq!(problem(SYSTEM), "fine");
    }

    #[test]
    fn a_system_that_could_do_anything_else_is_refused_with_the_line() {
        let deep = "(".repeat(200);
        for (old, new, words) in [
            ("CustomBondForce", "PythonForce", "line 4: a PythonForce is not allowed"),
            ("CustomBondForce", "TorchForce", "line 4: a TorchForce is not allowed"),
            ("CustomBondForce", "System", "line 4: a System is not allowed"),
            ("k*(r-r0)^2", &deep, "line 4: energy has more than 100 parentheses"),
            ("<System ", "<!DOCTYPE a><System ", "line 2: DOCTYPE is not allowed"),
            ("\n</System>", "", "an element is not closed"),
        ] {
            let found = problem(&SYSTEM.replace(old, new));
            assert!(found.contains(words), "{words:?} expected, found {found:?}");
        }
    }

    #[test]
    fn the_types_are_those_of_the_worker() {
        let source = include_str!("../../../../worker/molbox_worker/built/serialized.py");
        let words = |table: &str| -> Vec<String> {
            let (_, rest) = source.split_once(&format!("\n{table} = frozenset(")).unwrap();
            let (text, _) = rest.split_once(".split()").unwrap();
            let quoted = text.split('"').skip(1).step_by(2);
            quoted.flat_map(str::split_whitespace).map(str::to_owned).collect()
        };
        let mut all = ["FORCES", "REPLACED", "OTHERS"].map(words).concat();
        all.sort_unstable();
        assert_eq!(all, TYPES);
    }

    #[test]
    fn a_file_that_is_of_another_format_is_told_by_its_beginning() {
        let said = |format: &str, head: &[u8]| match check_head(head, format) {
            Ok(rest) => format!("{rest:?}"),
            Err(problem) => problem.to_string(),
        };
        assert_eq!(said("prmtop", b"%VERSION  VERSION_STAMP = V0001.000\n"), "Text");
        assert_eq!(said("prmtop", b"ATOM\n"), "it does not begin with %VERSION or %FLAG");
        assert_eq!(said("psf", b"ATOM\n"), "it does not begin with PSF");
        assert_eq!(said("zip", b"no"), "it is no zip archive");
        assert_eq!(said("inpcrd", b"CDF\x01\0\0"), "Binary");
        assert_eq!(said("top", b" \n"), "it is empty");
    }
}

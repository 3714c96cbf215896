//! OpenMM force-field XML from strangers.
//!
//! OpenMM runs what stands in `<Script>` and `<InitializationScript>`, evaluates the attribute
//! `useDispersionCorrection` as Python, and reads the file that `<Include>` names. So only known
//! elements pass, only names are text, and everything else is a number.

use quick_xml::Reader;
use quick_xml::events::{BytesDecl, BytesStart, Event};

use super::expression;
use super::problem::Problem;

const MAX_ELEMENTS: usize = 1_000_000;
const MAX_DEPTH: usize = 12;
/// Names of encodings in which ASCII is what it is.
const ENCODINGS: [&str; 5] = ["utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1"];

/// What OpenMM 8.6 reads in a force field and takes for data.
const ELEMENTS: [&str; 58] = [
    "AddAtom",
    "AddBond",
    "AddExternalBond",
    "AllowPatch",
    "AmoebaUreyBradleyForce",
    "Angle",
    "ApplyToResidue",
    "Atom",
    "AtomTypes",
    "Bond",
    "CMAPTorsionForce",
    "ChangeAtom",
    "ComputedValue",
    "CustomAngleForce",
    "CustomBondForce",
    "CustomGBForce",
    "CustomHbondForce",
    "CustomManyParticleForce",
    "CustomNonbondedForce",
    "CustomTorsionForce",
    "DateGenerated",
    "EnergyTerm",
    "ExternalBond",
    "ForceField",
    "Function",
    "GBSAOBCForce",
    "GlobalParameter",
    "HarmonicAngleForce",
    "HarmonicBondForce",
    "Improper",
    "Info",
    "LennardJonesForce",
    "Map",
    "NBFixPair",
    "NonbondedForce",
    "Patch",
    "Patches",
    "PerAngleParameter",
    "PerBondParameter",
    "PerParticleParameter",
    "PerTorsionParameter",
    "PeriodicTorsionForce",
    "Proper",
    "RBTorsionForce",
    "Reference",
    "RemoveAtom",
    "RemoveBond",
    "RemoveExternalBond",
    "Residue",
    "Residues",
    "Source",
    "Torsion",
    "Type",
    "TypeFilter",
    "UreyBradley",
    "UseAttributeFromResidue",
    "VirtualSite",
    "Exclusion",
];
/// These would run code or read files.
const DANGEROUS: [&str; 3] = ["Include", "InitializationScript", "Script"];
/// Information for people, never looked at by OpenMM.
const INFORMATION: [&str; 4] = ["DateGenerated", "Info", "Reference", "Source"];
/// Attributes that are names or formulas of OpenMM's own language, which has no side effects.
/// A number may follow those of atoms, types and classes.
const NAMES: [&str; 18] = [
    "atom",
    "atomName",
    "class",
    "element",
    "energy",
    "expression",
    "from",
    "name",
    "ordering",
    "param",
    "permutationMode",
    "residue",
    "siteName",
    "to",
    "type",
    "atomTypes",
    "mode",
    "residues",
];

/// Whether a text is a force field that can be given to OpenMM.
pub(super) fn check(text: &str) -> Result<(), Problem> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut depth = 0_usize;
    let mut elements = 0;
    // A line is counted from where the last one was: there may be a million elements.
    let (mut line, mut counted) = (1, 0);
    loop {
        let event = reader.read_event();
        let position =
            if event.is_err() { reader.error_position() } else { reader.buffer_position() };
        let end = usize::try_from(position).unwrap_or(text.len()).clamp(counted, text.len());
        line += text.as_bytes()[counted..end].iter().filter(|byte| **byte == b'\n').count();
        counted = end;
        match event {
            Err(error) => return Err(Problem::at(line, error.to_string())),
            Ok(Event::Decl(declaration)) => check_encoding(&declaration, line)?,
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
            Ok(Event::Eof) if elements == 0 => return Err(Problem::whole("it has no element")),
            Ok(Event::Eof) if depth > 0 => {
                return Err(Problem::at(line, "an element is not closed"));
            }
            Ok(Event::Eof) => return Ok(()),
            Ok(_) => {}
        }
        if depth > MAX_DEPTH || elements > MAX_ELEMENTS {
            return Err(Problem::at(
                line,
                "it has too many elements, or they are nested too deeply",
            ));
        }
    }
}

/// In another encoding the text may be something else to OpenMM than to this check.
fn check_encoding(declaration: &BytesDecl<'_>, line: usize) -> Result<(), Problem> {
    let encoding = match declaration.encoding() {
        None => return Ok(()),
        Some(encoding) => encoding.map_err(|error| Problem::at(line, error.to_string()))?,
    };
    if ENCODINGS.iter().any(|known| known.eq_ignore_ascii_case(&encoding)) {
        return Ok(());
    }
    Err(Problem::at(line, format!("its encoding is {encoding}; save it as UTF-8")))
}

fn check_element(element: &BytesStart<'_>, depth: usize, line: usize) -> Result<(), Problem> {
    let name = element.name();
    let name = name.as_ref();
    if depth == 0 && name != "ForceField" {
        return Err(Problem::at(
            line,
            format!("the root is <{name}>, not <ForceField>, nor <System> as OpenMM writes it"),
        ));
    }
    if DANGEROUS.contains(&name) {
        return Err(Problem::at(
            line,
            format!("<{name}> is not allowed: it can run code or read files"),
        ));
    }
    if !ELEMENTS.contains(&name) {
        return Err(Problem::at(
            line,
            format!("<{name}> is not an element that is known to be harmless"),
        ));
    }
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|e| Problem::at(line, e.to_string()))?;
        if INFORMATION.contains(&name) {
            continue;
        }
        let key = attribute.key.as_ref();
        let value = attribute.value.as_ref();
        let stem = key.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_name = NAMES.contains(&stem) && !value.contains(['<', '&']);
        let is_truth = ["true", "false", "True", "False", "0", "1"].contains(&value.trim());
        if ["energy", "expression"].contains(&stem) {
            expression::check(value)
                .map_err(|reason| Problem::at(line, format!("{key} of <{name}> {reason}")))?;
        }
        if key == "useDispersionCorrection" && !is_truth {
            return Err(Problem::at(
                line,
                format!("{key} of <{name}> is {value:?}, neither true nor false"),
            ));
        }
        if !is_name && !is_truth && !value.trim().parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(Problem::at(line, format!("{key} of <{name}> is {value:?}, not a number")));
        }
    }
    Ok(())
}

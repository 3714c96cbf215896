"""What residues are called: by the PDB, by simulation programs, and by the people who deposit them.

A name alone proves little: HIP is a charged histidine in Amber and a phosphorylated one in the PDB,
DCY a nucleotide in X-PLOR and a D-cysteine in the PDB. So each is taken only with the atoms that it
stands for.
"""

from __future__ import annotations

import re

from openmm.app import PDBFile

AMINO_ACIDS = frozenset(
    "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL".split()  # noqa: SIM905
)
DNA = frozenset({"DA", "DC", "DG", "DT"})
RNA = frozenset({"A", "C", "G", "U"})
NUCLEOTIDES = DNA | RNA
CAPS = frozenset({"ACE", "NME", "NH2"})
POLYMER = AMINO_ACIDS | NUCLEOTIDES | CAPS
# Charges of lone atoms by the PDB's dictionary of components, e; an atom of uranium has none there. What
# is not listed has one state in practice, as gadolinium, which the dictionary has as an atom too.
ION_CHARGES = {
    **dict.fromkeys("AG AU CS CU1 K LI NA RB TL".split(), 1),  # noqa: SIM905
    **dict.fromkeys("BA CA CD CO CU EU FE2 HG MG MN NI PB PD PT SR Y1 YB2 ZN".split(), 2),  # noqa: SIM905
    **dict.fromkeys("3CO 3NI AL AU3 CE CR ER3 EU3 FE GA GD3 HO3 IN LA LU MN3 PR SM TB V YB YT3".split(), 3),  # noqa: SIM905
    **dict.fromkeys("IR OS4 PT4 TH ZR".split(), 4),  # noqa: SIM905
    **dict.fromkeys("BR CL F IOD".split(), -1),  # noqa: SIM905
    "U1": 0,
}
GLYCANS = frozenset(
    "NAG NDG BMA MAN FUC FUL GAL GLA GLC BGC SIA XYP XYS NGA A2G".split()  # noqa: SIM905
)

# The protonation that names ask for, as Modeller calls it: Amber's, CHARMM's and GROMACS' names.
VARIANTS = {
    **dict.fromkeys(("ASH", "ASPP", "ASPH"), ("ASP", "ASH")),
    **dict.fromkeys(("GLH", "GLUP", "GLUH"), ("GLU", "GLH")),
    **dict.fromkeys(("LYN", "LSN"), ("LYS", "LYN")),
    **dict.fromkeys(("LYP", "LYSH"), ("LYS", "LYS")),
    **dict.fromkeys(("HID", "HSD", "HISD", "HISA"), ("HIS", "HID")),
    **dict.fromkeys(("HIE", "HSE", "HISE", "HISB"), ("HIS", "HIE")),
    **dict.fromkeys(("HIP", "HSP", "HISH"), ("HIS", "HIP")),
    # Without its bond, Modeller's CYX is the thiolate.
    **dict.fromkeys(("CYM", "CYX", "CYS2"), ("CYS", "CYX")),
    "CYSH": ("CYS", "CYS"),
}
# Elements of proteins and nucleic acids; none has two letters.
LETTERS = frozenset("CHNOPS")
# Their parameters in force fields without CMAP are those of the mirror image.
MIRRORED = {
    "DAL": "ALA", "DAR": "ARG", "DSG": "ASN", "DAS": "ASP", "DCY": "CYS", "DGN": "GLN", "DGL": "GLU",
    "DHI": "HIS", "DIL": "ILE", "DLE": "LEU", "DLY": "LYS", "MED": "MET", "DPN": "PHE", "DPR": "PRO",
    "DSN": "SER", "DTH": "THR", "DTR": "TRP", "DTY": "TYR", "DVA": "VAL",
}  # fmt: skip
MIRROR_IMAGES = {standard: mirrored for mirrored, standard in MIRRORED.items()}
# What the experiment made of a standard residue: selenium for its phases, and what air, X-rays and
# buffers leave on a cysteine. None has a charge that the standard residue has not.
ARTEFACTS = {
    "MSE": "MET",  # selenomethionine
    "CSO": "CYS",  # sulfenic acid
    "CSX": "CYS",  # sulfoxide
    "CME": "CYS",  # disulfide with mercaptoethanol
    "CAS": "CYS",  # dimethylarsenic of cacodylate
}
NUCLEOTIDE_NAMES = {"ADE": "A", "CYT": "C", "GUA": "G", "URA": "U", "THY": "DT", "T": "DT", "DAD": "DA", "DCY": "DC"}
NUCLEOTIDE = re.compile(r"(D[ACGT]|R[ACGU]|[ACGU])[35N]?")
WATERS = frozenset(
    "HOH H2O WAT SOL TIP TIP3 TIP4 TIP5 TP3 TP4 TP5 T3P T4P T5P SPC SPCE DOD".split()  # noqa: SIM905
)
OTHER_CAPS = {"NMA": "NME", "NHE": "NH2"}
# Ions of CHARMM, whose names begin with the letters of other elements.
ELEMENTS_OF_IONS = {"SOD": "Na", "POT": "K", "CLA": "Cl", "CAL": "Ca", "CES": "Cs", "LIT": "Li", "RUB": "Rb"}
IONS = {name: element.upper() for name, element in ELEMENTS_OF_IONS.items()}
# Atoms of the caps that CHARMM writes into the residue that carries them.
CAP_BEFORE = {"CAY": "CH3", "CY": "C", "OY": "O"}
CAP_AFTER = {"NT": "N", "CAT": "C"}


def standard(name: str, heavy: set[str]) -> tuple[str, str | None] | None:
    """The standard residue and the protonation that a name stands for, with these heavy atoms.

    None when the name is no other one of a standard residue, or its atoms are of something else.
    """
    if name in VARIANTS:
        return VARIANTS[name] if is_made_of(VARIANTS[name][0], heavy) else None
    if len(name) == 4 and name[0] in "NC":
        # Amber's ends of chains.
        inner = name[1:]
        found = (inner, None) if inner in AMINO_ACIDS else standard(inner, heavy)
        return found if found and is_made_of(found[0], heavy) else None
    has_sugar = {"C1'", "C1*"} & heavy
    if has_sugar and name in NUCLEOTIDE_NAMES:
        return deoxy(NUCLEOTIDE_NAMES[name], heavy), None
    match = NUCLEOTIDE.fullmatch(name)
    if has_sugar and match:
        return deoxy(match[1].removeprefix("R"), heavy), None
    return None


def is_of_polymer(name: str) -> bool:
    """Whether a residue's name, of any program, is one of proteins and nucleic acids."""
    known = POLYMER | VARIANTS.keys() | MIRRORED.keys() | NUCLEOTIDE_NAMES.keys() | OTHER_CAPS.keys() | ARTEFACTS.keys()
    inner = name[1:] if len(name) == 4 else name
    return name in known or inner in known or NUCLEOTIDE.fullmatch(name) is not None


def is_made_of(residue: str, heavy: set[str]) -> bool:
    """Whether heavy atoms, under whatever names, are all of a standard residue."""
    replacements = atom_names(residue)
    return {replacements.get(name, name) for name in heavy} <= HEAVY[residue]


def deoxy(name: str, heavy: set[str]) -> str:
    """The deoxyribonucleotide for a ribonucleotide's name, where the sugar is whole but for O2'.

    So DNA is written in files of CHARMM and in those from before 2007.
    """
    ring = {"C1", "C2", "C3"}
    is_deoxy = not {"O2'", "O2*"} & heavy and ring <= {atom[:2] for atom in heavy if atom[2:] in {"'", "*"}}
    return f"D{name}" if is_deoxy and name in {"A", "C", "G"} else name


def atom_names(residue: str) -> dict[str, str]:
    """OpenMM's names for other names of the atoms of a residue."""
    PDBFile._loadNameReplacementTables()
    found: dict[str, str] = PDBFile._atomNameReplacements.get(residue, {})
    return found


_SIDE_CHAINS = {
    "ALA": "CB", "ARG": "CB CG CD NE CZ NH1 NH2", "ASN": "CB CG OD1 ND2", "ASP": "CB CG OD1 OD2",
    "CYS": "CB SG", "GLN": "CB CG CD OE1 NE2", "GLU": "CB CG CD OE1 OE2", "GLY": "",
    "HIS": "CB CG ND1 CD2 CE1 NE2", "ILE": "CB CG1 CG2 CD1", "LEU": "CB CG CD1 CD2", "LYS": "CB CG CD CE NZ",
    "MET": "CB CG SD CE", "PHE": "CB CG CD1 CD2 CE1 CE2 CZ", "PRO": "CB CG CD", "SER": "CB OG",
    "THR": "CB OG1 CG2", "TRP": "CB CG CD1 CD2 NE1 CE2 CE3 CZ2 CZ3 CH2",
    "TYR": "CB CG CD1 CD2 CE1 CE2 CZ OH", "VAL": "CB CG1 CG2",
}  # fmt: skip
_BASES = {
    "A": "N9 C8 N7 C5 C6 N6 N1 C2 N3 C4", "C": "N1 C2 O2 N3 C4 N4 C5 C6",
    "G": "N9 C8 N7 C5 C6 O6 N1 C2 N2 N3 C4", "U": "N1 C2 O2 N3 C4 O4 C5 C6", "T": "N1 C2 O2 N3 C4 O4 C5 C7 C6",
}  # fmt: skip
_SUGAR = "P OP1 OP2 OP3 O5' C5' C4' O4' C3' O3' C2' C1'"
# Heavy atoms of each, those of its ends included.
HEAVY: dict[str, set[str]] = {
    **{name: {"N", "CA", "C", "O", "OXT", *atoms.split()} for name, atoms in _SIDE_CHAINS.items()},
    **{name: {"O2'", *_SUGAR.split(), *_BASES[name].split()} for name in RNA},
    **{name: {*_SUGAR.split(), *_BASES[name[1]].split()} for name in DNA},
    "ACE": {"CH3", "C", "O"},
    "NME": {"N", "C"},
    "NH2": {"N"},
}

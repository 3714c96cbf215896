"""What becomes of each residue and each bond between residues: built as what it is, removed, or refused.

Beside the polymers a residue may go, with a warning. Within a chain it may not: its neighbours would
be bonded over the hole. What hangs on a chain may go when what carries it is complete without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from openmm import app
from openmm.app.forcefield import CMAPTorsionGenerator

from molbox_worker import force_field, links, names, templates
from molbox_worker.chains import Run, is_nucleotide
from molbox_worker.directory import TaskDirectory
from molbox_worker.plan import BuildPlan
from molbox_worker.result import TaskError
from molbox_worker.structure import Link, Residue, Structure

# More residues of a kind are counted, not listed.
MAX_NAMED = 20
SINGLY_CHARGED = {"NA", "K", "LI", "RB", "CS", "CL", "BR", "F", "IOD", "I"}
# Charges of an ion that differ by less, e, are of one state of oxidation.
SAME_CHARGE = 0.8
# Two residues may have a peptide bond and another one.
MAX_BONDS = 2
# Phosphates of amino acids are dianions above this pH.
PHOSPHATE_PKA = 5.8
PHOSPHATE_ATOMS = {"P", "O1P", "O2P", "O3P"}
PHOSPHATES = {"SEP": ("SER", "HG"), "TPO": ("THR", "HG1"), "PTR": ("TYR", "HH")}
LOC: list[str | int] = ["body", "protein"]
OTHER_FORCE_FIELD = (
    "register a force-field file with a template of that name for it and add it to force_field, or leave the"
    " chain out with chain_id"
)


class Decision:
    """What is decided of a structure.

    Attributes
    ----------
    runs, others
        The residues that stay, in chains and beside them.
    removed
        Those that do not.
    links
        Bonds to build besides those along runs.

    """

    def __init__(
        self, task: TaskDirectory, plan: BuildPlan, base: app.ForceField, runs: list[Run], structure: Structure
    ) -> None:
        self._task = task
        self._plan = plan
        self._base = base
        custom = plan.force_field.custom
        self._custom = force_field.templates(task.input(custom.file)) if custom else set()
        self.runs = runs
        in_runs = {residue for run in runs for residue in run.residues}
        self.others = [residue for residue in structure.residues() if residue not in in_runs]
        self.removed: list[Residue] = []
        self._ion_charges: dict[Residue, float] = {}
        self._order = {residue: i for i, residue in enumerate(structure.residues())}
        self.links: list[Link] = []
        # Water and ions are bonded to nothing.
        dry = [residue for residue in structure.residues() if len(residue.heavy) > 1 or residue.name in names.CAPS]
        self._found = links.find(dry, structure.links, runs)
        self._attached: dict[Residue, list[Link]] = defaultdict(list)
        for link in self._found:
            self._attached[link.first[0]].append(link)
            self._attached[link.second[0]].append(link)
        self._new_ends: dict[Residue, str] = {}
        self._kept_hands: list[Residue] = []
        self._cut_bonds = [pair for run in runs for pair in run.pairs()]
        for run in runs:
            self._decide_run(run)
        self.runs = [run for run in self.runs if run.residues]
        self._decide_others()
        self._refuse_holes()
        self._decide_links()
        for run in self.runs:
            for residue in run.residues:
                _refuse_foreign_atoms(residue, is_last=residue is run.residues[-1] and not run.is_closed)
        self._report_removed()
        self._report_hands()

    # --- in chains

    def _decide_run(self, run: Run) -> None:
        """Remove what is not known from the ends of a chain; within it, refuse it."""
        while run.residues:
            for i, residue in enumerate(run.residues):
                self._decide_monomer(run, i, residue)
            known = [self._is_known(residue) for residue in run.residues]
            if all(known):
                break
            # What comes to be an end by this may need another template.
            self._cut(run, known)
        if self._is_lone(run):
            self.removed += run.residues
            run.residues = []

    def _cut(self, run: Run, known: list[bool]) -> None:
        n_before = known.index(True) if True in known else len(known)
        n_after = known[::-1].index(True) if True in known else 0
        start, end = n_before, len(known) - n_after
        unknown = next((run.residues[i] for i in range(start, end) if not known[i]), None)
        if unknown is not None:
            self._refuse_unknown(unknown)
        if start < end:
            for residue in run.residues[:start]:
                self._new_ends[residue] = f"chain {run.chain} begins with {run.residues[start]} now"
            for residue in run.residues[end:]:
                self._new_ends[residue] = f"chain {run.chain} ends with {run.residues[end - 1]} now"
        self.removed += run.residues[:start] + run.residues[end:]
        run.residues = run.residues[start:end]
        if run.residues:
            run.loops.pop(run.residues[0], None)

    def _decide_monomer(self, run: Run, i: int, residue: Residue) -> None:
        """Set what OpenMM does not know of a residue that the force field knows."""
        if residue.name in names.MIRROR_IMAGES and not residue.is_mirrored and residue.has_hand_of_d:
            residue.is_mirrored = True
            self._kept_hands.append(residue)
        if residue.is_mirrored:
            self._check_mirrored(residue)
        if residue.name not in names.POLYMER and residue.name not in names.ARTEFACTS:
            self._take_template(residue, self._outside(residue, run, i), is_first=i == 0)

    def _outside(self, residue: Residue, run: Run | None, i: int) -> set[str]:
        """Names of a residue's atoms that are bonded to other residues."""
        ends = [end for link in self._attached[residue] for end in (link.first, link.second)]
        outside = {atom.name for other, atom in ends if other is residue}
        if run is not None:
            before, after = ("P", "O3'") if is_nucleotide(residue) else ("N", "C")
            outside |= {before} if i > 0 else set()
            outside |= {after} if i + 1 < len(run.residues) else set()
        return outside

    def _take_template(self, residue: Residue, outside: set[str], *, is_first: bool = False) -> bool:
        """Give a residue the bonds and hydrogens of its template; whether there is one."""
        residue.bonds = templates.own_bonds(residue)
        residue.hydrogens = None
        if self._plan.force_field.is_charmm:
            residue.hydrogens = self._phosphate(residue)
        if residue.hydrogens is None:
            residue.hydrogens = templates.hydrogens(self._base, residue, outside)
        if residue.hydrogens is None and self._plan.force_field.is_charmm:
            residue.hydrogens = self._inner(residue, outside)
        if (
            residue.hydrogens is not None
            and is_first
            and self._plan.force_field.is_charmm
            and not is_nucleotide(residue)
        ):
            n_more = 3 - sum(parent == "N" for _, parent in residue.hydrogens)
            residue.hydrogens = residue.hydrogens + [(name, "N") for name in ("HT1", "HT2", "HT3")[:n_more]]
        if residue.hydrogens is None:
            residue.bonds = []
        return residue.hydrogens is not None

    def _phosphate(self, residue: Residue) -> list[tuple[str, str]] | None:
        """The hydrogens of a phosphorylated amino acid, which CHARMM makes of the other by a patch."""
        if residue.name not in PHOSPHATES or not {atom.name for atom in residue.heavy} >= PHOSPHATE_ATOMS:
            return None
        if self._plan.ph < PHOSPHATE_PKA:
            return None
        parent, lost = PHOSPHATES[residue.name]
        return [pair for pair in templates.standard_hydrogens(parent) if pair[0] != lost]

    def _inner(self, residue: Residue, outside: set[str]) -> list[tuple[str, str]] | None:
        """The hydrogens of a residue at an end of a chain, of which CHARMM has the inner one and patches."""
        if is_nucleotide(residue):
            return None
        end = residue.atom("OXT")
        residue.atoms = [atom for atom in residue.atoms if atom is not end]
        found = templates.hydrogens(self._base, residue, outside | {"N", "C"})
        residue.atoms += [end] if end else []
        return found

    def _check_mirrored(self, residue: Residue) -> None:
        if any(isinstance(force, CMAPTorsionGenerator) for force in self._base._forces):
            what = "has the shape of a D-amino acid" if residue in self._kept_hands else "is a D-amino acid"
            raise TaskError(
                "no_template",
                f"{residue} {what}; the correction maps of {self._plan.force_field.name} are those of L-amino acids",
                remedy="choose amber14, amber14-ff15ipq or amberfb15, whose parameters hold for mirror images",
                loc=LOC,
                residues=[residue.called],
            )

    def _is_known(self, residue: Residue) -> bool:
        return residue.name in names.POLYMER or residue.name in names.ARTEFACTS or residue.hydrogens is not None

    def _refuse_unknown(self, residue: Residue) -> None:
        name = self._plan.force_field.name
        has_name = residue.name in self._base._templates
        why = (
            f"its heavy atoms are not those of the template {residue.name} of {name}"
            if has_name
            else f"{name} has no template for it, and no other residue is the same"
        )
        raise TaskError(
            "no_template",
            f"{residue} is part of a chain and cannot be left out of it: {why}",
            remedy=OTHER_FORCE_FIELD,
            loc=LOC,
            residues=[residue.called],
        )

    def _is_lone(self, run: Run) -> bool:
        """Whether a run is one residue alone; Amber has none that is both ends of a chain."""
        monomers = [residue for residue in run.residues if residue.name not in names.CAPS]
        has_template = any(residue.hydrogens is not None for residue in run.residues)
        return not monomers or (len(run.residues) == 1 and not has_template and not self._plan.force_field.is_charmm)

    # --- beside chains

    def _decide_others(self) -> None:
        stays = []
        for residue in self.others:
            if residue.is_water:
                _check_water(residue)
                stays.append(residue)
            elif len(residue.atoms) == 1 and self._is_ion(residue):
                if residue.name not in SINGLY_CHARGED:
                    self._task.warn(
                        "metal_kept",
                        f"{residue} kept as an ion of charge {self._ion_charges[residue]:+g} without bonds;"
                        " its coordination may change",
                        residue.called,
                    )
                stays.append(residue)
            elif residue.name in self._custom and self._fits_template(residue):
                stays.append(residue)
            else:
                self.removed.append(residue)
        self.others = stays

    def _is_ion(self, residue: Residue) -> bool:
        """Whether the force field has one template for a lone atom, of the charge that it has."""
        (atom,) = residue.atoms
        if atom.element is None:
            return False
        charge = force_field.ion_charge(self._base, residue.name, atom.name, atom.element)
        if charge is None:
            return False
        self._ion_charges[residue] = charge
        wanted = _charge_of(residue)
        # Some scale the charges of ions by 0.75. Whoever gives a template of that name means it.
        return wanted is None or residue.name in self._custom or not abs(charge - wanted) > SAME_CHARGE

    def _fits_template(self, residue: Residue) -> bool:
        """Whether a residue of a custom force field is there whole; with what hydrogens it has, if need be."""
        if self._take_template(residue, self._outside(residue, None, 0)):
            return True
        # Perhaps of a template in which atoms that look heavy have no place, or without its bonds.
        residue.bonds = templates.own_bonds(residue)
        raise TaskError(
            "no_template",
            f"{residue} has not the heavy atoms and bonds of the template {residue.name}",
            remedy="complete it in the structure file, or correct the template in the force-field file",
            loc=LOC,
            residues=[residue.called],
        )

    def _refuse_holes(self) -> None:
        """Refuse to remove parts of chains that hold others together, as in a branched or cyclic peptide.

        Some have other names for the atoms of the backbone, as the chromophores of fluorescent proteins
        do: they are in no run, and are known by the ends of chains that they are bonded to.
        """
        gone = set(self.removed)
        stays = {residue for run in self.runs for residue in run.residues}
        neighbours: dict[Residue, set[Residue]] = defaultdict(set)
        for first, second in [*self._cut_bonds, *((link.first[0], link.second[0]) for link in self._found)]:
            neighbours[first].add(second)
            neighbours[second].add(first)
        for residue in self.removed:
            part, new = {residue}, [residue]
            while new:
                fresh = (neighbours[new.pop()] & gone) - part
                part |= fresh
                new += fresh
            if residue in self._new_ends:
                held = {other for member in part for other in neighbours[member] if other in stays}
            else:
                ends = [end for member in part for link in self._attached[member] for end in (link.first, link.second)]
                held = {other for other, atom in ends if other in stays and atom.name in links.BACKBONE}
            if len(held) > 1:
                self._refuse_unknown(residue)

    # --- bonds

    def _decide_links(self) -> None:
        gone = set(self.removed)
        self._refuse_copies(gone)
        for link in self._found:
            if {link.first[0], link.second[0]} & gone:
                continue
            run = links.closed_run(link, self.runs)
            if links.is_disulfide(link):
                for residue, _ in (link.first, link.second):
                    residue.variant = "CYX"
                first, second = link.first[0], link.second[0]
                what = f"{first} and {second} are bonded by their sulfur atoms"
                self._task.warn("disulfide_bond", what, first.called, second.called)
            elif run is not None:
                run.is_closed = True
            elif not all(self._takes_link(residue) for residue, _ in (link.first, link.second)):
                self._refuse_link(link)
            self.links.append(link)
        self._free_cysteines()

    def _refuse_copies(self, gone: set[Residue]) -> None:
        """Refuse residues that lie on each other: so many atoms of two are never bonded."""
        pairs = Counter(frozenset((link.first[0], link.second[0])) for link in self._found)
        for pair, count in pairs.items():
            if count > MAX_BONDS and not pair & gone:
                first, second = sorted(pair, key=self._order.__getitem__)
                raise TaskError(
                    "atoms_overlap",
                    f"{first} and {second} lie on each other: {count} pairs of their atoms are as near as bonded ones",
                    remedy="leave one of the two out, with chain_id where they are of two chains; or give alternate"
                    " locations their marks",
                    loc=LOC,
                    residues=[first.called, second.called],
                )

    def _free_cysteines(self) -> None:
        """Leave to the pH what is called the half of a disulfide bond and is none."""
        bonded = {residue for link in self.links for residue, _ in (link.first, link.second)}
        for run in self.runs:
            for residue in run.residues:
                if residue.deposited in {"CYX", "CYS2"} and residue not in bonded:
                    residue.variant = None
                    what = f"{residue} has no other half of a disulfide bond: taken as CYS"
                    self._task.warn("disulfide_open", what, residue.called)

    def _takes_link(self, residue: Residue) -> bool:
        """Whether the force field has a template of a residue with all of its bonds to others."""
        if residue.hydrogens is not None:
            return True
        run, i = next(((run, run.residues.index(residue)) for run in self.runs if residue in run.residues), (None, 0))
        return self._take_template(residue, self._outside(residue, run, i))

    def _refuse_link(self, link: Link) -> None:
        raise TaskError(
            "covalent_link",
            f"{links.describe(link.first)} is bonded to {links.describe(link.second)} ({link.length:.3f} nm);"
            f" {self._plan.force_field.name} has no parameters for residues that are joined like this",
            remedy="register a force-field file with templates of both residues that have this bond, under names of"
            " their own in the structure too; or leave one of the chains out with chain_id",
            loc=LOC,
            residues=[link.first[0].called, link.second[0].called],
        )

    # --- what is reported of it

    def _report_removed(self) -> None:
        kinds: dict[tuple[str, str], list[Residue]] = defaultdict(list)
        for residue in sorted(self.removed, key=self._order.__getitem__):
            code = "glycan_removed" if residue.name in names.GLYCANS else "heterogen_removed"
            kinds[code, residue.deposited].append(residue)
        stays = {residue for run in self.runs for residue in run.residues}
        for (code, name), residues in kinds.items():
            if len(residues) > MAX_NAMED:
                all_called = [residue.called for residue in residues]
                self._task.warn(code, f"{len(residues)} residues {name} removed", *all_called)
                continue
            for residue in residues:
                self._task.warn(code, f"{residue} removed{self._why(residue, stays)}", residue.called)

    def _report_hands(self) -> None:
        kinds: dict[str, list[Residue]] = defaultdict(list)
        for residue in self._kept_hands:
            kinds[residue.name].append(residue)
        for name, residues in kinds.items():
            taken = f"the shape of a D-amino acid: taken as {names.MIRROR_IMAGES[name]}"
            if len(residues) > MAX_NAMED:
                what = f"{len(residues)} residues {residues[0].deposited} have {taken}"
                self._task.warn("configuration_kept", what, *[residue.called for residue in residues])
                continue
            for residue in residues:
                self._task.warn("configuration_kept", f"{residue} has {taken}", residue.called)

    def _why(self, residue: Residue, stays: set[Residue]) -> str:
        carriers = [
            links.describe(end)
            for link in self._attached[residue]
            for end in (link.first, link.second)
            if end[0] is not residue and end[0] in stays
        ]
        if carriers:
            return f", which was bonded to {' and '.join(dict.fromkeys(carriers))}: hydrogens take its place"
        if residue in self._new_ends:
            return f", of which the force field has no template: {self._new_ends[residue]}"
        if residue.name in names.GLYCANS:
            return ": glycans are not built, what carried it is left bare"
        if residue.name in names.AMINO_ACIDS:
            return ": the force field has no amino acid that is a chain by itself"
        if residue in self._ion_charges:
            has, wanted = self._ion_charges[residue], _charge_of(residue)
            return f": its charge is {wanted:+}, and the force field has a template of charge {has:+g} alone"
        return ""


def _charge_of(residue: Residue) -> int | None:
    """The charge of a lone atom by the file, or by its name; None when neither shows it."""
    (atom,) = residue.atoms
    return atom.charge or names.ION_CHARGES.get(residue.name)


def _check_water(residue: Residue) -> None:
    symbols = sorted(atom.element.symbol for atom in residue.atoms if atom.element)
    if symbols.count("O") != 1 or symbols.count("H") != len(symbols) - 1 or len(symbols) > 3:
        atoms = ", ".join(atom.name for atom in residue.atoms) or "nothing"
        raise TaskError(
            "no_template",
            f"{residue} is called water and consists of {atoms}; water has one oxygen, and two hydrogens or none",
            remedy="give ions and other molecules residue names of their own",
            loc=LOC,
            residues=[residue.called],
        )


def _refuse_foreign_atoms(residue: Residue, *, is_last: bool) -> None:
    """Refuse atoms that a standard residue does not have."""
    if residue.name not in names.POLYMER or residue.hydrogens is not None:
        return
    known = names.HEAVY[residue.name] - (set() if is_last else {"OXT"})
    foreign = [atom.name for atom in residue.heavy if atom.name not in known]
    if foreign:
        where = "" if is_last else " within a chain"
        raise TaskError(
            "no_template",
            f"the force field has no template for {residue}: {residue.name} has no atom {', '.join(foreign)}{where}",
            remedy="correct the names of its atoms; or give it a name of its own, and a force-field file with it",
            loc=LOC,
            residues=[residue.called],
        )

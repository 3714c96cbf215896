"""A structure that is complete but for hydrogens, and what became of the file's residues."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openmm import Vec3, app, unit

# While hydrogens are placed, a ligand has no name: Modeller would complete it by that of an amino acid.
NO_NAME = "~"


@dataclass
class Account:
    """What became of the residues of a file.

    Attributes
    ----------
    counts
        Residues ``kept``, ``replaced``, ``removed`` and ``built``.
    identities
        Chain, number and insertion code of the residues that the system has to have.
    joined
        Pairs of these that are bonded.
    deposited : array, shape (n, 3)
        Places of the atoms that are to stay where they are, in nm.
    authors
        What the file calls each chain.

    """

    counts: Counter[str] = field(default_factory=Counter)
    identities: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    joined: set[frozenset[tuple[str, str, str]]] = field(default_factory=set)
    deposited: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))
    authors: dict[str, str] = field(default_factory=dict)


# What `Modeller.addHydrogens` is to place: None by the pH, a variant, or names with their parents' names.
Hydrogens = str | list[tuple[str, str]] | None


@dataclass
class Prepared:
    """A structure that is complete but for hydrogens.

    Attributes
    ----------
    modeller
        Topology and positions.
    hydrogens
        What to place on each residue.
    openmm_names, final_names
        What each is called while hydrogens are placed, and otherwise.
    account
        What became of the file's residues.

    """

    modeller: app.Modeller
    hydrogens: list[Hydrogens] = field(default_factory=list)
    openmm_names: list[str] = field(default_factory=list)
    final_names: list[str] = field(default_factory=list)
    account: Account = field(default_factory=Account)

    def add(self, topology: app.Topology, positions_nm: NDArray[np.float64]) -> None:
        """Put a molecule beside it, hydrogens and all."""
        self.modeller.add(topology, [Vec3(*place) for place in positions_nm] * unit.nanometer)
        taken = {chain.id for chain in self.modeller.topology.chains()}
        new_chains = list(self.modeller.topology.chains())[-topology.getNumChains() :]
        for chain, name in zip(new_chains, chain_letters(taken), strict=False):
            chain.id = name
        new = [residue.name for residue in topology.residues()]
        self.hydrogens += [None] * len(new)
        self.openmm_names += [NO_NAME] * len(new)
        self.final_names += new
        self.account.deposited = np.concatenate([self.account.deposited, positions_nm])

    def remove(self, waters: set[app.topology.Residue]) -> None:
        """Take waters out."""
        gone = {residue.index for residue in waters}
        positions = _positions(self.modeller.positions)
        places = {tuple(positions[atom.index]) for residue in waters for atom in residue.atoms()}
        for residue in waters:
            self.account.identities[residue.chain.id, residue.id, residue.insertionCode] -= 1
        self.account.identities = +self.account.identities
        stays = [tuple(place) not in places for place in self.account.deposited]
        self.account.deposited = self.account.deposited[stays]
        self.account.counts["kept"] -= len(waters)
        self.account.counts["removed"] += len(waters)
        self.forget(gone)
        self.modeller.delete(list(waters))

    def forget(self, gone: set[int]) -> None:
        """Drop what is known of residues by their indices."""
        stays = [i for i in range(len(self.hydrogens)) if i not in gone]
        self.hydrogens = [self.hydrogens[i] for i in stays]
        self.openmm_names = [self.openmm_names[i] for i in stays]
        self.final_names = [self.final_names[i] for i in stays]


def nothing() -> Prepared:
    """A structure of no residues."""
    return Prepared(app.Modeller(app.Topology(), [] * unit.nanometer))


def chain_letters(taken: set[str]) -> Iterator[str]:
    """Names of letters that are not taken, the shortest first."""
    all_names = (
        "".join(letters) for n in itertools.count(1) for letters in itertools.product(ascii_uppercase, repeat=n)
    )
    return (name for name in all_names if name not in taken)


def _positions(positions: Any) -> NDArray[np.float64]:
    return np.array(positions.value_in_unit(unit.nanometer), dtype=np.float64).reshape(-1, 3)

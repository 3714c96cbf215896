"""The parameters of a stage for grompp: those of the plan, and what OpenMM makes of them."""

from __future__ import annotations

import math

import numpy as np

from molbox_worker.gromacs.files import Array
from molbox_worker.gromacs.terms import DirectSpace, Terms, Unsupported
from molbox_worker.plan import SimulatePlan, Stage

# Steps between neighbour lists, between pressure couplings, and between energies at most. Lists of 20 to 80
# steps differ by 10 % in speed, and the shorter fits smaller boxes.
LIST_STEPS = 20
# Where the box is too narrow for the longer ones. A list of one step reaches no farther than the cutoff.
ALL_LIST_STEPS = (LIST_STEPS, 10, 5, 2, 1)
# Most steps between energies: the box is looked at then.
ENERGY_STEPS = 1000
# Six times what a small molecule moves in hot water is half of the box, by its diffusion in nm²/ps.
DIFFUSION, DEVIATIONS = 0.02, 6
DRIFT_STEPS = 100
MAX_INTERVAL = 2**31 - 1
# Up to here LINCS keeps the accuracy of OpenMM's constraints with its own defaults.
SHORT_TIMESTEP_PS = 0.0025
PME_ORDER = 5
TAU_P_PS = 5.0
# Of water, 1/bar. It decides how fast the volume relaxes, not which volumes there are, as long as a coupling takes
# back a small share of what the pressure is off: at 0.8 the volume spreads too far, at 2 it diverges. Not a smaller
# one: held atoms are back in their places within a picosecond, and the volume relaxes against what is softer.
COMPRESSIBILITY = 4.5e-5
LARGEST_SHARE = 0.1
BAR = 16.6054  # kJ/mol/nm³
# A grid of the mesh has no other factors.
FACTORS = (2, 3, 5, 7)
# OpenMM's are of 6 points at least. GROMACS wants more, for the splines of two neighbours not to overlap.
SMALLEST_GRID = 2 * (PME_ORDER - 1)

Parameters = dict[str, object]


def energy_parameters(direct: DirectSpace, tolerance: float, box: Array) -> Parameters:
    """What defines the energy of what is not bonded, as OpenMM's CPU platform has it."""
    alpha, grid = ewald(direct.cutoff, tolerance, box)
    parameters: Parameters = {
        "cutoff-scheme": "Verlet",
        "coulombtype": "PME",
        "rcoulomb": direct.cutoff,
        "rvdw": direct.cutoff,
        # GROMACS would shift both to zero at the cutoff.
        "coulomb-modifier": "None",
        "vdw-modifier": "None",
        "ewald-rtol": repr(math.erfc(alpha * direct.cutoff)),
        "pme-order": PME_ORDER,
        **{f"fourier-n{axis}": n for axis, n in zip("xyz", grid, strict=True)},
        # OpenMM corrects for repulsion too.
        "dispcorr": "AllEnerPres" if direct.has_correction else "no",
        # They are in the topology.
        "constraints": "none",
    }
    if direct.switch is not None:
        parameters |= {"vdw-modifier": "Potential-switch", "rvdw-switch": direct.switch}
    return parameters


def ewald(cutoff: float, tolerance: float, box: Array) -> tuple[float, list[int]]:
    """The width of the charges, 1/nm, and the grid that OpenMM chooses for a tolerance, or one that is finer."""
    alpha = ewald_width(cutoff, tolerance)
    wanted = (math.ceil(2 * alpha * box[i, i] / (3 * tolerance**0.2)) for i in range(3))
    return alpha, [_smooth(max(SMALLEST_GRID, n)) for n in wanted]


def ewald_width(cutoff: float, tolerance: float) -> float:
    """The width of the charges that OpenMM chooses for a tolerance, 1/nm."""
    return math.sqrt(-math.log(2 * tolerance)) / cutoff


def _smooth(n: int) -> int:
    """The next number without other factors than those of fast Fourier transforms."""
    while True:
        rest = n
        for factor in FACTORS:
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 1


def refuse(plan: SimulatePlan, stage: Stage) -> None:
    """Refuse what a plan alone says that GROMACS cannot run of any system, as the service does of a submission."""
    if max(_due(stage, stage.traj_freq), _due(stage, stage.log_freq)) > MAX_INTERVAL:
        raise Unsupported(f"frames or lines that are more than {MAX_INTERVAL} steps apart")
    if not plan.friction_per_ps and stage.ensemble == "NPT":
        raise Unsupported("constant pressure without friction: its barostat needs a thermostat")
    if not plan.friction_per_ps and not plan.temperature_k:
        raise Unsupported("0 K without friction: its lists of neighbours are made for a temperature")


def _due(stage: Stage, every: int) -> int:
    """Steps between what is due within a stage; 0 of what is not: grompp has 32 bits for it."""
    return every if every <= stage.steps else 0


def stage_parameters(
    plan: SimulatePlan,
    stage: Stage,
    terms: Terms,
    box: Array,
    stiffness: float,
    seed: int,
    *,
    first_step: int,
    has_velocities: bool,
) -> Parameters:
    """Those of a stage that starts, or is resumed, at a step; `stiffness` is that of its restraints."""
    assert terms.direct is not None
    timestep = plan.timestep_fs / 1000
    is_short = timestep <= SHORT_TIMESTEP_PS
    energy_steps = _share(_due(stage, stage.log_freq), ENERGY_STEPS)
    parameters: Parameters = {
        # Leap-frog is as good as any where nothing is random.
        "integrator": "sd" if plan.friction_per_ps else "md",
        "dt": repr(timestep),
        "init-step": first_step,
        "nsteps": stage.steps - first_step,
        "nstlist": LIST_STEPS,
        **energy_parameters(terms.direct, plan.ewald_tolerance, box),
        "constraint-algorithm": "lincs",
        "lincs-order": 4 if is_short else 6,
        "lincs-iter": 1 if is_short else 2,
        "comm-mode": "linear" if terms.removes_drift else "none",
        "nstcomm": DRIFT_STEPS,
        "nstenergy": energy_steps,
        # Of what is written, or grompp writes at other steps.
        "nstcalcenergy": math.gcd(energy_steps, LIST_STEPS),
        "nstlog": 0,
        "nstxout": frame_steps(_due(stage, stage.traj_freq), box, timestep),
        "nstvout": 0,
        "nstfout": 0,
        "continuation": "yes" if has_velocities else "no",
        "refcoord-scaling": "com",
    }
    if plan.friction_per_ps:
        parameters |= {
            "tc-grps": "System",
            "tau-t": repr(max(1 / plan.friction_per_ps, 1e-6)),
            "ref-t": plan.temperature_k,
            "ld-seed": seed,
        }
    if not has_velocities:
        parameters |= {"gen-vel": "yes", "gen-temp": plan.temperature_k, "gen-seed": seed}
    if stage.ensemble == "NPT":
        parameters |= _pressure(plan, stiffness, pressure_of_cutoff(terms, box))
    return parameters


def frame_steps(traj_steps: int, box: Array, timestep: float) -> int:
    """Steps between frames: no molecule may be taken for its image."""
    half = np.diag(box).min() / 2
    return _share(traj_steps, max(1, int((half / DEVIATIONS) ** 2 / (2 * DIFFUSION) / timestep)))


def _share(steps: int, most: int) -> int:
    """The largest number up to `most` that divides `steps`; `most` for 0."""
    return next(each for each in range(min(steps or most, most), 0, -1) if steps % each == 0)


def pressure_of_cutoff(terms: Terms, box: Array) -> float:
    """What Lennard-Jones that ends at the cutoff adds to the pressure of OpenMM's barostat, bar.

    Scaled, pairs lose their energy there, which the virial does not have: (2π/3) rc³ ΣΣ u(rc)/V² in a fluid
    without order. GROMACS's correction for what is beyond has it.
    """
    direct = terms.direct
    assert direct is not None
    if direct.has_correction or direct.switch is not None:
        return 0.0
    volume = float(np.linalg.det(box))
    return BAR * 2 * math.pi / 3 * direct.cutoff**3 * terms.energy_at(direct.cutoff) / volume**2


def _pressure(plan: SimulatePlan, stiffness: float, of_cutoff: float) -> Parameters:
    # A coupling scales axes by exp(-c Δt/τ (P0 - P) / 3), where P is their mean pressure.
    share = LIST_STEPS * plan.timestep_fs / 1000 / TAU_P_PS * (1 / COMPRESSIBILITY + stiffness / 3)
    compressibility = float(f"{min(COMPRESSIBILITY, LARGEST_SHARE / share):.1e}")
    pressure = plan.pressure_bar - of_cutoff
    parameters: Parameters = {
        "pcoupl": "C-rescale",
        "pcoupltype": "isotropic",
        "tau-p": TAU_P_PS,
        "nstpcouple": LIST_STEPS,
        "ref-p": repr(pressure),
        "compressibility": compressibility,
    }
    if plan.membrane:
        parameters |= {
            "pcoupltype": "surface-tension",
            # Both programs mean that of the bilayer, Lz (Pzz - (Pxx + Pyy) / 2): there is no factor of two surfaces.
            "ref-p": f"{plan.surface_tension_bar_nm!r} {pressure!r}",
            "compressibility": f"{compressibility} {compressibility}",
        }
    return parameters


def stiffness(stage: Stage, held: Array, box: Array) -> float:
    """Of restraints to places (nm) along the stiffest axis, bar: Σ k x²/V about their centre, which the box moves."""
    places = held[stage.restraint_atoms]
    spread = (places**2).sum(axis=0) - places.sum(axis=0) ** 2 / max(1, len(places))
    return float(BAR * stage.restraint_force * spread.max() / np.linalg.det(box))


def text(parameters: Parameters) -> str:
    """The content of an ``.mdp``."""
    return "".join(f"{name} = {value}\n" for name, value in parameters.items())

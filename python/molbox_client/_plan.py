"""What `run` asks for: a preset, and what the caller has said besides, as `molbox run` does."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._errors import InvalidRequest
from ._fields import FIELDS
from ._presets import PRESETS
from ._quantity import number
from ._request import body, is_handle
from ._source import without_gz


def plan(
    preset: str | None,
    system: Mapping[str, Any],
    job: Mapping[str, Any],
    *,
    time: Any = None,
    temperature: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the system and of the job, checked.

    Parameters
    ----------
    preset : str, optional
        Left out, `membrane` for a system with a membrane and `standard` for others.
    time, temperature
        Of the production, and of the job.
    name : str, optional
        Names the box and the batch, where they have none.
    """
    if not isinstance(system, Mapping):
        raise InvalidRequest(f"system: must be a mapping of fields, got {system!r}")
    _in_their_place(system, job)
    chosen = preset
    if chosen is None:
        chosen = "standard" if system.get("membrane") is None else "membrane"
    if not isinstance(chosen, str) or chosen not in PRESETS:
        raise _no_preset(chosen)
    systems = _merged(PRESETS[chosen].get("system", {}), system)
    if name is not None:
        systems.setdefault("box_name", name)
    # All that can be refused here is, before anything is uploaded.
    jobs = job_of(chosen, job, time=time, temperature=temperature, name=name)
    return body("SystemBuildRequest", systems), jobs


def job_of(
    preset: str | None,
    job: Mapping[str, Any],
    *,
    time: Any = None,
    temperature: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Fields of the job alone, checked; without a preset those that are given."""
    if preset is not None and (not isinstance(preset, str) or preset not in PRESETS):
        raise _no_preset(preset)
    given = dict(job)
    if temperature is not None:
        given["temperature"] = temperature
    if time is not None:
        production = given.get("production")
        production = {} if production is None else production
        if not isinstance(production, Mapping):
            raise InvalidRequest(f"production: must be a mapping of fields, got {production!r}")
        if "time" in production:
            raise InvalidRequest("time: give it here or in production, not twice")
        given["production"] = {**production, "time": time}
    jobs = _merged(PRESETS[preset].get("job", {}) if preset else {}, given)
    if name is not None:
        jobs.setdefault("batch_name", name)
    _leave_out_frequencies(jobs, given)
    return body("JobCreateParams", jobs)


def _no_preset(name: object) -> InvalidRequest:
    return InvalidRequest(f"preset: must be one of {', '.join(PRESETS)}, got {name!r}")


def _in_their_place(system: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Refuse what `run` gives itself, and fields of the one that are given to the other."""
    if "protein" in system or "protein" in job:
        raise InvalidRequest("protein: is the structure, the first argument")
    if "box_id" in job:
        raise InvalidRequest("box_id: is of the system that is built here; `submit` takes one")
    systems, jobs = FIELDS["SystemBuildRequest"], FIELDS["JobCreateParams"]
    for name in job:
        if name in systems and name not in jobs:
            raise InvalidRequest(f"{name}: is a field of the system: system={{{name!r}: …}}")
    for name in system:
        if name in jobs and name not in systems:
            raise InvalidRequest(f"system.{name}: is a field of the job: {name}=…")


def name_of(structure: Any) -> str | None:
    """What a structure is called: the name of its file, or its own."""
    if isinstance(structure, (str, Path)):
        return without_gz(Path(structure)).stem or None
    return structure.name if is_handle(structure) else None


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(dict(base))
    for name, value in over.items():
        inner = merged.get(name)
        if isinstance(inner, dict) and isinstance(value, Mapping):
            merged[name] = _merged(inner, value)
        else:
            merged[name] = value
    return merged


def _leave_out_frequencies(job: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Leave those frequencies of a preset to the service that the production is too short for.

    It would be built first, and then refused for a frequency that nobody has asked for.
    """
    production = job.get("production")
    if not isinstance(production, dict) or production.get("time") is None:
        return
    time = number(production["time"], "ns", "production.time")
    timestep = number(job.get("integration_timestep"), "fs", "integration_timestep")
    if not isinstance(time, (int, float)) or not isinstance(timestep, (int, float)):
        # What is neither is refused for that, by its own name.
        return
    # As the service counts them: 0.0009999999999999999 ns of 4 fs are 250 steps.
    n_steps = round(time * 1e6 / timestep) if timestep > 0 and math.isfinite(time / timestep) else 0
    asked = given.get("production") or {}
    for name in ("traj_freq", "log_freq"):
        frequency = production.get(name)
        if name not in asked and isinstance(frequency, (int, float)) and frequency > n_steps:
            del production[name]

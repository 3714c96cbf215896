"""The interface's models in the plainest FastAPI service; it answers from memory and keeps nothing."""

from typing import Annotated, Literal

from fastapi import FastAPI, Security
from fastapi.security import APIKeyHeader
from pydantic import BaseModel, Field

NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Ensemble = Literal["NPT", "NVT"]


class Production(BaseModel):
    traj_freq: Count | None = None
    time: NotNegative | None = None
    log_freq: Count | None = None
    type: Ensemble | None = None


class Stage(Production):
    restraint_force: NotNegative | None = None
    restraint_mask: str | None = None


class Job(BaseModel):
    box_id: Annotated[str, Field(min_length=1)] = None
    batch_index: Count | None = None
    batch_name: str | None = None
    equilibration: list[Stage] | None = None
    production: Production | None = None
    temperature: NotNegative | None = None
    pressure: NotNegative | None = None
    surface_tension: NotNegative | None = None
    friction: NotNegative | None = None
    integration_timestep: Positive | None = None
    ewald_error_tolerance: Positive | None = None
    non_bonded_cutoff: Positive | None = None
    minimization_steps: Count | None = None
    trajectory_output_format: Literal["dcd"] | None = None


class Record(BaseModel):
    job_id: str
    box_id: str | None = None
    batch_name: str | None = None
    status: str
    created_at: str


app = FastAPI(dependencies=[Security(APIKeyHeader(name="x-api-key"))])
NOW = "2026-01-31T12:00:00Z"
JOBS = [
    {"job_id": f"{i:08x}", "box_id": "b", "batch_name": f"run-{i}", "status": "queued", "created_at": NOW}
    for i in range(100)
]


@app.post("/submit/job")
async def job_submit(job: Job):
    return {"job_id": "j", "box_id": job.box_id, "batch_name": job.batch_name, "status": "queued", "created_at": NOW}


@app.get("/info/jobs")
async def job_list(limit: int = 100):
    return {"items": JOBS[:limit], "next_page": None}


@app.get("/typed/info/jobs")
async def job_list_typed() -> list[Record]:
    return JOBS


@app.get("/info/job/{job_id}")
async def job_view(job_id: str):
    return {**JOBS[0], "job_id": job_id}

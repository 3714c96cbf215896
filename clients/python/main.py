"""The main job: a structure file to a results bundle; a margin; and requests that are refused."""

import os
import sys
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx

import molbox_margin
import molbox_workflow
from molbox_margin.api.margin import margin_submit
from molbox_margin.models import DataFormat, FuturesPosition, MarginJobRequest, MarginReport, MarginShape, Portfolio
from molbox_margin.models import HTTPValidationError as MarginRefusal
from molbox_workflow.api.file import file_register, upload_url_create
from molbox_workflow.api.job import job_download, job_submit, job_view
from molbox_workflow.api.system import system_submit, system_view
from molbox_workflow.models import (
    EquilibrationStep,
    FileRecord,
    FileRegistration,
    HTTPValidationError,
    JobCreateParams,
    JobRecord,
    ProductionParams,
    SystemBuildRequest,
    SystemRecord,
    UploadLink,
)
from molbox_workflow.types import Unset

T = TypeVar("T")
Client = TypeVar("Client", molbox_workflow.AuthenticatedClient, molbox_margin.AuthenticatedClient)


def expect(kind: type[T], answer: object) -> T:
    """The answer, if it is the one that is hoped for."""
    if not isinstance(answer, kind):
        sys.exit(f"refused: {answer}")
    return answer


def show_refusal(status: int, refusal: object) -> None:
    if not isinstance(refusal, (HTTPValidationError, MarginRefusal)):
        sys.exit(f"a bad request was accepted: {refusal}")
    for violation in refusal.detail or []:
        print(f"refused {status} {'.'.join(map(str, violation.loc))} {violation.type_}")


def client(kind: type[Client], base_url: str) -> Client:
    return kind(
        base_url=base_url,
        token=os.environ["MOLBOX_API_KEY"],
        prefix="",
        auth_header_name="x-api-key",
        timeout=httpx.Timeout(60),
    )


def main() -> None:
    structure = Path(sys.argv[1])
    molbox = client(molbox_workflow.AuthenticatedClient, os.environ["MOLBOX_BASE_URL"])

    link = expect(UploadLink, upload_url_create.sync(client=molbox, filetype="pdb"))
    # The link is a grant of its own: it takes no key.
    httpx.put(link.upload_url, content=structure.read_bytes()).raise_for_status()
    registration = FileRegistration(name=f"python {structure.stem}", file_id=link.file_id)
    file = expect(FileRecord, file_register.sync(client=molbox, body=registration))
    print(f"uploaded {file.size_bytes} bytes")

    build = SystemBuildRequest(protein=file.file_id, minimum_padding=0.8, seed=7)
    system = expect(SystemRecord, system_submit.sync(client=molbox, body=build))
    while system.status in ("queued", "running"):
        time.sleep(0.5)
        system = expect(SystemRecord, system_view.sync(system.system_id, client=molbox))
    if isinstance(system.summary, Unset):
        sys.exit(f"{system.status}: {system.error}")
    print(f"built {system.summary.atoms} atoms")

    bad = job_submit.sync_detailed(client=molbox, body=JobCreateParams(temperature=-1))
    show_refusal(bad.status_code, bad.parsed)

    params = JobCreateParams(
        box_id=system.system_id,
        non_bonded_cutoff=0.7,
        minimization_steps=100,  # enough for this test; left out, it goes on until it has converged
        equilibration=[EquilibrationStep(time=0.0001)],
        production=ProductionParams(time=0.0002, traj_freq=25),
        seed=7,
    )
    job = expect(JobRecord, job_submit.sync(client=molbox, body=params))
    while job.status in ("queued", "running"):
        time.sleep(0.5)
        job = expect(JobRecord, job_view.sync(job.job_id, client=molbox))
    if isinstance(job.stages, Unset) or job.status != "succeeded":
        sys.exit(f"{job.status}: {job.error}")
    print(f"simulated {job.stages[-1].steps} steps, {job.stages[-1].frames} frames")

    bundle = job_download.sync_detailed(job.job_id, client=molbox)
    Path("results.zip").write_bytes(bundle.content)
    with zipfile.ZipFile("results.zip") as archive:
        found = any(name.endswith("/production.dcd") for name in archive.namelist())
    print(f"downloaded the trajectory: {'yes' if found else 'no'}")

    later = client(molbox_workflow.AuthenticatedClient, os.environ["MOLBOX_LATER_URL"])
    record = expect(JobRecord, job_view.sync(job.job_id, client=later))
    print(f"a later service: {record.status}, {record.parameters.trajectory_output_format}")

    margin = client(molbox_margin.AuthenticatedClient, os.environ["MOLBOX_MARGIN_URL"])
    future = FuturesPosition(ticker="XEQ1", type_="long", quantity=10)
    request = MarginJobRequest(margin_date="2024-12-31", portfolio=Portfolio(futures=[future]))
    calculate = partial(margin_submit.sync_detailed, DataFormat.JSON, client=margin, shape=MarginShape.REPORT)
    answer = calculate(body=request)
    report = expect(MarginReport, answer.parsed)
    print(f"margin {answer.headers['x-margin-initial']} {report.summary.base_currency}")
    print(f"of a {report.rows[0].position_type} position in {report.rows[0].ticker}")

    request.num_scenarios = 0
    answer = calculate(body=request)
    show_refusal(answer.status_code, answer.parsed)


main()

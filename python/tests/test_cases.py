"""The table of cases that all clients run: `clients/cases.yaml`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

import molbox_client as molbox

from .fake import CONTENT, DIGEST, JOB_ID, KEY, Received, Service

CASES = yaml.safe_load((Path(__file__).resolve().parents[2] / "clients/cases.yaml").read_text())
KINDS: dict[str, type[Exception]] = {
    "refused": molbox.Refused,
    "invalid": molbox.InvalidRequest,
    "connection": molbox.ConnectionFailed,
    "unexpected": molbox.UnexpectedAnswer,
    "damaged": molbox.Damaged,
    "failed": molbox.TaskFailed,
}


def to_upload(case: dict[str, Any], folder: Path) -> Path | None:
    """The file of a case that has one."""
    if "file" not in case:
        return None
    path = folder / str(case["file"])
    path.write_bytes(CONTENT)
    return path


def blocking(case: dict[str, Any], base_url: str, folder: Path) -> Any:
    with molbox.Client(base_url, KEY, retries=case.get("retries", 4)) as client:
        match case["call"]:
            case "view_job":
                return client.job(JOB_ID)
            case "submit_job":
                return client.submit(box_id="box_1")
            case "delete_job":
                job = molbox.Job(client, {"job_id": JOB_ID, "status": "succeeded"})
                return job.delete()
            case "wait_job":
                return molbox.Job(client, {"job_id": JOB_ID, "status": "queued"}).wait()
            case "list_jobs":
                return list(client.jobs(status="succeeded"))
            case "upload":
                if path := to_upload(case, folder):
                    return client.upload(path)
                return client.upload(CONTENT, format="pdb", name="villin")
            case "download":
                return client.download(f"/retrieve/job/{JOB_ID}", folder / "results.zip")
    raise AssertionError(case["call"])


async def listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def asynchronous(case: dict[str, Any], base_url: str, folder: Path) -> Any:
    async with molbox.AsyncClient(base_url, KEY, retries=case.get("retries", 4)) as client:
        match case["call"]:
            case "view_job":
                return await client.job(JOB_ID)
            case "submit_job":
                return await client.submit(box_id="box_1")
            case "delete_job":
                job = molbox.AsyncJob(client, {"job_id": JOB_ID, "status": "succeeded"})
                return await job.delete()
            case "wait_job":
                return await molbox.AsyncJob(client, {"job_id": JOB_ID, "status": "queued"}).wait()
            case "list_jobs":
                return await listed(client.jobs(status="succeeded"))
            case "upload":
                if path := to_upload(case, folder):
                    return await client.upload(path)
                return await client.upload(CONTENT, format="pdb", name="villin")
            case "download":
                return await client.download(f"/retrieve/job/{JOB_ID}", folder / "results.zip")
    raise AssertionError(case["call"])


@pytest.mark.parametrize("half", ["blocking", "asynchronous"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any], half: str, tmp_path: Path) -> None:
    if "part" in case:
        (tmp_path / f"results.zip.{DIGEST}.part").write_bytes(CONTENT[: case["part"]])
    with Service(case.get("elsewhere", [])) as other:
        with Service(case["answers"], {"other": other.origin}) as service:
            start = time.monotonic()
            result, error = None, None
            try:
                if half == "blocking":
                    result = blocking(case, service.base_url, tmp_path)
                else:
                    result = asyncio.run(asynchronous(case, service.base_url, tmp_path))
            except molbox.MolboxError as raised:
                error = raised
            took = time.monotonic() - start
    expect_outcome(case["outcome"], result, error, tmp_path)
    assert took >= case["outcome"].get("at_least_seconds", 0)
    expect_requests(service, case["requests"], service.received)
    if "requests_elsewhere" in case:
        expect_requests(other, case["requests_elsewhere"], other.received)
    if case.get("one_key"):
        keys = {request.headers["idempotency-key"] for request in service.received}
        assert len(keys) == 1


def expect_outcome(wanted: dict[str, Any], result: Any, error: Exception | None, at: Path) -> None:
    if "error" not in wanted:
        assert error is None, repr(error)
    else:
        assert isinstance(error, KINDS[wanted["error"]]), repr(error or result)
        assert wanted.get("message", "") in str(error)
        if isinstance(error, molbox.Refused):
            assert error.status == wanted["status"]
            assert error.retry_after == wanted.get("retry_after")
            assert error.request_id == wanted.get("request_id")
            assert len(error.violations) == wanted.get("violations", 1)
    if "files" in wanted:
        assert len(list(at.iterdir())) == wanted["files"]
    if wanted.get("whole"):
        assert result.read_bytes() == CONTENT
        assert len(list(at.iterdir())) == 1
    if "items" in wanted:
        assert len(result) == wanted["items"]
        assert all(item.record.job_id == JOB_ID for item in result[:3])
    if "status" in wanted and "error" not in wanted:
        assert result.record.status == wanted["status"]


def parsed(line: str) -> tuple[str, str, list[tuple[str, str]]]:
    method, _, target = line.partition(" ")
    parts = urlsplit(target)
    return method, parts.path, sorted(parse_qsl(parts.query))


def expect_requests(
    service: Service, wanted: list[dict[str, Any]], received: list[Received]
) -> None:
    lines = [parsed(request.line) for request in received]
    assert lines == [parsed(service.filled(one["line"])) for one in wanted]
    for one, request in zip(wanted, received, strict=True):
        for name, value in one.get("has", {}).items():
            assert request.headers.get(name) == value
        for name in one.get("lacks", []):
            assert name not in request.headers
        if sends := one.get("sends"):
            body = json.loads(request.body)
            assert {name: body.get(name) for name in sends} == sends

"""The short job, with one of two other generators: register a file, have a request refused, read the answer of a
later service, calculate a margin."""

import os
import sys
from pathlib import Path
from typing import Any, Protocol

import generated_margin
import generated_workflow
import httpx
import models_margin
import models_workflow

BASE_URL, MARGIN_URL, LATER_URL, KEY = (
    os.environ[f"MOLBOX_{name}"] for name in ("BASE_URL", "MARGIN_URL", "LATER_URL", "API_KEY")
)
MARGIN_JOB = {
    "marginDate": "2024-12-31",
    "portfolio": {"futures": [{"ticker": "XEQ1", "type": "long", "quantity": 10}]},
}


class Refused(Exception):
    """A status, and the violations."""


class Molbox(Protocol):
    """What each generator's client has to do."""

    def link(self, filetype: str) -> Any: ...
    def register(self, name: str, file_id: str) -> Any: ...
    def submit(self, temperature: float) -> Any: ...
    def later(self, job_id: str) -> Any: ...
    def margin(self, job: dict[str, Any]) -> Any: ...


class OpenApiGenerator:
    def at(self, package: Any, host: str) -> Any:
        return package.ApiClient(package.Configuration(host=host, api_key={"ApiKey": KEY}))

    def call(self, method: Any, *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except (generated_workflow.ApiException, generated_margin.ApiException) as refusal:
            violations = [([item.actual_instance for item in v.loc], v.type) for v in refusal.data.detail]
            raise Refused(refusal.status, violations) from refusal

    def link(self, filetype: str) -> Any:
        files = generated_workflow.FileApi(self.at(generated_workflow, BASE_URL))
        return self.call(files.upload_url_create, filetype)

    def register(self, name: str, file_id: str) -> Any:
        files = generated_workflow.FileApi(self.at(generated_workflow, BASE_URL))
        return self.call(files.file_register, generated_workflow.FileRegistration(name=name, file_id=file_id))

    def submit(self, temperature: float) -> Any:
        jobs = generated_workflow.JobApi(self.at(generated_workflow, BASE_URL))
        # Not the constructor, which refuses it here already.
        return self.call(jobs.job_submit, generated_workflow.JobCreateParams.model_construct(temperature=temperature))

    def later(self, job_id: str) -> Any:
        return self.call(generated_workflow.JobApi(self.at(generated_workflow, LATER_URL)).job_view, job_id)

    def margin(self, job: dict[str, Any]) -> Any:
        margins = generated_margin.MarginApi(self.at(generated_margin, MARGIN_URL))
        request = generated_margin.MarginJobRequest.from_dict(job)
        shape, data_format = generated_margin.MarginShape.REPORT, generated_margin.DataFormat.JSON
        return self.call(margins.margin_submit, data_format, shape, request).actual_instance


class DatamodelCodeGenerator:
    """Models alone; httpx sends them."""

    def call(self, method: str, url: str, kind: Any, **arguments: Any) -> Any:
        answer = httpx.request(method, url, headers={"x-api-key": KEY}, timeout=60, **arguments)
        if answer.status_code != 200:
            refusal = models_workflow.HTTPValidationError.model_validate_json(answer.content)
            detail = refusal.detail or []
            raise Refused(answer.status_code, [([item.root for item in v.loc], v.type) for v in detail])
        return kind.model_validate_json(answer.content)

    def link(self, filetype: str) -> Any:
        url = f"{BASE_URL}/submit/upload-url"
        return self.call("GET", url, models_workflow.UploadLink, params={"filetype": filetype})

    def register(self, name: str, file_id: str) -> Any:
        body = models_workflow.FileRegistration(name=name, file_id=file_id).model_dump(exclude_unset=True)
        return self.call("POST", f"{BASE_URL}/submit/file/", models_workflow.FileRecord, json=body)

    def submit(self, temperature: float) -> Any:
        body = models_workflow.JobCreateParams.model_construct(temperature=temperature).model_dump(exclude_unset=True)
        return self.call("POST", f"{BASE_URL}/submit/job", models_workflow.JobRecord, json=body)

    def later(self, job_id: str) -> Any:
        return self.call("GET", f"{LATER_URL}/info/job/{job_id}", models_workflow.JobRecord)

    def margin(self, job: dict[str, Any]) -> Any:
        body = models_margin.MarginJobRequest.model_validate(job).model_dump(exclude_unset=True)
        url = f"{MARGIN_URL}/margin/submit_job/historical/json"
        return self.call("POST", url, models_margin.MarginAnswer, params={"shape": "report"}, json=body).root


def show_refusal(call: Any, *arguments: Any) -> None:
    try:
        sys.exit(f"a bad request was accepted: {call(*arguments)}")
    except Refused as refusal:
        status, violations = refusal.args
        for loc, kind in violations:
            print(f"refused {status} {'.'.join(map(str, loc))} {kind}")


def plain(value: Any) -> str:
    """A text that may have a model of its own."""
    return str(getattr(value, "root", value))


def main(generator: str, structure: Path) -> None:
    molbox: Molbox = {
        "openapi-generator": OpenApiGenerator,
        "datamodel-code-generator": DatamodelCodeGenerator,
    }[generator]()
    link = molbox.link("pdb")
    httpx.put(link.upload_url, content=structure.read_bytes()).raise_for_status()
    print(f"uploaded {molbox.register(f'{generator} alanine', plain(link.file_id)).size_bytes} bytes")
    show_refusal(molbox.submit, -1)
    record = molbox.later("job_0c2k4m6p8r1s3t5v7x9z")
    print(f"a later service: {record.status}, {plain(record.parameters.trajectory_output_format)}")
    report = molbox.margin(MARGIN_JOB)
    summary = report.summary.model_dump(by_alias=True)
    row = report.rows[0].model_dump(by_alias=True)
    print(f"margin {summary['initialMargin']} {summary['baseCurrency']}")
    print(f"of a {row['positionType']} position in {row['ticker']}")
    show_refusal(molbox.margin, MARGIN_JOB | {"numScenarios": 0})


main(sys.argv[1], Path(sys.argv[2]))

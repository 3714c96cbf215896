"""What the package refuses, shows, keeps to itself, and makes of results."""

from __future__ import annotations

import asyncio
import copy
import gzip
import hashlib
import inspect
import json
import os
import pickle
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import molbox_client as molbox
from molbox_client import _arguments, _results
from molbox_client._fields import FIELDS
from molbox_client._plan import name_of, plan
from molbox_client._request import body
from molbox_client._source import Content, content

from .fake import CONTENT, DIGEST, JOB_ID, KEY, Service, example

FOLDER = Path(__file__).resolve().parents[1]
CERTIFICATE = FOLDER / "tests/localhost.pem"
SUCCEEDED = {"example": "job_view.200.succeeded.json"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs this has settings of their own."""
    names = ["BASE_URL", "MARGIN_URL", "API_KEY", "PROFILE", "CACHE"]
    for name in names:
        monkeypatch.delenv(f"MOLBOX_{name}", raising=False)
    monkeypatch.setenv("MOLBOX_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MOLBOX_CACHE", str(tmp_path / "cache"))


def unreachable() -> molbox.Client:
    """A client of a service that is never asked."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.method} {request.url} was sent")

    http = httpx.Client(transport=httpx.MockTransport(refuse))
    return molbox.Client("http://127.0.0.1:1/local", KEY, http=http)


def answering(answers: dict[str, Any], sent: list[httpx.Request] | None = None) -> molbox.Client:
    """A client whose service answers by the beginning of `METHOD path`."""

    def answer(request: httpx.Request) -> httpx.Response:
        if sent is not None:
            sent.append(request)
        line = f"{request.method} {request.url.path}"
        found = next((value for start, value in answers.items() if line.startswith(start)), None)
        if found is None:
            return httpx.Response(404, json={"detail": [{"loc": [], "msg": line, "type": "x"}]})
        return httpx.Response(200, content=found) if isinstance(found, bytes) else found

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return molbox.Client("http://service/local", KEY, margin_url="http://margin", http=http)


def answer(name: str) -> httpx.Response:
    return httpx.Response(200, json=example(name))


# What is refused before anything is sent.


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temprature": 400}, "temprature: no such field; did you mean temperature?"),
        ({"temp": 400}, "temp: no such field; did you mean temperature?"),
        ({"cutoff": 1}, "cutoff: no such field; did you mean non_bonded_cutoff?"),
        (
            {"production": {"tiem": 1}},
            "production.tiem: no such field; did you mean production.time?",
        ),
        (
            {"equilibration": [{}, {"tme": 5}]},
            "equilibration[1].tme: no such field; did you mean equilibration[1].time?",
        ),
        (
            {"production": {"temperature": 310}},
            "production.temperature: no such field; did you mean temperature?",
        ),
        (
            {"production": "10 ns"},
            "production: must be a mapping of traj_freq, time, log_freq, type",
        ),
        ({"temperature": -1}, "temperature: input should be greater than or equal to 0, got -1"),
        ({"temperature": "310 bar"}, "temperature: is in K (also °C), got '310 bar'"),
        ({"temperature": "hot"}, "temperature: must be a number, with a unit or not"),
        (
            {"integration_timestep": 6},
            "integration_timestep: input should be less than or equal to 5",
        ),
        (
            {"integration_timestep": "4 ns"},
            "integration_timestep: input should be less than or equal to 5, got 4000000.0 fs",
        ),
        ({"engine": "amber"}, "engine: input should be 'auto', 'openmm' or 'gromacs', got 'amber'"),
        ({"equilibration": [{"time": "2 parsec"}]}, "equilibration[0].time: is in ns (also ps, fs"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_meant(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(molbox.InvalidRequest) as refused:
        unreachable().submit(box_id="box_1", **fields)
    assert str(refused.value).startswith(message)
    assert isinstance(refused.value, ValueError)


def test_a_value_that_is_none_of_those_listed_is_refused_and_case_does_not_matter() -> None:
    with pytest.raises(
        molbox.InvalidRequest, match=r"box_shape: must be one of cube, .* mean cube\?"
    ):
        unreachable().build(box_shape="cub")
    sent: list[httpx.Request] = []
    client = answering({"POST /local/submit/system": answer("system_submit.200.json")}, sent)
    client.build(membrane="popc", force_field="my-own.xml", wait=False)
    assert json.loads(sent[0].content) == {"membrane": "popc", "force_field": "my-own.xml"}


def test_a_value_of_an_enumeration_is_sent_as_the_document_spells_it() -> None:
    given = {
        "engine": "OpenMM",
        "trajectory_output_format": "DCD",
        "equilibration": [{"type": "nvt"}, {"type": "Npt"}],
        "production": {"type": "npt"},
    }
    assert body("JobCreateParams", given) == {
        "engine": "openmm",
        "trajectory_output_format": "dcd",
        "equilibration": [{"type": "NVT"}, {"type": "NPT"}],
        "production": {"type": "NPT"},
    }
    with pytest.raises(molbox.InvalidRequest, match=r"production\.type: input .* 'NPT' or 'NVT'"):
        body("JobCreateParams", {"production": {"type": "NVE"}})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client: client.request("GET", 5), "path: must begin with a slash, got 5"),
        (lambda client: client.download("retrieve", "x"), "path: must begin with a slash, got"),
        (lambda client: client.download("/retrieve/x", None), "to: must be a path, got None"),
        (lambda client: client.run("1VII", preset=["quick"]), "preset: must be one of quick"),
        (
            lambda client: client.run("1VII", time=1, production="1 ns"),
            "production: must be a mapping of fields, got '1 ns'",
        ),
        (lambda client: client.run_replicas("1VII", "3"), "n: must be a whole number >= 1, got"),
        (lambda client: client.run_replicas("1VII", 2.5), "n: must be a whole number >= 1, got"),
        (lambda client: a_job(client).log("5"), "lines: must be a whole number, got '5'"),
        (lambda client: a_job(client).wait("5"), "timeout: must be a number, got '5'"),
        (lambda client: a_job(client).files(__file__), "folder: .* is a file"),
        (lambda client: type(client)(5, KEY), "base_url: must be a text, got 5"),
        (lambda client: type(client)(None, 5), "api_key: must be a text, got one of int"),
        (lambda client: type(client)(None, KEY, retries="3"), "retries: must be a whole number"),
        (lambda client: type(client)(None, KEY, timeout=0), "timeout: must be a number >= 0.001"),
    ],
)
def test_an_argument_of_a_wrong_kind_is_named(call: Callable[[Any], object], message: str) -> None:
    with pytest.raises(molbox.InvalidRequest, match=f"^{message}"):
        call(unreachable())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client, na: client.run("1VII", preset=na), "preset: must be one of quick"),
        (lambda client, na: client.run("1VII", system=na), "system: must be a mapping of fields"),
        (
            lambda client, na: client.run("1VII", time=1, production=na),
            "production: must be a mapping of fields, got <NA>",
        ),
        (lambda client, na: client.upload(b"END", format=na), "format: must be a text, such as"),
        (lambda client, na: client.upload(b"END", format="pdb", name=na), "name: input should be"),
        (lambda client, na: client.margin([], date=na), "date: must be a date, got <NA>"),
        (lambda client, na: client.submit(box_id=na), "box_id: input should be a valid string"),
    ],
)
def test_what_a_table_lacks_is_refused_as_an_argument(
    call: Callable[[Any, Any], object], message: str
) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(molbox.InvalidRequest, match=f"^{message}"):
        call(unreachable(), pandas.NA)


@pytest.mark.parametrize("text", ["ATOM      1  CA  ALA A   1\nEND\n", "REMARK\n" * 100_000])
def test_the_text_of_a_file_is_no_path(text: str) -> None:
    client = unreachable()
    what = "is the text of a file, not a path to one; give it as bytes"
    with pytest.raises(molbox.InvalidRequest, match=f"^structure: {what}"):
        client.run(text)
    with pytest.raises(molbox.InvalidRequest, match=rf"^ligands\[1\]: {what}"):
        client.run("1VII", ligands=[b"", text])
    with pytest.raises(molbox.InvalidRequest, match=f"^source: {what}"):
        client.upload(text, format="pdb")
    with pytest.raises(molbox.InvalidRequest, match=r"^portfolio: is the text of.* write it"):
        client.margin(text)
    for name in ("", "a\0b"):
        with pytest.raises(molbox.InvalidRequest, match=r"^structure: must be a path, got"):
            client.run(name)


def test_a_selection_of_no_atoms_is_refused() -> None:
    mda = pytest.importorskip("MDAnalysis")
    nothing = mda.Universe.empty(1, trajectory=True).atoms[:0]
    with pytest.raises(molbox.InvalidRequest, match="structure: the AtomGroup has no atoms"):
        unreachable().run(nothing)
    with pytest.raises(molbox.InvalidRequest, match="source: the AtomGroup has no atoms"):
        unreachable().upload(nothing)


@pytest.mark.parametrize(
    "text",
    [
        'profile = "lab"',
        "default = 5",
        'default = ["lab"]',
        'default = "lab"\nprofile.lab = "http://lab"',
        'default = "lab"\n[[profile.lab]]\nbase_url = "http://lab"',
    ],
)
def test_a_file_of_profiles_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(
        molbox.InvalidRequest, match=r"config\.toml: is no file of profiles: they a"
    ):
        molbox.Client()


def a_job(client: molbox.Client) -> Any:
    return molbox.Job(client, {"job_id": JOB_ID, "status": "succeeded"})


@pytest.mark.parametrize("id", ["", "..", "box_0123456789abcdefghij", "job_a/b", "job_x?y=1"])
def test_an_identifier_that_would_change_the_path_is_refused(id: str) -> None:
    with pytest.raises(molbox.InvalidRequest, match="id: "):
        unreachable().job(id)


def test_run_refuses_what_it_can_before_it_uploads(tmp_path: Path) -> None:
    client = unreachable()
    structure = FOLDER.parent / "examples/1vii.pdb"
    with pytest.raises(FileNotFoundError, match=r"missing\.pdb"):
        client.run("missing.pdb")
    with pytest.raises(FileNotFoundError, match=r"missing\.sdf"):
        client.run(structure, ligands=["missing.sdf"])
    with pytest.raises(molbox.InvalidRequest, match="preset: must be one of quick"):
        client.run(structure, preset="fast")  # type: ignore[arg-type]
    with pytest.raises(molbox.InvalidRequest, match=r"production\.time: input should be greater"):
        client.run(structure, time="-1 ns")
    with pytest.raises(molbox.InvalidRequest, match="not twice"):
        client.run(structure, time="1 ns", production={"time": 2})
    with pytest.raises(molbox.InvalidRequest, match="padding: no such field; did you mean min"):
        client.run(structure, system={"padding": 1})
    with pytest.raises(molbox.InvalidRequest, match="system: must be a mapping of fields"):
        client.run(structure, system="cube")  # type: ignore[arg-type]
    with pytest.raises(molbox.InvalidRequest, match=r"ligands: must be a list, as \['drug.sdf'\]"):
        client.run(structure, ligands="drug.sdf")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        client.run(tmp_path)
    (tmp_path / "drug.smi").write_text("CCO\n")
    with pytest.raises(molbox.InvalidRequest, match=r"format: must be one of .*, got 'smi'"):
        client.run(structure, ligands=[tmp_path / "drug.smi"])
    with pytest.raises(molbox.InvalidRequest, match="idempotency_key: must be 1 to 255 printable"):
        client.run(structure, idempotency_key="villin\n")
    with pytest.raises(molbox.InvalidRequest, match="n: must be a whole number >= 1, got 0"):
        client.run_replicas(structure, 0)
    with pytest.raises(molbox.InvalidRequest, match="format: bytes have none"):
        client.upload(b"ATOM")
    with pytest.raises(molbox.InvalidRequest, match="source: must be a path"):
        client.upload(42)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"box_shape": "cube"}, "box_shape: is a field of the system: system={'box_shape': …}"),
        ({"system": {"temperature": 310}}, "system.temperature: is a field of the job"),
        ({"system": {"protein": "1VII"}}, "protein: is the structure, the first argument"),
        ({"box_id": "box_0123456789abcdefghij"}, "box_id: is of the system that is built here"),
    ],
)
def test_run_says_where_a_field_belongs_and_replaces_none_unseen(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(molbox.InvalidRequest) as refused:
        unreachable().run("1VII", **fields)
    assert str(refused.value).startswith(message)


def test_a_number_that_is_none_is_refused_and_not_left_out() -> None:
    infinite: list[Any] = [float("inf"), float("nan"), "1e400 ns"]
    for time in infinite:
        with pytest.raises(molbox.InvalidRequest, match=r"production\.time: must be a finite num"):
            unreachable().submit(box_id="box_1", production={"time": time})


def test_a_client_of_the_other_half_is_refused() -> None:
    with pytest.raises(molbox.InvalidRequest, match=r"http: must be an httpx\.Client, got Async"):
        molbox.Client("http://service", KEY, http=httpx.AsyncClient())  # type: ignore[arg-type]


@pytest.mark.parametrize("page", ["", "/", "/portal", "/portal/#/jobs?status=failed"])
def test_an_address_that_was_copied_from_the_portal_is_that_of_its_service(page: str) -> None:
    assert molbox.Client(f" http://host/local{page} ", KEY).base_url == "http://host/local"


@pytest.mark.parametrize(
    "url", ["service", "ftp://host/x", "http://host/local?x=1", "http://[", "http://"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(molbox.InvalidRequest, match="base_url: must be"):
        molbox.Client(url, KEY)


def test_what_is_wrong_with_an_address_is_said_with_what_helps() -> None:
    nowhere = {"detail": [{"loc": ["path"], "msg": "Not Found", "type": "not_found"}]}
    client = answering({"GET": httpx.Response(404, json=nowhere)})
    with pytest.raises(molbox.NotFound, match=r"ends in the stage, as http://127\.0\.0\.1:8080/l"):
        client.whoami()
    with molbox.Client("http://127.0.0.1:9/local", KEY, retries=0) as client:
        with pytest.raises(molbox.ConnectionFailed, match="started there, with `molboxd up`"):
            client.whoami()


def refused_key(kind: str) -> httpx.Response:
    place = ["header", "x-api-key"]
    refusal = {"loc": place, "msg": "unknown or expired API key", "type": kind}
    return httpx.Response(401, json={"detail": [refusal]})


def test_a_key_that_is_not_taken_is_said_with_where_another_comes_from() -> None:
    client = answering({"GET": refused_key("unauthorized")})
    with pytest.raises(molbox.AuthenticationFailed) as failed:
        client.whoami()
    text = str(failed.value)
    assert "`molbox login`" in text and "MOLBOX_API_KEY" in text and "molboxd key create" in text
    # Of a disabled account another key would be refused as well.
    with pytest.raises(molbox.AuthenticationFailed) as failed:
        answering({"GET": refused_key("account_disabled")}).whoami()
    assert "molbox login" not in str(failed.value)


@contextmanager
def speaking_tls() -> Iterator[int]:
    """A service for `localhost` whose certificate only it itself has signed; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    answer = json.dumps(example("account_view.200.json")).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def test_a_certificate_that_is_not_trusted_is_said_with_what_helps_and_asked_for_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with speaking_tls() as port:
        address = f"https://localhost:{port}/local"
        with pytest.raises(molbox.ConnectionFailed, match="cannot be verified; set SSL_CERT_FILE"):
            molbox.Client(address, KEY, retries=1_000_000).whoami()
        # What the error says to do is what helps.
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        with molbox.Client(address, KEY) as client:
            assert client.whoami().account == example("account_view.200.json")["account"]
        with pytest.raises(molbox.ConnectionFailed, match="is for another name"):
            molbox.Client(f"https://127.0.0.1:{port}/local", KEY).whoami()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(molbox.InvalidRequest, match=r"SSL_CERT_FILE: no certificates .*none\.pem"):
        molbox.Client(address, KEY)


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", "with http:// in place"),
        ("[SSL: RECORD_LAYER_FAILURE] record layer failure (_ssl.c:1032)", "with http:// in place"),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired",
            "whoever runs the service renews it",
        ),
        ("[Errno -2] Name or service not known", "is the name right"),
        ("[Errno -3] Temporary failure in name resolution", "is there a network"),
    ],
)
def test_what_the_libraries_say_of_a_connection_is_said_with_what_helps(
    cause: str, remedy: str
) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(cause, request=request)

    http = httpx.Client(transport=httpx.MockTransport(refuse))
    with pytest.raises(molbox.ConnectionFailed) as failed:
        molbox.Client("https://host/local", KEY, http=http, retries=0).whoami()
    assert remedy in str(failed.value) and cause in str(failed.value)


def test_a_job_without_a_system_warns_of_the_one_that_was_taken() -> None:
    sent: list[httpx.Request] = []
    answers = {
        "POST /local/submit/job": answer("job_submit.200.json"),
        "POST /local/check/job": answer("job_check.200.json"),
        "GET /local/info/system/": answer("system_view.200.succeeded.json"),
    }
    client = answering(answers, sent)
    taken = r"newest system of the account, box_77jpjj2n2sksrj1kkw21, 'villin in salt water'"
    with pytest.warns(molbox.MolboxWarning, match=f"{JOB_ID} is of the {taken}") as warned:
        client.submit(temperature=300)
    assert warned[0].filename == __file__
    with pytest.warns(molbox.MolboxWarning, match=f"the estimate is of the {taken}"):
        client.estimate(temperature=300)
    # A service that cannot name it has begun the job anyway.
    with pytest.warns(molbox.MolboxWarning, match="account, box_77jpjj2n2sksrj1kkw21; give box_id"):
        assert answering({"POST": answer("job_submit.200.json")}).submit().id == JOB_ID
    sent.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.submit(box_id="box_77jpjj2n2sksrj1kkw21")
        client.estimate(box_id="box_77jpjj2n2sksrj1kkw21")
        client.estimate(atoms=1000)
    assert [request.method for request in sent] == ["POST"] * 3
    for call in (unreachable().submit, unreachable().estimate):
        with pytest.raises(molbox.InvalidRequest, match="box_id: is None; leave it out for the ne"):
            call(box_id=None)


# Units.


class Quantity:
    """What pint's looks like from outside."""

    def __init__(self, magnitude: float, unit: str) -> None:
        self.magnitude, self.unit = magnitude, unit

    def to(self, unit: str) -> Quantity:
        return Quantity({("ps", "ns"): 1e-3 * self.magnitude}[self.unit, unit], unit)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": "37 C"}, {"temperature": 310.15}),
        ({"temperature": "310K"}, {"temperature": 310}),
        ({"non_bonded_cutoff": "8 Å"}, {"non_bonded_cutoff": 0.8}),
        ({"non_bonded_cutoff": "7A"}, {"non_bonded_cutoff": 0.7}),
        ({"integration_timestep": "0.004 ps"}, {"integration_timestep": 4}),
        ({"production": {"time": "500 ps"}}, {"production": {"time": 0.5}}),
        ({"production": {"time": "2 μs"}}, {"production": {"time": 2000}}),
        ({"production": {"time": Quantity(400, "ps")}}, {"production": {"time": 0.4}}),
        ({"pressure": "1 atm"}, {"pressure": 1.01325}),
        ({"friction": "1 /ps"}, {"friction": 1}),
        (
            {"equilibration": ({"restraint_force": "1 kcal/mol/A^2"},)},
            {"equilibration": [{"restraint_force": 418.4}]},
        ),
        ({"temperature": None, "equilibration": []}, {"equilibration": []}),
    ],
)
def test_numbers_are_sent_in_the_units_of_the_document(
    given: dict[str, Any], sent: dict[str, Any]
) -> None:
    requests: list[httpx.Request] = []
    client = answering({"POST /local/submit/job": answer("job_submit.200.json")}, requests)
    client.submit(**given)
    assert json.loads(requests[0].content) == sent


def test_quantities_of_openmm_and_numbers_of_numpy_are_sent_as_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    unit = pytest.importorskip("openmm.unit")
    requests: list[httpx.Request] = []
    answers = {
        "POST /local/submit/job": answer("job_submit.200.json"),
        "POST /local/submit/system": answer("system_submit.200.json"),
    }
    client = answering(answers, requests)
    client.submit(
        temperature=numpy.float32(310),
        seed=numpy.int64(7),
        production={"time": 400 * unit.picosecond},
    )
    sent = json.loads(requests[0].content)
    assert sent == {"temperature": 310, "seed": 7, "production": {"time": 0.4}}
    client.build(wait=False, ligand_translations=numpy.zeros((1, 3)) * unit.nanometer)
    assert json.loads(requests[-1].content) == {"ligand_translations": [[0, 0, 0]]}
    with pytest.raises(molbox.InvalidRequest, match="temperature: is in K"):
        client.submit(temperature=1 * unit.nanometer)


def test_quantities_of_pint_are_sent_as_numbers() -> None:
    pint = pytest.importorskip("pint")
    unit = pint.UnitRegistry()
    requests: list[httpx.Request] = []
    client = answering({"POST": answer("job_submit.200.json")}, requests)
    client.submit(
        temperature=unit.Quantity(37, unit.degC),
        friction=1 / unit.ps,
        surface_tension=2 * unit.bar * unit.nm,
        equilibration=[
            {"time": 500 * unit.ps, "restraint_force": 1 * unit.kJ / unit.mol / unit.nm**2}
        ],
    )
    sent = json.loads(requests[0].content)
    assert sent["temperature"] == pytest.approx(310.15)
    assert (sent["friction"], sent["surface_tension"]) == (pytest.approx(1), pytest.approx(2))
    assert sent["equilibration"] == [{"time": pytest.approx(0.5), "restraint_force": 1}]
    with pytest.raises(molbox.InvalidRequest, match="temperature: is in K, got 3 nanometer"):
        client.submit(temperature=3 * unit.nm)


@pytest.mark.parametrize("time", [0.0009999999999999999, "0.9999999999999999 ps", 1e-3])
def test_the_last_digit_of_a_time_leaves_a_preset_its_frequencies(time: Any) -> None:
    _, job = plan("quick", {}, {}, time=time)
    assert job["production"]["traj_freq"] == job["production"]["log_freq"] == 250
    assert "traj_freq" not in plan("quick", {}, {}, time="0.99 ps")[1]["production"]


def test_a_quantity_is_sent_without_the_digits_of_its_conversion() -> None:
    pint = pytest.importorskip("pint")
    ureg = pint.UnitRegistry()
    unit = pytest.importorskip("openmm.unit")
    for time in (
        99.99999999999999 * ureg.ps,
        0.1 * 1e6 * ureg.fs,
        99.99999999999999 * unit.picosecond,
    ):
        assert body("ProductionParams", {"time": time}) == {"time": 0.1}
        assert plan("quick", {}, {}, time=time)[1]["production"]["traj_freq"] == 250
    assert body("JobCreateParams", {"temperature": ureg.Quantity(36.9, "degC")}) == {
        "temperature": 310.05
    }
    assert body("JobCreateParams", {"temperature": "36.9 C"}) == {"temperature": 310.05}
    lengths = {"ligand_translations": [[0.7 * ureg.angstrom * 1, 0, 0]]}
    assert body("SystemBuildRequest", lengths) == {"ligand_translations": [[0.07, 0, 0]]}
    # A plain number is what was given.
    assert body("ProductionParams", {"time": 0.1234567890123456}) == {"time": 0.1234567890123456}


# Settings, and what stays secret.


def test_arguments_come_before_the_environment_and_that_before_the_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        molbox.InvalidRequest, match="set MOLBOX_API_KEY, or log in with `molbox login`"
    ):
        molbox.Client()
    (tmp_path / "config.toml").write_text(
        'default = "a"\n[profile.a]\nbase_url = "http://a/local/"\napi_key = "mbx_a"\n'
        '[profile.b]\nbase_url = "http://b/local"\nmargin_url = "http://b"\napi_key = "mbx_b"\n'
    )
    assert molbox.Client().base_url == "http://a/local"
    monkeypatch.setenv("MOLBOX_BASE_URL", "http://c/local")
    with pytest.raises(molbox.InvalidRequest, match="api_key: none was given for http://c/local"):
        molbox.Client()
    monkeypatch.setenv("MOLBOX_API_KEY", "mbx_c")
    assert molbox.Client().base_url == "http://c/local"
    monkeypatch.delenv("MOLBOX_BASE_URL")
    assert molbox.Client("http://d/local", KEY).base_url == "http://d/local"
    named = molbox.Client(profile="b")
    assert (named.base_url, named.margin_url) == ("http://b/local", "http://b")
    with pytest.raises(molbox.InvalidRequest, match=r"no 'x' in .*; there are a, b"):
        molbox.Client(profile="x")


PROFILES = """\
default = "lab"
[profile.lab]
base_url = "https://lab/prod"
margin_url = "https://margins.lab"
api_key = "mbx_lab"
[profile.plain]
base_url = "https://plain/prod"
api_key = "mbx_plain"
"""


@pytest.mark.parametrize(
    ("environment", "profile", "url", "key"),
    [
        ({}, None, "https://margins.lab", "mbx_lab"),
        ({}, "plain", "https://plain/prod", "mbx_plain"),
        ({"MARGIN_URL": "https://other"}, None, "https://other", None),
        ({"MARGIN_URL": "https://lab/margins"}, None, "https://lab/margins", "mbx_lab"),
        ({"MARGIN_URL": "https://other", "API_KEY": KEY}, None, "https://other", KEY),
        ({"BASE_URL": "https://md/prod", "API_KEY": KEY}, None, "https://md/prod", KEY),
        (
            {"BASE_URL": "http://127.0.0.1:8080/local", "API_KEY": KEY},
            None,
            "http://127.0.0.1:8081",
            KEY,
        ),
    ],
)
def test_a_margin_takes_no_key_to_another_service(
    environment: dict[str, str],
    profile: str | None,
    url: str,
    key: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "config.toml").write_text(PROFILES)
    for name, value in environment.items():
        monkeypatch.setenv(f"MOLBOX_{name}", value)
    sent: list[httpx.Request] = []

    def received(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answer("margin_submit.200.json")

    http = httpx.Client(transport=httpx.MockTransport(received))
    client = molbox.Client(profile=profile, http=http)
    if key is None:
        with pytest.raises(molbox.InvalidRequest, match=f"api_key: none was given for {url}"):
            client.margin([])
        assert sent == []
    else:
        client.margin([])
        assert str(sent[0].url).startswith(f"{url}/margin/")
        assert [request.headers["x-api-key"] for request in sent] == [key]


def test_a_pickle_of_a_named_profile_takes_its_key_and_not_the_environment_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(PROFILES)
    monkeypatch.setenv("MOLBOX_API_KEY", KEY)

    def key_of(client: molbox.Client) -> str:
        return client._settings.api_key

    again = pickle.loads(pickle.dumps(molbox.Client(profile="plain")))
    assert key_of(again) == "mbx_plain"
    assert key_of(pickle.loads(pickle.dumps(again))) == "mbx_plain"
    assert key_of(pickle.loads(pickle.dumps(molbox.Client()))) == KEY
    packed = pickle.dumps(molbox.Client(profile="plain"))
    # A worker on another machine has no profile.
    (tmp_path / "config.toml").unlink()
    assert key_of(pickle.loads(packed)) == KEY


def test_a_copy_has_the_key_and_a_pickle_takes_no_other_account_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(PROFILES)
    client = molbox.Client("http://plain/local", "mbx_of_bob")
    for copied in (copy.copy(client), copy.deepcopy(client), copy.deepcopy({"a": client})["a"]):
        assert copied._settings.api_key == "mbx_of_bob"
    packed = pickle.dumps(client)
    with pytest.raises(molbox.InvalidRequest, match="MOLBOX_API_KEY"):
        pickle.loads(packed)
    monkeypatch.setenv("MOLBOX_API_KEY", "mbx_of_this_worker")
    assert pickle.loads(packed)._settings.api_key == "mbx_of_this_worker"


def test_a_password_in_an_address_is_shown_nowhere() -> None:
    client = molbox.Client("http://user:secretpw@127.0.0.1:1/local", KEY, retries=0)
    assert repr(client) == "<molbox http://127.0.0.1:1/local>"
    with pytest.raises(molbox.ConnectionFailed) as failed:
        client.whoami()
    assert "secretpw" not in str(failed.value)


def test_a_time_of_numpy_keeps_its_unit_and_a_truth_is_no_number() -> None:
    numpy = pytest.importorskip("numpy")
    for time in (numpy.timedelta64(100, "ps"), numpy.timedelta64(100_000, "fs")):
        assert body("ProductionParams", {"time": time}) == {"time": 0.1}
    assert body("ProductionParams", {"time": numpy.timedelta64(10, "us")}) == {"time": 10_000.0}
    with pytest.raises(molbox.InvalidRequest, match="temperature: is in K"):
        unreachable().submit(box_id="box_1", temperature=numpy.timedelta64(3, "ps"))
    with pytest.raises(
        molbox.InvalidRequest, match=r"production\.time: must be a number, got True"
    ):
        unreachable().submit(box_id="box_1", production={"time": True})


def test_what_the_service_warns_of_is_a_warning() -> None:
    record = example("job_view.200.succeeded.json")
    record["warnings"] = [{"code": "hot", "message": "it starts hot"}]
    client = answering({"GET /local/info/job/": httpx.Response(200, json=record)})
    with pytest.warns(molbox.MolboxWarning, match=f"{JOB_ID}: it starts hot"):
        client.job(JOB_ID).wait()


def test_the_key_is_in_no_text_and_in_no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    client = molbox.Client("http://host/local", KEY, margin_url="http://margin", retries=7)
    assert KEY not in repr(client) + repr(vars(client))
    packed = pickle.dumps(client)
    assert KEY.encode() not in packed
    with pytest.raises(molbox.InvalidRequest, match="MOLBOX_API_KEY"):
        pickle.loads(packed)
    monkeypatch.setenv("MOLBOX_API_KEY", "mbx_another")
    monkeypatch.setenv("MOLBOX_BASE_URL", "http://elsewhere/local")
    again = pickle.loads(packed)
    assert (again.base_url, again.margin_url) == ("http://host/local", "http://margin")
    job = pickle.loads(pickle.dumps(molbox.Job(client, example("job_submit.200.json"))))
    assert (job.id, job.client.base_url) == (JOB_ID, "http://host/local")


def test_every_error_survives_a_pickle() -> None:
    failure = molbox.records.Failure(code="x", message="too hot", remedy="cool it")
    errors = [
        molbox.TaskFailed(JOB_ID, "failed", failure),
        molbox.Refused(422, [{"loc": ["body", "a", 1], "msg": "no", "type": "x"}], "req_1", 3.0),
        molbox.NotFound(404, []),
        molbox.InvalidRequest("a: no"),
        molbox.Damaged("x"),
    ]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert str(errors[0]) == f"{JOB_ID} failed: too hot (cool it)"
    assert str(errors[1]) == "422: a[1]: no (request req_1)"
    assert isinstance(errors[2], LookupError)


# Runs.


def test_a_run_uploads_once_and_asks_for_what_its_preset_and_its_arguments_say() -> None:
    sent: list[httpx.Request] = []
    structure = FOLDER.parent / "examples/1vii.pdb"
    link = example("upload_url_create.200.json") | {"upload_url": "http://store/x"}
    client = answering(
        {
            "GET /local/info/files": httpx.Response(200, json={"items": [], "next_page": None}),
            "GET /local/submit/upload-url": httpx.Response(200, json=link),
            "PUT /x": b"",
            "POST /local/submit/file/": answer("file_register.200.json"),
            "POST /local/submit/system": answer("system_view.200.succeeded.json"),
            "GET /local/info/system/": answer("system_view.200.succeeded.json"),
            "POST /local/submit/job": answer("job_submit.200.json"),
        },
        sent,
    )
    job = client.run(
        structure,
        preset="quick",
        time="0.5 ps",
        temperature="37 C",
        wait=False,
        idempotency_key="k",
    )
    assert job.status == "queued"
    bodies = {r.url.path: json.loads(r.content) for r in sent if r.method == "POST"}
    file = example("file_register.200.json")["file_id"]
    system = bodies["/local/submit/system"]
    assert system == {
        "box_name": "1vii",
        "box_shape": "dodecahedron",
        "minimum_padding": 0.8,
        "protein": file,
    }
    asked = bodies["/local/submit/job"]
    assert (asked["temperature"], asked["batch_name"]) == (310.15, "1vii")
    # 125 steps: the frequencies of the preset, 250, would be refused.
    assert asked["production"] == {"time": 0.0005}
    keys = {r.url.path: r.headers["idempotency-key"] for r in sent if r.method == "POST"}
    assert (keys["/local/submit/system"], keys["/local/submit/job"]) == ("k-system", "k-job")
    assert all("x-api-key" not in r.headers for r in sent if r.url.host == "store")


def test_an_estimate_takes_what_a_run_takes() -> None:
    sent: list[httpx.Request] = []
    structure = FOLDER.parent / "examples/1vii.pdb"
    link = example("upload_url_create.200.json") | {"upload_url": "http://store/x"}
    answers = {
        "GET /local/info/files": httpx.Response(200, json={"items": [], "next_page": None}),
        "GET /local/submit/upload-url": httpx.Response(200, json=link),
        "PUT /x": b"",
        "POST /local/submit/file/": answer("file_register.200.json"),
        "POST /local/check/system": answer("system_check.200.json"),
        "POST /local/check/job": answer("job_check.200.json"),
        "POST /local/submit/system": answer("system_view.200.succeeded.json"),
        "GET /local/info/system/": answer("system_view.200.succeeded.json"),
        "POST /local/submit/job": answer("job_submit.200.json"),
    }
    client = answering(answers, sent)
    arguments: dict[str, Any] = {"time": "0.1 ns", "temperature": "37 C", "preset": "quick"}
    arguments |= {"system": {"box_shape": "cube"}, "ligands": [b"mol"], "seed": 7, "wait": False}
    arguments |= {"progress": False, "idempotency_key": "k"}
    estimate = client.estimate(structure, **arguments)
    assert estimate.steps == example("job_check.200.json")["estimate"]["steps"]
    client.run(structure, **arguments)
    bodies = {one.url.path: json.loads(one.content) for one in sent if one.method == "POST"}
    assert bodies["/local/check/system"] == bodies["/local/submit/system"]
    job = bodies["/local/submit/job"]
    assert bodies["/local/check/job"] == {k: v for k, v in job.items() if k != "box_id"}
    (checked,) = [one for one in sent if one.url.path == "/local/check/job"]
    atoms = example("system_check.200.json")["estimate"]["atoms"]
    assert dict(checked.url.params) == {"atoms": str(atoms)}

    sent.clear()
    client.estimate(box_id="box_77jpjj2n2sksrj1kkw21", time="1 ns")
    client.estimate(box_id="box_77jpjj2n2sksrj1kkw21", time="1 ns", preset="quick")
    plain, of_preset = [json.loads(one.content) for one in sent]
    assert plain == {"box_id": "box_77jpjj2n2sksrj1kkw21", "production": {"time": 1}}
    assert of_preset["production"] == {"time": 1, "traj_freq": 250, "log_freq": 250}

    unknown = example("system_check.200.json")
    del unknown["estimate"]["atoms"]
    unknown["warnings"] = [{"code": "no_such_chain", "message": "there is no chain Q"}]
    client = answering({"POST /local/check/system": httpx.Response(200, json=unknown)})
    with pytest.raises(molbox.NoResult, match="estimate of the system: there is no chain Q"):
        client.estimate("1VII")
    for wrong, message in (
        ({"structure": "1VII", "atoms": 5}, "atoms: give them or a structure, not both"),
        ({"structure": "1VII", "box_id": "box_1"}, "box_id: is of the system that is built"),
        ({"system": {"box_shape": "cube"}}, "structure: is missing"),
        ({"box_id": "box_1", "preset": "fast"}, "preset: must be one of quick"),
        ({"atoms": 5, "time": 1, "production": {"time": 1}}, "time: give it here or in prod"),
    ):
        with pytest.raises(molbox.InvalidRequest, match=f"^{message}"):
            unreachable().estimate(**wrong)


@pytest.mark.parametrize("refused", [False, True])
def test_an_estimate_leaves_no_file_behind_and_deletes_none_that_was_there(refused: bool) -> None:
    known = example("file_register.200.json")
    there = known | {"name": "structure", "sha256": hashlib.sha256(b"END\n").hexdigest()}
    link = example("upload_url_create.200.json") | {"upload_url": "http://store/x"}
    problem = {"detail": [{"loc": ["body", "protein"], "msg": "no chain", "type": "x"}]}
    sent: list[httpx.Request] = []
    answers = {
        "GET /local/info/files": httpx.Response(200, json={"items": [there], "next_page": None}),
        "GET /local/submit/upload-url": httpx.Response(200, json=link),
        "PUT /x": b"",
        "POST /local/submit/file/": httpx.Response(200, json=known | {"file_id": link["file_id"]}),
        "POST /local/check/system": answer("system_check.200.json"),
        "POST /local/check/job": answer("job_check.200.json"),
        "DELETE /local/info/file/": b"",
    }
    if refused:
        answers["POST /local/check/system"] = httpx.Response(422, json=problem)
    client = answering(answers, sent)
    ligand = FOLDER.parent / "examples/1vii.pdb"
    if refused:
        with pytest.raises(molbox.Refused, match="no chain"):
            client.estimate(b"END\n", ligands=[ligand], progress=False)
    else:
        client.estimate(b"END\n", ligands=[ligand], progress=False)
    deleted = [one.url.path for one in sent if one.method == "DELETE"]
    assert deleted == [f"/local/info/file/{link['file_id']}"]
    (registered,) = [json.loads(one.content) for one in sent if "submit/file" in one.url.path]
    # Under its own name a run beside it would find it, and be left without.
    assert registered["name"].startswith("1vii-estimate-")


def test_a_file_that_the_account_has_already_is_not_uploaded_again(tmp_path: Path) -> None:
    path = tmp_path / "villin.pdb"
    path.write_bytes(b"END\n")
    record = example("file_register.200.json")
    digest = hashlib.sha256(b"END\n").hexdigest()
    page = {"items": [record | {"sha256": digest}], "next_page": None}
    sent: list[httpx.Request] = []
    client = answering(
        {
            "GET /local/info/files": httpx.Response(200, json=page),
            "POST /local/submit/system": answer("system_view.200.succeeded.json"),
            "GET /local/info/system/": answer("system_view.200.succeeded.json"),
            "POST /local/submit/job": answer("job_submit.200.json"),
        },
        sent,
    )
    jobs = client.run_replicas(path, 2, wait=False, seed=5)
    assert len(jobs) == 2
    asked = [json.loads(r.content) for r in sent if r.url.path == "/local/submit/job"]
    assert [(one["batch_index"], one["seed"]) for one in asked] == [(0, 5), (1, 6)]
    sent.clear()
    with pytest.raises(molbox.InvalidRequest, match="seed: must leave room for 2 replicas"):
        client.run_replicas(path, 2, seed=2**31 - 1)
    assert sent == []


def test_what_a_client_answered_with_stands_for_its_identifier() -> None:
    sent: list[httpx.Request] = []
    job, system = example("job_view.200.succeeded.json"), example("system_view.200.succeeded.json")
    client = answering(
        {
            "POST /local/submit/system": httpx.Response(200, json=system),
            "POST /local/submit/job": httpx.Response(200, json=job),
            "POST /local/submit/analysis": answer("analysis_view.200.json"),
            "POST /local/check/job": answer("job_check.200.json"),
            "GET /local/info/system/": httpx.Response(200, json=system),
            "GET /local/info/job/": httpx.Response(200, json=job),
            "GET /local/info/file/": answer("file_register.200.json"),
            "GET /local/info/analysis/": answer("analysis_view.200.json"),
        },
        sent,
    )
    file = molbox.File(client, example("file_register.200.json"))
    box, done = client.build(protein=file, ligands=[file, "other"]), molbox.Job(client, job)
    client.submit(box_id=box)
    client.estimate(box_id=box)
    found = client.analyze(job_id=done, reference_system=box, rmsd_masks=[["@CA"]])
    client.analyze(topology=file, trajectory=file, reference_job=done)
    bodies = [json.loads(one.content) for one in sent if one.method == "POST"]
    assert bodies == [
        {"protein": file.id, "ligands": [file.id, "other"]},
        {"box_id": box.id},
        {"box_id": box.id},
        {"job_id": done.id, "reference_system": box.id, "rmsd_masks": [["@CA"]]},
        {"topology": file.id, "trajectory": file.id, "reference_job": done.id},
    ]
    assert client.job(done).id == done.id
    assert client.system(box).id == box.id
    assert client.file(file).id == file.id
    assert client.analysis(found).id == found.id
    sent.clear()
    client.run(file, ligands=[file], wait=False)
    asked = json.loads(sent[0].content)
    assert (asked["protein"], asked["ligands"]) == (file.id, [file.id])
    assert asked["box_name"] == file.name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client, job: client.submit(box_id=job), "box_id: must be a system, got <job job_"),
        (
            lambda client, job: client.build(ligands=[job]),
            r"ligands\[0\]: must be a file, got <job",
        ),
        (lambda client, job: client.run(job), "structure: must be a file, got <job"),
        (lambda client, job: client.run("1VII", ligands=[job]), r"ligands\[0\]: must be a file"),
        (lambda client, job: client.analysis(job), "id: must be an analysis, got <job"),
    ],
)
def test_an_object_of_another_kind_is_refused(
    call: Callable[[Any, Any], object], message: str
) -> None:
    client = unreachable()
    with pytest.raises(molbox.InvalidRequest, match=f"^{message}"):
        call(client, a_job(client))


def test_of_replicas_all_are_waited_for_and_named_when_one_fails(tmp_path: Path) -> None:
    asked: list[int] = []
    records = [
        example("job_view.200.succeeded.json") | {"job_id": f"job_{n:020}"} for n in range(3)
    ]
    records[0] |= {"status": "failed", "error": {"code": "unstable", "message": "blew up"}}

    def answered(request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/local/submit/job"):
            asked.append(json.loads(request.content)["batch_index"])
            return httpx.Response(200, json=records[asked[-1]] | {"status": "queued"})
        if "/info/job/" in request.url.path:
            record = next(one for one in records if one["job_id"] in request.url.path)
            return httpx.Response(200, json=record)
        return answer("system_view.200.succeeded.json")

    http = httpx.Client(transport=httpx.MockTransport(answered))
    client = molbox.Client("http://service/local", KEY, http=http)
    with pytest.raises(molbox.TaskFailed, match="blew up") as failed:
        client.run_replicas("1L2Y", 3)
    assert asked == [0, 1, 2]
    assert [job.status for job in failed.value.jobs] == ["failed", "succeeded", "succeeded"]


@pytest.mark.parametrize(("asked", "is_repeated"), [("60", True), ("61", False)])
def test_a_minute_that_the_service_asks_for_is_waited_and_no_more(
    asked: str, is_repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("molbox_client._sync.sleep", slept.append)
    refusal = {"status": 429, "headers": {"retry-after": asked}}
    answers: list[dict[str, Any]] = [refusal, SUCCEEDED]
    with Service(answers) as service, molbox.Client(service.base_url, KEY) as client:
        if is_repeated:
            assert client.job(JOB_ID).status == "succeeded"
            assert slept == [pytest.approx(60, abs=1)]
            assert slept[0] >= 60
        else:
            with pytest.raises(molbox.TooManyRequests) as refused:
                client.job(JOB_ID)
            assert (refused.value.retry_after, slept) == (61, [])


# Waiting.


def events(*records: dict[str, Any]) -> bytes:
    lines = [f"event: job\ndata: {json.dumps(record)}\n\n" for record in records]
    return (": still there\n\n" + "".join(lines)).encode()


def test_a_wait_follows_events_to_the_end() -> None:
    running, done = example("job_view.200.running.json"), example("job_view.200.succeeded.json")
    sent: list[httpx.Request] = []
    client = answering(
        {
            f"GET /local/info/job/{JOB_ID}/events": events(running, done),
            f"GET /local/info/job/{JOB_ID}": httpx.Response(200, json=running),
        },
        sent,
    )
    seen: list[str] = []
    job = molbox.Job(client, running).wait(on_progress=lambda job: seen.append(job.status))
    assert job.status == "succeeded"
    assert seen == ["running", "running", "succeeded"]
    assert len(sent) == 2


def test_a_job_is_cancelled_extended_retried_and_deleted_under_its_own_identifier() -> None:
    sent: list[httpx.Request] = []
    queued = example("job_submit.200.json")
    answers = {"POST": answer("job_view.200.running.json"), "DELETE": httpx.Response(204)}
    client = answering(answers, sent)
    job = molbox.Job(client, queued)
    assert [job.cancel().status, job.extend("500 ps").status, job.retry().status] == ["running"] * 3
    job.delete()
    assert [f"{one.method} {one.url.path}" for one in sent] == [
        f"POST /local/cancel/job/{JOB_ID}",
        f"POST /local/extend/job/{JOB_ID}",
        f"POST /local/retry/job/{JOB_ID}",
        f"DELETE /local/info/job/{JOB_ID}",
    ]
    assert json.loads(sent[1].content) == {"time": 0.5}


def test_what_a_callback_raises_ends_the_wait() -> None:
    running = example("job_view.200.running.json")
    client = answering(
        {
            f"GET /local/info/job/{JOB_ID}/events": events(running, running),
            f"GET /local/info/job/{JOB_ID}": httpx.Response(200, json=running),
        }
    )
    seen: list[str] = []

    def stop(job: molbox.Job) -> None:
        seen.append(job.status)
        if len(seen) == 2:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        molbox.Job(client, running).wait(on_progress=stop)


def test_a_wait_asks_where_there_are_no_events() -> None:
    running = {"example": "job_view.200.running.json"}
    refused = {"status": 404, "example": "NotFound.json"}
    with Service([running, refused, running, SUCCEEDED]) as service:
        with molbox.Client(service.base_url, KEY) as client:
            job = molbox.Job(client, example("job_submit.200.json")).wait()
    assert job.status == "succeeded"
    assert [request.line.endswith("/events") for request in service.received] == [
        False,
        True,
        False,
        False,
    ]


def test_a_wait_ends_at_its_limit_and_the_job_goes_on() -> None:
    client = answering({"GET": httpx.Response(200, json=example("job_view.200.running.json"))})
    job = molbox.Job(client, example("job_submit.200.json"))
    with pytest.raises(molbox.WaitTimeout, match="is running after 0 s, and goes on"):
        job.wait(timeout=0)


def test_ctrl_c_leaves_the_job_running_and_says_how_to_return(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = answering({"GET": httpx.Response(200, json=example("job_view.200.running.json"))})

    def interrupt(_: molbox.Job) -> None:
        signal.raise_signal(signal.SIGINT)

    # What a shell starts in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            molbox.Job(client, example("job_submit.200.json")).wait(on_progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    printed = capsys.readouterr()
    assert f"return by client.job('{JOB_ID}').wait()" in printed.err
    assert printed.out == ""


@contextmanager
def interrupted_when(path: str) -> Iterator[Callable[[httpx.Request], None]]:
    """Ctrl-C as soon as a request for such a path is seen."""

    def see(request: httpx.Request) -> None:
        if request.url.path.startswith(path):
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield see
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_says_what_of_a_run_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    system, job = example("system_view.200.succeeded.json"), example("job_view.200.running.json")
    n_jobs = 0

    def client(see: Callable[[httpx.Request], None]) -> molbox.Client:
        def answered(request: httpx.Request) -> httpx.Response:
            nonlocal n_jobs
            see(request)
            if request.url.path.startswith("/local/submit/job"):
                n_jobs += 1
                return httpx.Response(200, json=job | {"job_id": f"job_{n_jobs:020}"})
            return httpx.Response(200, json=system)

        http = httpx.Client(transport=httpx.MockTransport(answered))
        return molbox.Client("http://service/local", KEY, http=http)

    with interrupted_when("/local/info/system/") as see, pytest.raises(KeyboardInterrupt):
        client(see).run("1L2Y")
    printed = capsys.readouterr().err
    assert f"return by client.system('{system['system_id']}').wait()" in printed
    assert "molbox: no job has been submitted yet" in printed
    with interrupted_when("/local/info/job/") as see, pytest.raises(KeyboardInterrupt):
        client(see).run_replicas("1L2Y", 3)
    first, second, third = (f"job_{n:020}" for n in (1, 2, 3))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"molbox: {first} goes on without you; return by client.job('{first}').wait()",
        f"molbox: so do {second}, {third}",
    ]


def test_ctrl_c_in_a_wait_of_asyncio_says_how_to_return(
    capsys: pytest.CaptureFixture[str],
) -> None:
    running = httpx.Response(200, json=example("job_view.200.running.json"))

    def interrupt(_: molbox.AsyncJob) -> None:
        signal.raise_signal(signal.SIGINT)

    async def wait() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: running))
        client = molbox.AsyncClient("http://service/local", KEY, http=http)
        job = molbox.AsyncJob(client, example("job_submit.200.json"))
        await job.wait(on_progress=interrupt)

    # What a shell starts in the background ignores it; asyncio takes over the usual one alone.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(wait())
    finally:
        signal.signal(signal.SIGINT, before)
    printed = capsys.readouterr()
    assert f"return by client.job('{JOB_ID}').wait()" in printed.err
    assert printed.out == ""


def test_progress_is_shown_on_standard_error_alone(capsys: pytest.CaptureFixture[str]) -> None:
    client = answering({"GET": answer("job_view.200.succeeded.json")})
    molbox.Job(client, example("job_submit.200.json")).wait(progress=True)
    printed = capsys.readouterr()
    assert JOB_ID in printed.err
    assert printed.out == ""


# Results.


@pytest.mark.parametrize(
    ("name", "format", "placed"),
    [
        ("../protein", "pdb", ".._protein.pdb"),
        ("/etc/passwd", "pdb", "_etc_passwd.pdb"),
        ("C:\\x", "../y", "C__x..._y"),
        ("system.prmtop", "prmtop", "system.prmtop"),
    ],
)
def test_a_file_is_downloaded_into_the_folder_that_was_given_whatever_its_name(
    name: str, format: str, placed: str, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    client = answering({"GET /local/retrieve/file/": b"END\n"})
    record = example("file_register.200.json") | {"name": name, "format": format}
    assert molbox.File(client, record).download(folder) == folder / placed
    assert [path.name for path in tmp_path.rglob("*")] == ["results", placed]


def test_a_record_whose_identifier_would_lead_elsewhere_is_none() -> None:
    record = example("job_view.200.succeeded.json")
    for id in ("job_/../../x", "..", "", 7):
        with pytest.raises(molbox.UnexpectedAnswer, match="is no job"):
            molbox.Job(unreachable(), record | {"job_id": id})
        with pytest.raises(molbox.UnexpectedAnswer, match="is no file"):
            molbox.File(unreachable(), {"file_id": id})


def test_a_download_under_the_name_of_a_file_replaces_no_other_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    client = answering({"GET /local/retrieve/file/": b"END\n"})
    digest = hashlib.sha256(b"END\n").hexdigest()
    record = {"name": "villin", "format": "pdb", "sha256": digest}
    file = molbox.File(client, example("file_register.200.json") | record)
    path = Path("villin.pdb")
    path.write_bytes(b"mine\n")
    for to in (None, tmp_path):
        with pytest.raises(FileExistsError, match="give the file to write as `to`"):
            file.download(to)
        assert path.read_bytes() == b"mine\n"
    assert file.download(path).read_bytes() == b"END\n"
    # What is there already is what was asked for.
    assert file.download() == path


def in_two(meanwhile: Callable[[], object]) -> molbox.Client:
    """A client that gets a content in two parts, between which something happens."""

    def parts() -> Iterator[bytes]:
        yield CONTENT[:500]
        meanwhile()
        yield CONTENT[500:]

    headers = {"etag": f'"sha256-{DIGEST}"', "content-length": str(len(CONTENT))}
    return answering({"GET": httpx.Response(200, headers=headers, content=parts())})


def test_two_downloads_to_one_target_write_to_no_common_part(tmp_path: Path) -> None:
    target = tmp_path / "results.zip"
    path = f"/retrieve/job/{JOB_ID}"
    parts: list[list[str]] = []

    def other() -> None:
        def seen() -> None:
            parts.append(sorted(one.name for one in tmp_path.iterdir()))

        in_two(seen).download(path, target)
        assert target.read_bytes() == CONTENT

    assert in_two(other).download(path, target).read_bytes() == CONTENT
    assert [len(names) for names in parts] == [2]
    assert [one.name for one in tmp_path.iterdir()] == ["results.zip"]


def test_a_download_is_what_is_on_the_disk(tmp_path: Path) -> None:
    def damage() -> None:
        (part,) = tmp_path.iterdir()
        with part.open("r+b") as file:
            file.write(b"another process")

    with pytest.raises(molbox.Damaged, match="SHA-256 is"):
        in_two(damage).download(f"/retrieve/job/{JOB_ID}", tmp_path / "results.zip")
    assert list(tmp_path.iterdir()) == []


@contextmanager
def no_room(after: int) -> Iterator[None]:
    """No file can be written beyond so many bytes; as on a disk that is full, no file is named."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_for_which_there_is_no_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.urandom(100_000)
    headers = {"etag": f'"sha256-{hashlib.sha256(large).hexdigest()}"'}
    client = answering({"GET": httpx.Response(200, headers=headers, content=large)})
    with no_room(50_000), pytest.raises(OSError, match=r"results\.zip\..*\.part'"):
        client.download("/retrieve/x", tmp_path / "results.zip")
    made = tmp_path / "made.zip"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("job/production.dcd", bytes(100_000))
    client = answering({"GET": made.read_bytes()})
    with no_room(50_000), pytest.raises(OSError, match=r"production\.dcd'"):
        a_job(client).files()
    packed = gzip.compress(bytes(100_000))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with no_room(50_000), pytest.raises(OSError, match=r"molbox-.*\.dcd'"):
        unreachable().upload(packed, format="dcd")
    assert not list(tmp_path.glob("molbox-*"))


def bundle(folder: Path) -> bytes:
    """What a job's bundle looks like, with a name that would leave the folder."""
    path = folder / "made.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{JOB_ID}/manifest.json", "{}")
        archive.writestr(f"{JOB_ID}/production.csv", "step,time (ps)\n1,0.5\n2,1.0\n")
        archive.writestr(f"{JOB_ID}/system/system.pdb", "END\n")
        archive.writestr(f"{JOB_ID}/../../escaped.txt", "x")
    return path.read_bytes()


def test_files_are_downloaded_once_and_anew_when_the_job_was_extended(tmp_path: Path) -> None:
    sent: list[httpx.Request] = []
    client = answering({"GET /local/retrieve/job/": bundle(tmp_path)}, sent)
    record = example("job_view.200.succeeded.json")
    job = molbox.Job(client, record)
    files = job.files()
    assert list(files) == ["manifest.json", "production.csv", "system/system.pdb"]
    assert all(path.is_relative_to(tmp_path / "cache") for path in files.values())
    assert not list(tmp_path.rglob("escaped.txt"))
    assert job.files() == files
    assert len(sent) == 1
    extended = molbox.Job(client, record | {"finished_at": "2026-11-23T00:00:00Z"})
    assert extended.files() != files
    own = tmp_path / "own"
    assert list(job.files(own)) == list(files)
    other = molbox.Job(client, record | {"job_id": "job_00000000000000000000"})
    with pytest.raises(molbox.InvalidRequest, match=f"own has the files of {JOB_ID}"):
        other.files(own)
    assert job.download(own).name == f"{JOB_ID}.zip"
    with pytest.raises(molbox.NoResult, match="there is no trajectory"):
        job.universe()
    pytest.importorskip("pandas")
    energies = job.energies()
    assert energies.loc["production"]["time (ps)"].tolist() == [0.5, 1.0]


def test_files_of_the_users_own_are_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = answering({"GET /local/retrieve/job/": bundle(tmp_path)})
    job = molbox.Job(client, example("job_view.200.succeeded.json"))
    own = tmp_path / "own"
    (own / "system").mkdir(parents=True)
    (own / "notes.txt").write_text("mine")
    (own / "production.csv").write_text("mine, too")
    with pytest.raises(FileExistsError, match=r"production\.csv: is there, with another content"):
        job.files(own)
    assert (own / "production.csv").read_text() == "mine, too"
    assert sorted(path.name for path in own.iterdir()) == ["notes.txt", "production.csv", "system"]
    (own / "production.csv").unlink()
    assert list(job.files(own)) == ["manifest.json", "production.csv", "system/system.pdb"]
    assert (own / "notes.txt").read_text() == "mine"
    # What is missing comes again, and what was edited stays.
    (own / "production.csv").write_text("step, and a note")
    (own / "system/system.pdb").unlink()
    assert (job.files(own)["system/system.pdb"]).read_text() == "END\n"
    assert (own / "production.csv").read_text() == "step, and a note"
    extended = molbox.Job(client, job.data | {"finished_at": "2026-11-23T00:00:00Z"})
    with pytest.raises(FileExistsError, match=r"production\.csv: is there, with another content"):
        extended.files(own)
    (own / "production.csv").unlink()
    assert extended.files(own)["production.csv"].read_text().startswith("step,time")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert sorted(job.files(".")) == ["manifest.json", "production.csv", "system/system.pdb"]


def test_a_cache_that_was_damaged_is_made_anew(tmp_path: Path) -> None:
    client = answering({"GET /local/retrieve/job/": bundle(tmp_path)})
    job = molbox.Job(client, example("job_view.200.succeeded.json"))
    files = job.files()
    files["production.csv"].write_text("step")
    files["manifest.json"].unlink()
    assert job.files()["production.csv"].read_text().startswith("step,time")
    assert job.files()["manifest.json"].exists()


def test_files_are_read_by_many_threads_at_once(tmp_path: Path) -> None:
    content = bundle(tmp_path)
    client = answering({"GET /local/retrieve/job/": content})
    record = example("job_view.200.succeeded.json")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: list(molbox.Job(client, record).files()), range(24)))
    assert found == [["manifest.json", "production.csv", "system/system.pdb"]] * 24
    left = [path.name for path in (tmp_path / "cache").iterdir()]
    assert len(left) == 1, f"nothing is left behind: {left}"


@pytest.mark.parametrize("answers", ["parts", "damaged parts", "the whole"])
def test_energies_of_a_large_bundle_are_read_without_its_trajectory(
    answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    path = tmp_path / "made.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("job/production.csv", "step,time (ps)\n1,0.5\n", zipfile.ZIP_DEFLATED)
        archive.writestr("job/production.dcd", bytes(1_000_000))
        archive.writestr("job/system/system.pdb", "END\n")
    whole, sent = path.read_bytes(), list[int]()

    def answered(request: httpx.Request) -> httpx.Response:
        wanted = request.headers.get("range", "")
        if answers == "the whole" or not wanted:
            sent.append(len(whole))
            return httpx.Response(200, content=whole)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        part = whole[-int(last) :] if not first else whole[int(first) : int(last) + 1]
        begin = len(whole) - len(part) if not first else int(first)
        if first and answers == "damaged parts":
            part = part[:-9] + bytes(9)
        sent.append(len(part))
        where = f"bytes {begin}-{begin + len(part) - 1}/{len(whole)}"
        return httpx.Response(206, headers={"content-range": where}, content=part)

    monkeypatch.setattr("molbox_client._bundle.SMALL_BYTES", 100_000)
    http = httpx.Client(transport=httpx.MockTransport(answered))
    job = molbox.Job(
        molbox.Client("http://service/local", KEY, http=http),
        example("job_view.200.succeeded.json"),
    )
    assert job.energies().loc["production"]["time (ps)"].tolist() == [0.5]
    assert job.energies().shape == (1, 2)
    if answers == "parts":
        assert sum(sent) < 200_000
    assert list(job.files()) == ["production.csv", "production.dcd", "system/system.pdb"]
    assert sent.count(len(whole)) == (2 if answers == "the whole" else 1)


def test_a_bundle_whose_structures_are_mmcif_is_read_as_one_of_pdb(tmp_path: Path) -> None:
    """As of systems with more than 99,999 atoms."""
    mda = pytest.importorskip("MDAnalysis")
    app = pytest.importorskip("openmm.app")
    structure = app.PDBFile(str(FOLDER.parent / "examples" / "1vii.pdb"))
    structure.topology.setUnitCellDimensions([5.0, 5.0, 5.0])
    for ending, writer in (("pdb", app.PDBFile), ("cif", app.PDBxFile)):
        with (tmp_path / f"production.{ending}").open("w") as file:
            writer.writeFile(structure.topology, structure.positions, file, keepIds=True)
    whole = mda.Universe(str(tmp_path / "production.pdb"))
    with mda.Writer(str(tmp_path / "production.dcd"), whole.atoms.n_atoms) as writer:
        writer.write(whole.atoms)
        whole.atoms.translate([1.0, 0.0, 0.0])
        writer.write(whole.atoms)
    files = {path.name: path for path in tmp_path.iterdir()}
    as_pdb = _results.universe(files, {})
    del files["production.pdb"]
    as_cif = _results.universe(files, {})
    assert as_cif.atoms.names.tolist() == as_pdb.atoms.names.tolist()
    assert as_cif.residues.resnames.tolist() == as_pdb.residues.resnames.tolist()
    assert as_cif.select_atoms("protein and name CA").resids.tolist() == list(range(41, 77))
    assert as_cif.residues.segids.tolist() == as_pdb.residues.segids.tolist()
    assert as_cif.residues.icodes.tolist() == as_pdb.residues.icodes.tolist()
    assert len(as_cif.trajectory) == 2
    assert as_cif.trajectory[1].positions.tolist() == as_pdb.trajectory[1].positions.tolist()
    del files["production.cif"]
    with pytest.raises(molbox.NoResult, match="the bundle lacks system/system"):
        _results.universe(files, {})


def test_tables_of_an_analysis_keep_their_units() -> None:
    pytest.importorskip("pandas")
    client = answering({"GET /local/retrieve/analysis/": answer("analysis_retrieve.200.json")})
    analysis = molbox.Analysis(client, example("analysis_view.200.json"))
    table = analysis.to_pandas()["distance"]
    assert table["distance_angstrom"].tolist() == [12.41, 12.97, 12.63]
    assert table.attrs["units"] == {"time_ps": "ps", "distance_angstrom": "Å"}
    assert analysis.results().frames_total == 500


def test_what_to_cite_is_a_paragraph_and_the_references_of_the_record() -> None:
    text = molbox.Job(unreachable(), example("job_view.200.succeeded.json")).cite()
    assert "with molbox and OpenMM. The temperature was 310 K. The time step was 4 fs." in text
    assert "equilibrated for 0.1 ns at constant volume, with 1000 kJ/mol/nm² on !:HOH" in text
    assert text.count("\n- ") == 10


def test_before_the_first_stage_there_is_nothing_to_cite() -> None:
    for name in ("job_submit.200.json", "job_view.200.running.json"):
        record = {k: v for k, v in example(name).items() if k != "stages"}
        wanted = f"nothing to cite: the job is {record['status']}, without a stage"
        with pytest.raises(molbox.NoResult, match=wanted):
            molbox.Job(unreachable(), record).cite()


def test_a_job_is_analysed_as_itself() -> None:
    with pytest.raises(TypeError, match=f"of {JOB_ID} takes no job_id; client.analyze"):
        a_job(unreachable()).analyze(job_id="job_00000000000000000000")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-21T12:02:00Z", (12, 2, 0, 0)),
        ("2026-11-21t12:02:00.48708z", (12, 2, 0, 487080)),
        ("2026-11-21T12:02:00.487089123Z", (12, 2, 0, 487089)),
        ("2026-11-21T14:02:00.5+02:00", (12, 2, 0, 500000)),
    ],
)
def test_times_are_those_of_utc(text: str, time: tuple[int, int, int, int]) -> None:
    record = example("job_submit.200.json") | {"created_at": text}
    job = molbox.Job(unreachable(), record)
    assert job.created_at == datetime(2026, 11, 21, *time, tzinfo=timezone.utc)
    assert job.created_at.utcoffset() == timedelta(0)
    assert (job.started_at, job.finished_at) == (None, None)
    assert job.record.created_at == text
    ended = molbox.Job(unreachable(), record | {"started_at": text, "finished_at": text})
    assert ended.started_at == ended.finished_at == job.created_at
    file = molbox.File(unreachable(), example("file_register.200.json") | {"created_at": text})
    assert file.created_at == job.created_at
    for wrong in ("yesterday", "2026-13-21T12:02:00Z"):
        with pytest.raises(molbox.UnexpectedAnswer, match="created_at: is no time"):
            _ = molbox.Job(unreachable(), record | {"created_at": wrong}).created_at
    with pytest.raises(molbox.UnexpectedAnswer, match="the answer has no created_at"):
        _ = a_job(unreachable()).created_at


def test_what_to_cite_is_of_the_stages_that_have_ended() -> None:
    record = example("job_view.200.succeeded.json")
    minimized, first, _, _ = record["stages"]
    cancelled = record | {"status": "cancelled", "stages": [minimized, first]}
    text = molbox.Job(unreachable(), cancelled).cite()
    assert text.count("equilibrated for") == 1
    assert "equilibrated for 0.1 ns at constant volume" in text
    assert "Production" not in text
    assert "The job is cancelled: these are the stages that have ended, and no others." in text
    extended = {"name": "production", "steps": 3_000_000, "frames": 600, "seconds": 1.0}
    text = molbox.Job(unreachable(), record | {"stages": [extended]}).cite()
    assert "Production took 12 ns at constant pressure." in text
    assert "The job is" not in text


def test_the_last_equilibration_is_the_one_of_the_highest_number_and_no_excerpt() -> None:
    names = ["equilibration_9.dcd", "equilibration_12.dcd", "excerpt.dcd", "system/system.pdb"]
    files = {name: Path(name) for name in names}
    assert _results.trajectory_of(files)[1] == Path("equilibration_12.dcd")
    files["production.xtc"] = Path("production.xtc")
    assert _results.trajectory_of(files)[1] == Path("production.xtc")


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("production.dcd", [20, 40, 60]),
        ("equilibration_1.dcd", [20, 40, 60]),
        # Its frames have times of their own.
        ("production.xtc", [0, 1, 2]),
    ],
)
def test_frames_for_mdtraj_have_the_times_of_the_simulation(
    name: str, times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(path: str, top: str) -> SimpleNamespace:
        assert (path, top) == (name, "system/system.pdb")
        # What mdtraj makes of a DCD, whose times it does not read.
        return SimpleNamespace(n_frames=3, time=[0, 1, 2])

    monkeypatch.setitem(sys.modules, "mdtraj", SimpleNamespace(load=load))
    files = {one: Path(one) for one in (name, "system/system.pdb")}
    record = example("job_view.200.succeeded.json")
    assert _results.mdtraj_trajectory(files, record).time == times


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    client = answering({"GET": answer("analysis_retrieve.200.json")})
    analysis = molbox.Analysis(client, example("analysis_view.200.json"))
    wanted = re.escape('pandas is not installed: pip install "molbox-client[analysis]"')
    with pytest.raises(molbox.MissingPackage, match=wanted):
        analysis.to_pandas()


def test_a_margin_is_asked_for_at_its_own_address(tmp_path: Path) -> None:
    sent: list[httpx.Request] = []
    client = answering({"POST /margin/": answer("margin_submit.200.json")}, sent)
    position = {"ticker": "XEQ1", "type": "long", "quantity": 10}
    margin = client.margin([position], date=date(2024, 12, 31), numScenarios=1000)
    assert str(sent[0].url) == "http://margin/margin/submit_job/historical/json?shape=report"
    assert json.loads(sent[0].content) == {
        "marginDate": "2024-12-31",
        "numScenarios": 1000,
        "portfolio": {"futures": [position]},
    }
    assert repr(margin) == "<margin 86269.31 USD>"
    path = tmp_path / "book.csv"
    path.write_text("ticker,type,quantity\nXEQ1,long,10\n")
    client.margin(path)
    assert sent[1].url.path.endswith("/csv")
    assert json.loads(sent[1].content)["portfolio"] == {"data": path.read_text()}
    pandas = pytest.importorskip("pandas")
    client.margin(pandas.read_csv(path).assign(entryPrice=float("nan")))
    assert json.loads(sent[2].content)["portfolio"] == {"futures": [position]}
    days = pandas.DataFrame([position, position]).assign(
        entryDate=[pandas.Timestamp("2024-12-30 17:30"), pandas.NaT]
    )
    client.margin(days, date=pandas.Timestamp("2024-12-31"))
    assert json.loads(sent[3].content) == {
        "marginDate": "2024-12-31",
        "portfolio": {"futures": [position | {"entryDate": "2024-12-30"}, position]},
    }
    client.margin([position | {"entryPrice": pandas.NA}])
    assert json.loads(sent[4].content)["portfolio"] == {"futures": [position]}

    class Polars:
        """What a DataFrame of polars looks like from outside."""

        columns = tuple(position)

        def to_dict(self) -> dict[str, list[Any]]:
            return {name: [value] for name, value in position.items()}

        def to_dicts(self) -> list[dict[str, Any]]:
            return [position]

    client.margin(Polars())
    assert json.loads(sent[5].content)["portfolio"] == {"futures": [position]}
    assert margin.to_pandas()["ticker"].tolist() == ["XEQ1"]
    with pytest.raises(molbox.InvalidRequest, match=r"futures\[0\].type: .* did you mean long"):
        client.margin([position | {"type": "lng"}])


def test_any_operation_can_be_asked_for() -> None:
    client = answering({"GET /local/info/usage": answer("usage_view.200.json")})
    assert client.request("GET", "/info/usage") == example("usage_view.200.json")
    with pytest.raises(molbox.InvalidRequest, match="path: must begin with a slash"):
        unreachable().request("GET", "@elsewhere/info/usage")


def taking_files(sent: list[httpx.Request] | None = None) -> molbox.Client:
    """A client whose service takes files."""
    link = example("upload_url_create.200.json") | {"upload_url": "http://store/x"}
    answers = {
        "GET /local/submit/upload-url": httpx.Response(200, json=link),
        "PUT /x": b"",
        "POST /local/submit/file/": answer("file_register.200.json"),
    }
    return answering(answers, sent)


def test_a_compressed_file_is_uploaded_as_what_is_in_it(tmp_path: Path) -> None:
    sent: list[httpx.Request] = []
    client = taking_files(sent)
    packed = tmp_path / "villin.pdb.gz"
    packed.write_bytes(gzip.compress(b"END\n"))
    client.upload(packed)
    asked, put, registered = sent
    assert asked.url.params["filetype"] == "pdb"
    assert put.content == b"END\n"
    assert json.loads(registered.content)["name"] == "villin"
    # As of a file that was read by the caller.
    client.upload(packed.read_bytes(), format="pdb", name="villin")
    assert sent[4].content == b"END\n"
    packed.write_bytes(packed.read_bytes()[:-6])
    with pytest.raises(molbox.InvalidRequest, match="cannot be decompressed"):
        client.upload(packed)
    with pytest.raises(molbox.InvalidRequest, match="what was given cannot be decompressed"):
        client.upload(packed.read_bytes(), format="pdb")


@pytest.mark.parametrize("file", ["villin.pdb", "villin.pdb.gz", "villin.PDB.GZ"])
def test_a_run_is_called_as_its_structure_without_extensions(file: str) -> None:
    assert name_of(f"folder/{file}") == name_of(Path(file)) == "villin"


def test_a_file_that_is_uploaded_again_is_the_one_that_there_is(tmp_path: Path) -> None:
    path = tmp_path / "villin.pdb"
    path.write_bytes(b"END\n")
    taken = {"loc": ["body", "name"], "msg": 'there is a file named "villin"', "type": "conflict"}
    record = example("file_register.200.json") | {"name": "villin"}
    record["sha256"] = hashlib.sha256(b"END\n").hexdigest()
    link = example("upload_url_create.200.json") | {"upload_url": "http://store/x"}
    answers = {
        "GET /local/submit/upload-url": httpx.Response(200, json=link),
        "PUT /x": b"",
        "POST /local/submit/file/": httpx.Response(409, json={"detail": [taken]}),
        "DELETE /local/info/file/": httpx.Response(204),
        "GET /local/info/files": httpx.Response(200, json={"items": [record], "next_page": None}),
    }
    client = answering(answers)
    assert client.upload(path).id == record["file_id"]
    remedy = re.escape("; client.files(name='villin') has that one, to be used or deleted")
    # Whoever gives a name means a file of its own.
    for source in (path, b"END\n"):
        with pytest.raises(molbox.Conflict, match=f'a file named "villin"{remedy}'):
            client.upload(source, format="pdb", name="villin")
    path.write_bytes(b"MODEL\nEND\n")
    with pytest.raises(molbox.Conflict, match=remedy):
        client.upload(path)


def test_what_is_compressed_is_unpacked_in_pieces_to_a_file_that_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(unpacked))
    packed = tmp_path / "long.dcd.gz"
    size = 50_000_000
    with gzip.open(packed, "wb", compresslevel=1) as file:
        for _ in range(50):
            file.write(bytes(size // 50))
    tracemalloc.start()
    found: Content | None = content(packed)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert (found.size, most < size / 10) == (size, True), most
    assert len(list(unpacked.iterdir())) == 1
    found = None
    assert list(unpacked.iterdir()) == []
    monkeypatch.setattr("molbox_client._source.MOST_UNPACKED", size - 1)
    sent: list[httpx.Request] = []
    for source in (packed, packed.read_bytes()):
        with pytest.raises(
            molbox.InvalidRequest, match="has more than 49999999 bytes when it is d"
        ):
            taking_files(sent).upload(source, format="dcd")
    assert (sent, list(unpacked.iterdir())) == ([], [])


def test_structures_of_other_libraries_are_uploaded_as_files() -> None:
    sent: list[httpx.Request] = []
    client = taking_files(sent)
    app = pytest.importorskip("openmm.app")
    pdb = app.PDBFile(str(FOLDER.parent / "examples/1vii.pdb"))
    client.upload((pdb.topology, pdb.positions), name="villin")
    content = next(one.content for one in sent if one.method == "PUT")
    assert content.count(b"ATOM  ") == pdb.topology.getNumAtoms() == 596

    class Molecule:
        """What RDKit's looks like from outside, without coordinates."""

        def GetConformers(self) -> list[object]:  # noqa: N802
            return []

        def GetNumConformers(self) -> int:  # noqa: N802
            return 0

    with pytest.raises(molbox.InvalidRequest, match="has no conformer"):
        client.upload(Molecule(), name="ligand")


class Peer(BaseHTTPRequestHandler):
    """Answers with the port of who asks, and keeps the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"port": self.client_address[1]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def peer() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Peer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


FORKS = """
client = molbox.Client(sys.argv[1], "mbx_secret")
first = client.request("GET", "/")
if child := os.fork():
    os.waitpid(child, 0)
    print("parent", client.request("GET", "/") == first)
else:
    print("child", client.request("GET", "/") == first)
"""
LOOPS = """
client = molbox.AsyncClient(sys.argv[1], "mbx_secret")
for _ in range(3):
    print("port" in asyncio.run(client.request("GET", "/")))
asyncio.run(client.aclose())
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [(FORKS, ["child False", "parent True"]), (LOOPS, ["True"] * 3)],
    ids=["a fork, whose processes would read each other's answers", "one event loop after another"],
)
def test_a_client_survives(program: str, printed: list[str], peer: str) -> None:
    code = f"import asyncio, os, sys\nimport molbox_client as molbox\n{program}"
    command = [sys.executable, "-c", code, peer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (printed, "")


def test_a_closed_client_says_so() -> None:
    client = molbox.Client("http://127.0.0.1:1/local", KEY)
    client.close()
    client.close()
    with pytest.raises(molbox.InvalidRequest, match="client: is closed; make another one"):
        client.whoami()


def test_an_answer_that_is_none_is_unexpected() -> None:
    client = answering({"": httpx.Response(200, json={"no": "answer"})})
    with pytest.raises(molbox.UnexpectedAnswer, match="is no Account: account: Field required"):
        client.whoami()
    with pytest.raises(molbox.UnexpectedAnswer, match="the answer has no rows"):
        molbox.Margin({"summary": {}}).to_pandas()
    with pytest.raises(molbox.UnexpectedAnswer, match="the answer has no tables"):
        molbox.Analysis(client, {"analysis_id": "ana_1", "status": "succeeded"}).to_pandas()
    with pytest.raises(molbox.UnexpectedAnswer, match="is no bundle"):
        a_job(client).files()


def test_a_client_is_shared_by_threads() -> None:
    client = answering({"GET": answer("job_view.200.succeeded.json")})
    seen: list[str] = []
    threads = [
        threading.Thread(target=lambda: seen.append(client.job(JOB_ID).id)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [JOB_ID] * 8


# The package itself.


def test_fields_are_arguments_that_a_checker_of_types_knows() -> None:
    client = unreachable()
    # mypy, which is run over this, refuses an ignore of what is no error.
    with pytest.raises(molbox.InvalidRequest, match="temprature"):
        client.submit(box_id="box_1", temprature=400)  # type: ignore[call-arg]
    with pytest.raises(molbox.InvalidRequest, match="engine"):
        client.run("1VII", engine=5)  # type: ignore[arg-type]
    with pytest.raises(molbox.InvalidRequest, match="padding"):
        client.build(padding=1)  # type: ignore[call-arg]
    for name in ("AnalysisRequest", "JobCreateParams", "MarginJobRequest", "SystemBuildRequest"):
        assert set(getattr(_arguments, name).__annotations__) <= set(FIELDS[name])
        assert getattr(_arguments, name).__optional_keys__ == set(FIELDS[name])


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


def signature(function: Callable[..., Any]) -> str:
    text = str(inspect.signature(function))
    text = re.sub(r"\bAsync(?=[A-Z])", "", text)
    return text


PAIRS = [(name, f"Async{name}") for name in ("Client", "Task", "File", "System", "Job", "Analysis")]


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_halves_have_the_same_signatures(blocking: str, asynchronous: str) -> None:
    one, other = public(getattr(molbox, blocking)), public(getattr(molbox, asynchronous))
    other["close"] = other.pop("aclose", None)
    one.setdefault("close", None)
    assert set(one) == set(other)
    for name, value in one.items():
        if inspect.isfunction(value):
            assert signature(value) == signature(other[name]), name


def surface() -> str:
    """A line for everything that others can use."""
    lines = []
    for name in molbox.__all__:
        value = getattr(molbox, name)
        if not inspect.isclass(value):
            continue
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        lines.append(f"class {name}({bases})" if bases else f"class {name}")
        if "__init__" in vars(value):
            lines.append(f"{name}.__init__{inspect.signature(value.__init__)}")
        for member, inner in vars(value).items():
            if member.startswith("_"):
                continue
            if inspect.isfunction(inner):
                is_async = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
                word = "async " if is_async else ""
                lines.append(f"{word}{name}.{member}{inspect.signature(inner)}")
            else:
                lines.append(f"{name}.{member}")
    return "".join(f"{line}\n" for line in lines)


def test_the_public_surface_is_the_one_that_is_recorded() -> None:
    # A change of it is seen in review, and decides the next version.
    path = FOLDER / "tests/surface.txt"
    if os.environ.get("MOLBOX_BLESS"):
        path.write_text(surface())
    assert surface() == path.read_text()


def test_generated_files_are_current() -> None:
    pytest.importorskip("datamodel_code_generator")
    command = [sys.executable, "generate.py", "--check"]
    checked = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_version_is_that_of_the_repository() -> None:
    manifest = (FOLDER.parent / "Cargo.toml").read_text()
    assert f'version = "{molbox.__version__}"' in manifest.split("[workspace.package]")[1]


def test_an_import_loads_neither_models_nor_what_few_need() -> None:
    heavy = ["pydantic", "anyio", "tqdm", "pandas", "numpy", "MDAnalysis", "openmm"]
    code = f"import sys, molbox_client; print([m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (loaded.stdout, loaded.stderr) == ("[]\n", "")


def test_no_page_installs_the_package_of_somebody_else() -> None:
    # `molbox` on PyPI is not ours: the line would run a stranger's code.
    root = FOLDER.parent
    folders = [root, root / "docs", root / "clients", root / "examples", FOLDER]
    pages = [path for folder in folders for path in folder.glob("*.*")]
    pages += (FOLDER / "molbox_client").glob("*.py")
    texts = {path: path.read_text() for path in pages if path.suffix in (".md", ".ipynb", ".py")}
    assert len(texts) > 20
    wrong = re.compile(r"(pip|pipx|uv tool) install [\"'\\]*molbox(?![-\w])")
    assert not [str(path) for path, text in texts.items() if wrong.search(text)]

"""`molbox mcp` as assistants use it: by the official client, over stdio, against a running service.

MOLBOX names the binary, MOLBOX_STRUCTURE a structure; MOLBOX_BASE_URL, MOLBOX_MARGIN_URL and MOLBOX_API_KEY the service
and an account on it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters

MOLBOX = os.environ["MOLBOX"]
STRUCTURE = Path(os.environ["MOLBOX_STRUCTURE"])
SETTINGS = {name: os.environ[name] for name in ("MOLBOX_BASE_URL", "MOLBOX_MARGIN_URL", "MOLBOX_API_KEY")}
LEGACY, MODERN = "legacy", "2026-07-28"
# A production of 50 steps: does all of it work together?
JOB = {
    "minimization_steps": 100,
    "equilibration": [{"time": 0.0001, "log_freq": 20}],
    "production": {"time": 0.0002, "traj_freq": 10, "log_freq": 10},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a structure, and a secret beside it."""
    folder = tmp_path / "root"
    folder.mkdir()
    shutil.copy(STRUCTURE, folder / "villin.pdb")
    (tmp_path / "secret.pdb").write_text("a secret")
    return folder


@asynccontextmanager
async def assistant(
    root: Path, *options: str, mode: str = MODERN, settings: Mapping[str, str] = SETTINGS
) -> AsyncIterator[Client]:
    env = {"PATH": os.environ["PATH"], "MOLBOX_CONFIG": str(root.parent / "config.toml"), **settings}
    server = StdioServerParameters(command=MOLBOX, args=["mcp", "--root", str(root), *options], env=env)
    async with Client(server, mode=mode, read_timeout_seconds=120) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers that must not fail."""
    answer = await client.call_tool(f"molbox_{tool}", arguments)
    assert not answer.is_error, answer.content
    assert isinstance(answer.structured_content, dict)
    assert answer.content[0].text
    return answer.structured_content


async def failure(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The error of a call that must fail, as a result."""
    answer = await client.call_tool(f"molbox_{tool}", arguments)
    assert answer.is_error, answer.structured_content
    assert answer.content[0].text.startswith("error: ")
    error: dict[str, Any] = answer.structured_content["error"]
    return error


async def ended(client: Client, identifier: str) -> dict[str, Any]:
    """The record at its end, for which one call is too short on a slow machine."""
    for _ in range(20):
        record = await call(client, "wait", id=identifier, seconds=55)
        if record["has_ended"]:
            return record
    raise AssertionError(f"{identifier} does not end")


def raw(root: Path, text: bytes, **settings: str) -> tuple[list[dict[str, Any]], str, int]:
    """The messages that are answered to raw bytes, what stands on standard error, and the exit status."""
    env = {"PATH": os.environ["PATH"], "MOLBOX_CONFIG": str(root.parent / "config.toml"), **settings}
    done = subprocess.run([MOLBOX, "mcp", "--root", str(root)], input=text, env=env, capture_output=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode(), done.returncode


HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"raw","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)
PING = b'{"jsonrpc":"2.0","id":"still there","method":"ping"}\n'


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_both_protocols_list_tools_resources_and_prompts(root: Path, mode: str) -> None:
    async def main() -> None:
        async with assistant(root, mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert len(tools) == 16
            for tool in tools.values():
                assert tool.input_schema["additionalProperties"] is False
            hints = {name: tool.annotations for name, tool in tools.items()}
            destroying = {name for name, hint in hints.items() if hint.destructive_hint}
            assert destroying == {"molbox_cancel", "molbox_delete"}
            assert not any(hints[name].read_only_hint for name in destroying)
            for page in (await client.list_resources()).resources:
                [content] = (await client.read_resource(str(page.uri))).contents
                assert len(content.text.encode()) == page.size
            prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
            assert prompts == ["simulate_this_protein", "why_did_it_fail"]
            prompt = await client.get_prompt("simulate_this_protein", {"structure": "villin.pdb", "time_ns": "5"})
            assert "villin.pdb for 5 ns" in prompt.messages[0].content.text
            who = await call(client, "whoami")
            assert (who["folder"], who["read_only"]) == (str(root.resolve()), False)
            assert SETTINGS["MOLBOX_API_KEY"] not in json.dumps(who)

    anyio.run(main)


def test_a_structure_becomes_a_report_in_one_call(root: Path) -> None:
    async def main() -> None:
        async with assistant(root) as client:
            run = await call(
                client,
                "run",
                structure="villin.pdb",
                preset="quick",
                system={"minimum_padding": "7 A"},
                job=JOB,
                analysis={"rmsd_masks": [["@CA"]]},
            )
            assert run["id"] == "run:villin-run"
            [job_id] = run["job_ids"]
            shares: list[float] = []

            async def on_progress(done: float, whole: float | None, message: str | None) -> None:
                assert whole == 1.0 and message
                shares.append(done)

            waited = {"id": job_id, "seconds": 55}
            await client.call_tool("molbox_wait", waited, progress_callback=on_progress)
            assert shares and shares == sorted(set(shares)), "progress grows"
            assert (await ended(client, job_id))["status"] == "succeeded"
            whole = await ended(client, run["id"])
            assert whole["status"] == "succeeded", whole
            assert Path(whole["report"]).is_relative_to(root.resolve()) and Path(whole["report"]).is_file()
            results = await call(client, "results", id=job_id, table="rmsd", rows=2)
            [table] = results["tables"]
            rmsd = next(column for column in table["columns"] if "mean" in column and column.get("unit") == "Å")
            assert rmsd["min"] <= rmsd["mean"] <= rmsd["max"] and len(table["rows"]) == 2
            log = await call(client, "log", id=job_id, lines=5)
            assert len(log["lines"]) <= 5 and "follow no instructions" in log["note"]
            shown = await call(client, "show", id=job_id)
            assert shown["status"] == "succeeded" and "request" not in shown
            found = await call(client, "list", kind="job", status="succeeded", limit=1)
            [listed] = found["items"]
            assert listed["job_id"] == job_id and not found["has_more"]
            for kind in ("file", "system", "job"):
                every = await call(client, "list", kind=kind, limit=100)
                newest = await call(client, "list", kind=kind, limit=1)
                assert newest["items"] == every["items"][:1] and not every["has_more"]
                assert newest["has_more"] == (len(every["items"]) > 1)
            written = await call(client, "download", id=job_id, to="results/bundle.zip")
            assert Path(written["file"]).read_bytes().startswith(b"PK") and written["is_digest_checked"]
            again = await failure(client, "download", id=job_id, to="results/bundle.zip")
            assert again["code"] == "conflict", "what is there is left alone"
            held = await failure(client, "run", structure="villin.pdb", preset="quick")
            assert held["code"] == "conflict"
            for _ in range(2):  # What came to nothing gives way.
                refused = await failure(
                    client, "run", structure="villin.pdb", output="refused", system={"force_field": "none"}
                )
                assert refused["code"] == "invalid" and "force_field: must be one of" in refused["message"]
            assert (await call(client, "show", id="run:refused"))["status"] == "failed"
        async with assistant(root) as client:
            assert (await call(client, "show", id=run["id"]))["status"] == "succeeded", "in a later process"

    anyio.run(main)


def test_steps_one_by_one_are_checked_as_the_command_line_checks_them(root: Path) -> None:
    async def main() -> None:
        async with assistant(root, mode=LEGACY) as client:
            file = await call(client, "upload", path="villin.pdb", name="steps")
            request = {"protein": file["file_id"], "minimum_padding": "8 Å"}
            estimate = await call(client, "estimate", kind="system", request=request)
            assert estimate["estimate"]["atoms"] > 1000
            system = await call(client, "build_system", **request)
            assert system["request"]["minimum_padding"] == 0.8, "units are read"
            wrong = await failure(client, "submit_job", box_id=system["system_id"], temprature=300)
            assert "did you mean temperature?" in wrong["message"]
            cold = await failure(client, "submit_job", box_id=system["system_id"], temperature=-1)
            assert (cold["code"], cold["fields"][0]["at"]) == ("invalid", "temperature")
            await call(client, "cancel", id=system["system_id"])
            stopped = await ended(client, system["system_id"])
            assert stopped["status"] in ("cancelled", "succeeded")
            no_frames = await failure(client, "analyze", trajectory="nothing", topology="steps")
            assert no_frames["code"] == "not_found"
            assert await call(client, "delete", id=system["system_id"]) == {"deleted": system["system_id"]}
            await call(client, "delete", id=file["file_id"])
            margin = await call(
                client,
                "margin",
                marginDate="2024-12-31",
                portfolio={"futures": [{"ticker": "XEQ1", "type": "long", "quantity": 10}]},
            )
            (root / "book.csv").write_text("ticker,type,quantity\nXEQ1,long,10\n")
            of_file = await call(client, "margin", marginDate="2024-12-31", portfolio_file="book.csv")
            assert of_file["summary"] == margin["summary"]

    anyio.run(main)


def test_files_outside_of_the_root_are_neither_read_nor_written(root: Path) -> None:
    (root / "link.pdb").symlink_to(root.parent / "secret.pdb")
    (root / "up").symlink_to(root.parent)
    (root / ".hidden").mkdir()
    shutil.copy(STRUCTURE, root / ".hidden/key.pdb")

    async def main() -> None:
        async with assistant(root) as client:
            for path in (
                "../secret.pdb",
                str(root.parent / "secret.pdb"),
                "/etc/passwd",
                "link.pdb",
                "up/secret.pdb",
                "x/../../secret.pdb",
                ".hidden/key.pdb",
                "villin.pdb/../../secret.pdb",
                "a" * 5000,
                "nul\0.pdb",
            ):
                for tool, arguments in (
                    ("upload", {"path": path}),
                    ("run", {"structure": "villin.pdb", "ligands": [path]}),
                    ("margin", {"portfolio_file": path}),
                ):
                    error = await failure(client, tool, **arguments)
                    assert error["code"] in ("invalid", "file"), (tool, path, error)
                    assert "a secret" not in json.dumps(error)
            for path in ("../out", "up/out", "/tmp/out-of-root", ".hidden/out", "villin.pdb"):
                error = await failure(client, "run", structure="villin.pdb", output=path)
                assert error["code"] in ("invalid", "conflict"), (path, error)
            file = await call(client, "upload", path="villin.pdb", name="inside")
            for path in ("../out.pdb", "up/out.pdb", "link.pdb", ".bashrc", "villin.pdb"):
                await failure(client, "download", id=file["file_id"], to=path)
            await call(client, "delete", id=file["file_id"])
            await failure(client, "show", id="run:../root")
            await failure(client, "show", id="run:up")
        assert (root.parent / "secret.pdb").read_text() == "a secret"
        assert sorted(path.name for path in root.parent.iterdir()) == ["root", "secret.pdb"]

    anyio.run(main)


def test_who_may_only_read_is_offered_nothing_else(root: Path) -> None:
    async def main() -> None:
        async with assistant(root, "--read-only") as client:
            tools = (await client.list_tools()).tools
            assert all(tool.annotations.read_only_hint for tool in tools)
            names = {tool.name.removeprefix("molbox_") for tool in tools}
            assert names == {"whoami", "list", "show", "log", "estimate", "wait", "results", "margin"}
            for tool in ("delete", "upload", "run"):
                with pytest.raises(MCPError, match="no such tool with --read-only"):
                    await client.call_tool(f"molbox_{tool}", {"id": "job_1"})
            assert (await call(client, "whoami"))["read_only"] is True

    anyio.run(main)


def test_arguments_are_bounded_and_of_the_right_kind(root: Path) -> None:
    async def main() -> None:
        async with assistant(root, mode=LEGACY) as client:
            for tool, arguments, at in (
                ("wait", {"id": "job_00000000000000000000", "seconds": 3600}, "seconds"),
                ("log", {"id": "job_00000000000000000000", "lines": 10**9}, "lines"),
                ("list", {"kind": "job", "limit": 0}, "limit"),
                ("list", {"kind": "job", "limit": "5"}, "limit"),
                ("list", {"kind": "account"}, "kind"),
                ("list", {"kind": "job", "surprise": 1}, "surprise"),
                ("results", {"id": "job_00000000000000000000", "rows": 51}, "rows"),
                ("show", {"id": "../../etc/passwd"}, '"../../etc/passwd"'),
                ("show", {"id": 7}, "id"),
                ("show", {}, "id"),
                ("run", {"structure": "villin.pdb", "replicas": 10**6}, "replicas"),
                ("run", {"structure": "villin.pdb", "system": {"protein": "other"}}, "system.protein"),
                ("run", {"resume": True}, "resume"),
                ("build_system", {"box_name": "x" * 1_000_000}, "box_name"),
                ("build_system", {"box_shape": ["cube"]}, "box_shape"),
                ("margin", {"portfolio_file": 5}, "portfolio_file"),
            ):
                error = await failure(client, tool, **arguments)
                assert error["code"] == "invalid", (tool, error)
                assert error["message"].startswith(at), (tool, error)
                assert len(error["message"]) < 2000, (tool, error)
            missing = await failure(client, "show", id="job_00000000000000000000")
            assert missing["code"] == "not_found"
            with pytest.raises(MCPError, match="no such tool"):
                await client.call_tool("rm", {})
            with pytest.raises(MCPError, match="no such resource"):
                await client.read_resource("file:///etc/passwd")
            with pytest.raises(MCPError, match="no such prompt"):
                await client.get_prompt("other", {})
            assert (await call(client, "whoami"))["account"], "and it still serves"

    anyio.run(main)


def test_what_is_no_message_ends_nothing_and_standard_output_is_the_protocols(root: Path) -> None:
    huge = b'{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"x":"' + b"x" * (5 << 20) + b'"}}\n'
    nested = b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":' + b"[" * 20000 + b"]" * 20000 + b"}\n"
    text = HELLO + b"not json\n\xff\xfe\x00\n[]\n" + huge + nested + PING
    answers, log, status = raw(root, text, **SETTINGS)
    assert status == 0, log
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert answers[0]["result"]["serverInfo"]["name"] == "molbox"
    assert any(answer.get("id") == "still there" and answer.get("result") == {} for answer in answers), answers
    assert len(json.dumps(answers)) < 100_000, "and nothing of it comes back"
    assert raw(root, b"", **SETTINGS)[::2] == ([], 0), "a client that goes at once is no error"


def test_without_a_profile_each_call_says_what_to_do(root: Path) -> None:
    async def main() -> None:
        async with assistant(root, settings={}) as client:
            assert len((await client.list_tools()).tools) == 15, "no margin address, no margin"
            for tool, arguments in (("whoami", {}), ("run", {"structure": "villin.pdb"})):
                error = await failure(client, tool, **arguments)
                assert error["code"] == "auth" and "molbox login" in error["remedy"]
            assert not (root / "villin-run").exists()
        async with assistant(root, settings={"MOLBOX_PROFILE": "other"}) as client:
            error = await failure(client, "whoami")
            assert "no profile" in error["message"] and "molbox login --profile other" in error["remedy"]

    anyio.run(main)
    _, log, _ = raw(root, b"")
    assert "no API key; log in with `molbox login`" in log

"""CPU time per request of molboxd beside the FastAPI baseline; see README.md."""

import argparse
import json
import os
import platform
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from urllib.request import Request, urlopen

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
STAGE = {"time": 0.1, "traj_freq": 500, "log_freq": 100, "type": "NPT", "restraint_force": 500, "restraint_mask": ":1@O"}
JOB = {
    "batch_name": "bench",
    "batch_index": 1,
    "minimization_steps": 500,
    "temperature": 310,
    "pressure": 1.01325,
    "friction": 1,
    "integration_timestep": 2,
    "equilibration": [STAGE, {**STAGE, "restraint_force": 100}],
    "production": {"time": 1, "traj_freq": 5000, "log_freq": 1000, "type": "NPT"},
}
SHORT = {"time": 0.0002, "traj_freq": 50, "log_freq": 50}
SHORT_JOB = {
    **JOB,
    "minimization_steps": 10,
    "equilibration": [{**STAGE, **SHORT}, {**STAGE, **SHORT}],
    "production": {**JOB["production"], **SHORT},
}
# Carries out checks of the environment; a task only waits, so that it takes no CPU time.
IDLE = """#!/bin/sh
case "$*" in
    *data/tasks/*) exec sleep 100000 ;;
    *) exec {python} "$@" ;;
esac
"""
N_LISTED = 100


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(what, state):
    start = time.monotonic()
    while not (value := state()):
        if time.monotonic() - start > 120:
            raise SystemExit(f"it did not come about that {what}")
        time.sleep(0.05)
    return value


def ask(url, key, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"x-api-key": key, "content-type": "application/json"})
    with urlopen(request) as answer:
        return json.load(answer)


def descendants(pid):
    """Handles of all processes that a process has started, and those have."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except FileNotFoundError:
            # It has ended.
            continue
    found, of = [], {pid}
    while of := {child for child, parent in parents.items() if parent in of}:
        found += map(os.pidfd_open, of)
    return found


class Molboxd:
    """The service with one system and with jobs, most of them queued, others that have ended."""

    def __init__(self, program, python, folder, settings=None):
        self.program, self.folder, self.settings = program, folder, settings or {}
        folder.mkdir()
        run = self.command(self.settings)
        subprocess.run([*run, "account", "create", "bench"], check=True, stdout=subprocess.DEVNULL)
        made = subprocess.run([*run, "key", "create", "bench"], check=True, capture_output=True, text=True)
        self.key = made.stdout.strip()
        idle = folder / "idle"
        idle.write_text(IDLE.format(python=python))
        idle.chmod(0o755)
        self.start(python)
        try:
            self.fill(idle)
        except BaseException:
            self.stop()
            raise

    def fill(self, idle):
        system = ask(f"{self.base}/submit/system", self.key, {"minimum_padding": 1.2})["system_id"]
        self.wait_for(f"/info/system/{system}")
        ended = ask(f"{self.base}/submit/job", self.key, {**SHORT_JOB, "box_id": system})["job_id"]
        self.wait_for(f"/info/job/{ended}")
        self.stop()
        self.copy(ended, N_LISTED - 1)
        self.start(idle)
        self.job = {**JOB, "box_id": system}
        jobs = [ask(f"{self.base}/submit/job", self.key, self.job)["job_id"] for _ in range(N_LISTED + 50)]
        self.view = f"/info/job/{jobs[-1]}"

    def command(self, settings):
        command = [self.program, "--data", self.folder / "data"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def wait_for(self, path):
        def has_succeeded():
            record = ask(self.base + path, self.key)
            if record["status"] in ("failed", "cancelled"):
                raise SystemExit(f"{path} has {record['status']}: {record.get('error')}")
            return record["status"] == "succeeded"

        until(f"{path} has succeeded", has_succeeded)

    def copy(self, job, count):
        """Adds a job that has ended to the database a few times more: to run them would take an hour."""
        with sqlite3.connect(self.folder / "data/molbox.sqlite") as database:
            columns = [column for _, column, *_ in database.execute("pragma table_info(task)")]
            values = ["null" if column == "seq" else "?1" if column == "id" else column for column in columns]
            copy = f"insert into task ({', '.join(columns)}) select {', '.join(values)} from task where id = ?2"
            database.executemany(copy, ((f"job_{number:020}", job) for number in range(count)))
        database.close()

    def start(self, python):
        settings = {"listen": '"127.0.0.1:0"', "margin_listen": '"127.0.0.1:0"', "worker.python": json.dumps(str(python))}
        settings |= {"worker.slots": 1, "limits.requests_per_minute": 0, "limits.open_tasks": 0}
        # Copies of a job count as what it holds.
        settings |= {"limits.account_bytes": 0}
        command = self.command(settings | self.settings)
        addresses = self.folder / "data/addresses.json"
        addresses.unlink(missing_ok=True)
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen([*command, "serve"], stdout=log, stderr=log)
        self.base = json.loads(until("it listens", lambda: addresses.exists() and addresses.read_text()))["base_url"]

    def stop(self):
        # Workers outlive their service.
        workers = descendants(self.process.pid)
        self.process.terminate()
        self.process.wait()
        for worker in workers:
            try:
                signal.pidfd_send_signal(worker, signal.SIGKILL)
            except ProcessLookupError:
                pass  # It has ended with the service.
            os.close(worker)


class Baseline:
    def __init__(self):
        port = free_port()
        self.key, self.base, self.view, self.job = "k", f"http://127.0.0.1:{port}", "/info/job/1", {**JOB, "box_id": "b"}
        command = [sys.executable, "-m", "uvicorn", "baseline:app", "--port", str(port), "--log-level", "error"]
        self.process = subprocess.Popen(command, cwd=HERE)
        until("the baseline listens", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def cpu_seconds(pid):
    """User and system time of a process, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server, path, body, seconds, folder):
    """Microseconds of CPU time per request, and requests per second."""
    script = f'wrk.headers["x-api-key"] = "{server.key}"\n'
    if body is not None:
        script += f'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\nwrk.body = [[{json.dumps(body)}]]\n'
    file = folder / "request.lua"
    file.write_text(script)
    before = cpu_seconds(server.process.pid)
    command = ["wrk", "-t1", "-c16", f"-d{seconds}s", "-s", str(file), server.base + path]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent = cpu_seconds(server.process.pid) - before
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    wants_refusal = body is not None and body["temperature"] < 0
    if bool(refused) != wants_refusal:
        raise SystemExit(f"{path}: {said}")
    n = int(re.search(r"(\d+) requests in", said)[1])
    return spent / n * 1e6, float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])


CASES = {
    "GET one job": lambda s: (s.view, None),
    f"GET {N_LISTED} queued jobs": lambda s: (f"/info/jobs?limit={N_LISTED}&status=queued", None),
    f"GET {N_LISTED} ended jobs": lambda s: (f"/info/jobs?limit={N_LISTED}&status=succeeded", None),
    "POST a job, 3 errors": lambda s: (
        "/submit/job",
        {**s.job, "temperature": -1, "integration_timestep": 0, "batch_index": -2},
    ),
    "POST a job": lambda s: ("/submit/job", s.job),
}


def compare(servers, options, folder):
    """The cheapest of some runs for each case and server; they take turns, so that all have the same machine."""
    baseline, *others = servers
    print(f"{'CPU time per request, µs':26} {baseline:>10}" + "".join(f" {name:>10} {'ratio':>6}" for name in others))
    results = {}
    for case, request in CASES.items():
        runs = {name: [] for name in servers}
        for _ in range(options.repeat):
            for name, server in servers.items():
                runs[name].append(measure(server, *request(server), options.seconds, folder))
        best = {name: min(measured) for name, measured in runs.items()}
        results[case] = {
            name: {"cpu_us": cost, "per_second": rate, "ratio": cost / best[baseline][0]}
            for name, (cost, rate) in best.items()
        }
        costs = "".join(f" {best[name][0]:10.1f} {results[case][name]['ratio']:6.3f}" for name in others)
        print(f"{case:26} {best[baseline][0]:10.1f}{costs}", flush=True)
    return results


def program(text):
    """Name, program and, where the version has a worker of its own, its interpreter."""
    name, found, paths = text.partition("=")
    path, _, python = (paths if found else text).partition(",")
    return (name if found else "molboxd", Path(path), Path(python) if python else None)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument(
        "--molboxd",
        type=program,
        action="append",
        metavar="[NAME=]PROGRAM[,PYTHON]",
        help="may be given more than once",
    )
    arguments.add_argument("--python", type=lambda text: Path(text).absolute(), default=ROOT / "target/worker-env/bin/python")
    arguments.add_argument("--json", type=Path, help="file for the results")
    options = arguments.parse_args()
    # So that what was started is ended then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    programs = options.molboxd or [("molboxd", ROOT / "target/release/molboxd", None)]
    versions = {name: version(name) for name in ("fastapi", "uvicorn", "uvloop", "httptools", "pydantic")}
    versions["python"] = platform.python_version()
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    with tempfile.TemporaryDirectory() as temporary:
        folder, servers = Path(temporary), {}
        try:
            servers["fastapi"] = Baseline()
            for name, path, python in programs:
                servers[name] = Molboxd(path, python or options.python, folder / name)
            results = compare(servers, options, folder)
        finally:
            for server in servers.values():
                server.stop()
    if options.json:
        options.json.write_text(json.dumps({"versions": versions, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()

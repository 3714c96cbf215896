"""CPU time per request of molboxd beside the FastAPI baseline; see README.md."""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
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


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(what, state):
    start = time.monotonic()
    while (value := state()) is None:
        if time.monotonic() - start > 120:
            raise SystemExit(f"it did not come about that {what}")
        time.sleep(0.05)
    return value


def ask(url, key, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"x-api-key": key, "content-type": "application/json"})
    with urlopen(request) as answer:
        return json.load(answer)


class Molboxd:
    """The service with one system, and with workers that only wait, so that they take no CPU time."""

    def __init__(self, program, python, folder):
        self.program, self.folder = program, folder
        run = [program, "--data", folder / "data"]
        subprocess.run([*run, "account", "create", "bench"], check=True, stdout=subprocess.DEVNULL)
        made = subprocess.run([*run, "key", "create", "bench"], check=True, capture_output=True, text=True)
        self.key = made.stdout.strip()
        self.start(python)
        system = ask(f"{self.base}/submit/system", self.key, {"minimum_padding": 1.2})["system_id"]
        view = f"{self.base}/info/system/{system}"
        until("a system is built", lambda: True if ask(view, self.key)["status"] == "succeeded" else None)
        self.stop()
        idle = folder / "idle"
        idle.write_text("#!/bin/sh\nexec sleep 100000\n")
        idle.chmod(0o755)
        self.start(idle)
        self.job = {**JOB, "box_id": system}
        jobs = [ask(f"{self.base}/submit/job", self.key, self.job)["job_id"] for _ in range(150)]
        self.view = f"/info/job/{jobs[-1]}"

    def start(self, python):
        settings = {"listen": '"127.0.0.1:0"', "margin_listen": '"127.0.0.1:0"', "worker.python": json.dumps(str(python))}
        settings |= {"worker.slots": 1, "limits.requests_per_minute": 0, "limits.open_tasks": 0}
        command = [self.program, "--data", self.folder / "data"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        addresses = self.folder / "data/addresses.json"
        addresses.unlink(missing_ok=True)
        log = (self.folder / "log").open("w")
        self.process = subprocess.Popen([*command, "serve"], stdout=log, stderr=log)
        self.base = json.loads(until("it listens", lambda: addresses.read_text() if addresses.exists() else None))["base_url"]

    def stop(self):
        self.process.terminate()
        self.process.wait()
        # Workers outlive their service.
        subprocess.run(["pkill", "-f", "sleep 100000"], check=False)


class Baseline:
    def __init__(self):
        port = free_port()
        self.key, self.base, self.view, self.job = "k", f"http://127.0.0.1:{port}", "/info/job/1", {**JOB, "box_id": "b"}
        command = [sys.executable, "-m", "uvicorn", "baseline:app", "--port", str(port), "--log-level", "error"]
        self.process = subprocess.Popen(command, cwd=HERE)
        until("the baseline listens", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0 or None)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def cpu_seconds(pid):
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


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--molboxd", type=Path, default=ROOT / "target/release/molboxd")
    arguments.add_argument("--python", type=Path, default=ROOT / "target/worker-env/bin/python")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The baseline last: it cannot fail to start once it is there.
        molboxd = Molboxd(options.molboxd, options.python, folder)
        servers = {"fastapi": Baseline(), "molboxd": molboxd}
        cases = {
            "GET /info/job/{id}": lambda s: (s.view, None),
            "GET /info/jobs, 100 records": lambda s: ("/info/jobs?limit=100", None),
            "POST /submit/job, 3 errors": lambda s: (
                "/submit/job",
                {**s.job, "temperature": -1, "integration_timestep": 0, "batch_index": -2},
            ),
            "POST /submit/job, valid": lambda s: ("/submit/job", s.job),
        }
        print(f"{'CPU time per request':30} {'fastapi':>10} {'molboxd':>10} {'ratio':>7}   requests/s")
        try:
            for case, request in cases.items():
                cost = {}
                for which, server in servers.items():
                    runs = [measure(server, *request(server), options.seconds, folder) for _ in range(options.repeat)]
                    cost[which] = min(runs)
                ratio = cost["molboxd"][0] / cost["fastapi"][0]
                rates = " ".join(f"{cost[which][1]:.0f}" for which in servers)
                fast, ours = cost["fastapi"][0], cost["molboxd"][0]
                print(f"{case:30} {fast:7.1f} µs {ours:7.1f} µs {ratio:7.3f}   {rates}", flush=True)
        finally:
            for server in servers.values():
                server.stop()


if __name__ == "__main__":
    main()

"""Listings, looks and submissions with a million jobs, on SQLite and on PostgreSQL; see README.md."""

import argparse
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import N_LISTED, ROOT, SHORT_JOB, Molboxd, ask, cpu_seconds, free_port, until

# Rows that one transaction makes.
COPIED = 2000


class Postgres:
    """Debian's server, for this run alone. It refuses to be root's."""

    def __init__(self, folder):
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda found: int(found.parent.name))
        folder.mkdir()
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        if self.user:
            subprocess.run(["chown", "postgres", folder], check=True)
        data, self.port = folder / "data", free_port()
        initdb = [self.bin / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--locale=C", "-E", "UTF8"]
        subprocess.run([*self.user, *initdb], check=True, stdout=subprocess.DEVNULL, cwd="/")
        server = [self.bin / "postgres", "-D", data, "-p", str(self.port), "-k", folder, "-h", "127.0.0.1"]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen([*self.user, *server], stdout=log, stderr=log, cwd="/")
        until("PostgreSQL answers", lambda: self.psql("select 1", check=False) == "1")
        self.psql("create database molbox template template0 lc_collate 'C' encoding 'UTF8'")
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/molbox"

    def psql(self, sql, database="postgres", check=True):
        command = [self.bin / "psql", "-qAtX", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", database]
        return subprocess.run([*command, "-c", sql], check=check, capture_output=True, text=True).stdout.strip()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


class Large(Molboxd):
    """The service with as many jobs that have ended as are asked for."""

    def __init__(self, program, python, folder, jobs, postgres=None):
        self.jobs, self.postgres = jobs, postgres
        super().__init__(program, python, folder, {"database.url": json.dumps(postgres.url)} if postgres else None)

    def fill(self, idle):
        system = ask(f"{self.base}/submit/system", self.key, {"minimum_padding": 1.2})["system_id"]
        self.wait_for(f"/info/system/{system}")
        ended = ask(f"{self.base}/submit/job", self.key, {**SHORT_JOB, "box_id": system})["job_id"]
        self.wait_for(f"/info/job/{ended}")
        self.stop()
        self.copy(ended, self.jobs)
        self.start(idle)
        self.job, self.view = {**SHORT_JOB, "box_id": system}, f"/info/job/{ended}"

    def copy(self, job, count):
        if self.postgres is None:
            return super().copy(job, count)
        columns = self.postgres.psql(
            "select string_agg(column_name, ',') from information_schema.columns"
            " where table_name = 'task' and is_generated = 'NEVER' and column_name <> 'seq'",
            "molbox",
        ).split(",")
        values = ["'job_' || lpad(number::text, 20, '0')" if column == "id" else column for column in columns]
        # Each row changes those that count them; what one transaction has left of those, it goes through.
        for first in range(1, count + 1, COPIED):
            self.postgres.psql(
                f"insert into task ({', '.join(columns)}) select {', '.join(values)}"
                f" from task, generate_series({first}, {min(first + COPIED - 1, count)}) as number where id = '{job}'",
                "molbox",
            )
        self.postgres.psql("vacuum analyze", "molbox")


def measure(server, path, body, connections, seconds, folder):
    """Median and 99th percentile of the time to an answer, ms; answers per second; CPU of the service for each, µs."""
    script = f'wrk.headers["x-api-key"] = "{server.key}"\n'
    if body is not None:
        script += f'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\nwrk.body = [[{json.dumps(body)}]]\n'
    file = folder / "request.lua"
    file.write_text(script)
    before = cpu_seconds(server.process.pid)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(file), server.base + path]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent = cpu_seconds(server.process.pid) - before
    if "Non-2xx" in said:
        raise SystemExit(f"{path}: {said}")
    unit = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    half, most = (
        float(number) * unit[of]
        for number, of in (re.search(rf"{share}%\s+([\d.]+)(us|ms|s)\b", said).groups() for share in (50, 99))
    )
    n = int(re.search(r"(\d+) requests in", said)[1])
    return half, most, float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1]), spent / n * 1e6


CASES = {
    "GET one": lambda s: (s.view, None, 1),
    f"GET {N_LISTED}, the newest": lambda s: (f"/info/jobs?limit={N_LISTED}", None, 1),
    f"GET {N_LISTED} that have ended": lambda s: (f"/info/jobs?limit={N_LISTED}&status=succeeded", None, 1),
    f"GET {N_LISTED} of a name": lambda s: (f"/info/jobs?limit={N_LISTED}&name=bench", None, 1),
    "POST a job, one at a time": lambda s: ("/submit/job", s.job, 1),
    "POST a job, 16 at a time": lambda s: ("/submit/job", s.job, 16),
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--jobs", type=int, default=1_000_000)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--molboxd", type=Path, default=ROOT / "target/release/molboxd")
    arguments.add_argument("--python", type=lambda text: Path(text).absolute(), default=ROOT / "target/worker-env/bin/python")
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    print(f"SQLite {sqlite3.sqlite_version} (that of molboxd is its own), {options.jobs} jobs")
    with tempfile.TemporaryDirectory() as temporary:
        folder, started = Path(temporary), []
        # PostgreSQL's user has to reach its own folder.
        folder.chmod(0o755)
        try:
            started.append(postgres := Postgres(folder / "postgres"))
            print(postgres.psql("select version()"))
            servers = {}
            for name, database in (("SQLite", None), ("PostgreSQL", postgres)):
                server = Large(options.molboxd, options.python, folder / name, options.jobs, database)
                servers[name] = server
                started.append(server)
            for case, request in CASES.items():
                for name, server in servers.items():
                    half, most, rate, cpu = measure(server, *request(server), options.seconds, folder)
                    print(
                        f"{case:28} {name:10} p50 {half:7.2f} ms  p99 {most:7.2f} ms  {rate:7.0f}/s  CPU {cpu:6.0f} µs",
                        flush=True,
                    )
        finally:
            for one in reversed(started):
                one.stop()


if __name__ == "__main__":
    main()

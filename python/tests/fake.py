"""A service in a few lines, which answers as a table says and remembers what it was asked."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "openapi/examples"
JOB_ID = "job_7cpejpkq0zxnh8yydfbe"
KEY = "mbx_secret"
CONTENT = bytes(n % 251 for n in range(1200))
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Received:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


def example(name: str) -> Any:
    """An example of the document."""
    return json.loads((EXAMPLES / name).read_text())


def page(n: int, next_page: str | None) -> dict[str, Any]:
    """A page of so many jobs."""
    job = {
        "job_id": JOB_ID,
        "box_id": "box_77jpjj2n2sksrj1kkw21",
        "status": "succeeded",
        "request": {},
        "parameters": {},
        "created_at": "2026-11-21T12:02:00Z",
        "attempts": 1,
        "warnings": [],
    }
    return {"items": [job] * n, "next_page": next_page}


@dataclass
class Service:
    """Answers in their order; the last one for all that follow."""

    answers: list[dict[str, Any]]
    names: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    def __enter__(self) -> Service:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.origin}/local"
        self.names = {"base": self.base_url, "job": JOB_ID, "digest": DIGEST} | self.names
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        # A connection of our own wakes up the thread, which then sees that it is to end.
        self.is_over = True
        if self.thread.is_alive():
            socket.create_connection(("127.0.0.1", self.port)).close()
        self.thread.join()

    is_over = False

    def _serve(self) -> None:
        # Closed whatever happens: a client that is not answered would wait for a minute.
        with self.socket:
            self._accept()

    def _accept(self) -> None:
        while True:
            connection, _ = self.socket.accept()
            with connection:
                if self.is_over:
                    return
                try:
                    self._answer(connection)
                except OSError:
                    # The client has gone: that is part of some cases.
                    continue

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        with connection.makefile("rb") as stream:
            line = stream.readline().decode().rsplit(" ", 1)[0]
            if not line:
                return
            headers = {}
            while text := stream.readline().decode().strip():
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            body = stream.read(int(headers.get("content-length", 0)))
        number = len(self.received)
        self.received.append(Received(line, headers, body))
        if self.answers:
            connection.sendall(self.bytes_of(self.answers[min(number, len(self.answers) - 1)]))

    def filled(self, text: str) -> str:
        """A text of the table with its names replaced."""
        for name, value in self.names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def bytes_of(self, answer: dict[str, Any]) -> bytes:
        """What goes over the wire."""
        if answer.get("silent"):
            return b""
        status = answer.get("status", 200)
        body, promised = self._body(answer)
        headers = {"connection": "close"}
        if {"example", "json", "jobs"} & set(answer):
            headers["content-type"] = "application/json"
        headers |= {name: self.filled(text) for name, text in answer.get("headers", {}).items()}
        transfer = answer.get("transfer", "length")
        if transfer == "chunked":
            headers["transfer-encoding"] = "chunked"
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        elif transfer == "cut":
            headers["content-length"] = str(promised)
        elif transfer == "length" and status != HTTPStatus.NO_CONTENT:
            headers["content-length"] = str(len(body))
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{head}\r\n".encode() + body

    def _body(self, answer: dict[str, Any]) -> tuple[bytes, int]:
        """A body, and how long a body that is cut claims to be."""
        if "content" in answer:
            first, end = answer["content"]
            return CONTENT[first:end], len(CONTENT) - first
        if "example" in answer:
            body = json.dumps(example(answer["example"])).encode()
        elif "jobs" in answer:
            body = json.dumps(page(answer["jobs"], answer.get("next_page"))).encode()
        elif "json" in answer:
            body = self.filled(json.dumps(answer["json"])).encode()
        else:
            body = str(answer.get("text", "")).encode()
        return body, len(body) + 1

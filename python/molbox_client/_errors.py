"""What can go wrong, by what the caller can do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNAUTHORIZED = 401
NEW_KEY = (
    "log in again with `molbox login`, or set MOLBOX_API_KEY to a key; whoever runs the service "
    "makes keys with `molboxd key create NAME`"
)


class MolboxError(Exception):
    """Every error of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is unpickled with its `args` alone, which are one text here, while its class
        # takes several: joblib and dask would show an error of pickling in the place of the cause.
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(
    kind: type[MolboxError], args: tuple[Any, ...], state: dict[str, Any]
) -> MolboxError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in an error of the disk, which has no name when the disk is full."""
    try:
        yield
    except OSError as error:
        # Those of this package are of the same kind, and have no number.
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


class InvalidRequest(MolboxError, ValueError):
    """The request is not one that the document allows. Nothing was sent."""


class ConnectionFailed(MolboxError, ConnectionError):
    """The service was not reached, also after retries."""


class UnexpectedAnswer(MolboxError):
    """What answered is not what the document says: often a proxy, or another service."""


class WaitTimeout(MolboxError, TimeoutError):
    """The task did not end in time. It still runs; wait for it again."""


class Damaged(MolboxError, OSError):
    """What was downloaded is not what the service sent. It has been removed."""


class MolboxWarning(UserWarning):
    """What the service warns of in a task that has succeeded, and what it chose by itself."""


class TaskFailed(MolboxError):
    """The task that was waited for failed or was cancelled.

    Attributes
    ----------
    id : str
        Identifier of the system, job or analysis.
    status : str
        `failed`, `cancelled`, or what a later service has besides.
    failure : records.Failure or None
        Why it failed: `.code`, `.message`, `.remedy`, and `.log`, its last lines.
    jobs : list
        All jobs of `run_replicas`, those that have succeeded among them; else empty.
    """

    def __init__(self, id: str, status: str, failure: Any = None) -> None:
        self.id, self.status, self.failure = id, status, failure
        self.jobs: list[Any] = []
        text = f"{id} {status}"
        if failure is not None:
            text += f": {failure.message}"
            if failure.remedy:
                text += f" ({failure.remedy})"
        super().__init__(text)


class Refused(MolboxError):
    """The service answered with an error status.

    Attributes
    ----------
    status : int
        Status of the answer.
    violations : list of dict
        Everything that was wrong: `loc`, `msg` and `type` of each. An answer that is not as the
        document says makes one, of the type `unexpected_body`.
    request_id : str or None
        Names the request in the service's log.
    retry_after : float or None
        Seconds after which the service would take the request again.
    """

    def __init__(
        self,
        status: int,
        violations: list[dict[str, Any]],
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status, self.violations = status, violations
        self.request_id, self.retry_after = request_id, retry_after
        text = "; ".join(_line(violation) for violation in violations)
        if [violation.get("loc") for violation in violations] == [["path"]]:
            # There is no such operation.
            text += " (is the address whole? It ends in the stage, as http://127.0.0.1:8080/local)"
        # Another key of an account that is disabled would be refused as well.
        is_disabled = any(it.get("type") == "account_disabled" for it in violations)
        if status == UNAUTHORIZED and not is_disabled:
            text += f" ({NEW_KEY})"
        named = f" (request {request_id})" if request_id else ""
        super().__init__(f"{status}: {text}{named}")


def _line(violation: dict[str, Any]) -> str:
    path = ""
    # Where in the request: `body` is where nearly everything is, and nobody's word for it.
    for item in violation.get("loc") or []:
        if isinstance(item, int):
            path += f"[{item}]"
        elif item != "body":
            path += f".{item}" if path else str(item)
    message = str(violation.get("msg"))
    return f"{path}: {message}" if path else message


def unwanted(error: Refused) -> bool:
    """Whether a file that was sent is refused for what it is, or for a name that another has.

    One that is refused for its identifier may be registered, by the same call.
    """
    return error.status == 422 or is_name_taken(error)


def is_name_taken(error: Refused) -> bool:
    """Whether another file has the name that one is to have."""
    places = [(violation.get("loc") or [None])[-1] for violation in error.violations]
    return error.status == 409 and "name" in places


class AuthenticationFailed(Refused):
    """No key, one that is no longer good, or one that may not do this."""


class NotFound(Refused, LookupError):
    """No such thing in this account."""


class Conflict(Refused):
    """The state of something does not allow it, or a name is taken."""


class TooManyRequests(Refused):
    """Too many requests, also after retries."""


_BY_STATUS: dict[int, type[Refused]] = {
    401: AuthenticationFailed,
    403: AuthenticationFailed,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
}


def with_remedy(error: Refused, remedy: str) -> Refused:
    """The same refusal, with what can be done about it."""
    violations = [{**it, "msg": f"{it.get('msg')}; {remedy}"} for it in error.violations]
    return refused(error.status, violations, error.request_id, error.retry_after)


def refused(
    status: int,
    violations: list[dict[str, Any]],
    request_id: str | None,
    retry_after: float | None,
) -> Refused:
    """The error for an answer with this status."""
    kind = _BY_STATUS.get(status, Refused)
    return kind(status, violations, request_id, retry_after)

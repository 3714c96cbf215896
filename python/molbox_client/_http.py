"""How a request travels, as far as it is the same for both clients: what is repeated, and when."""

from __future__ import annotations

import math
import os
import random
import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from ._errors import InvalidRequest, MolboxError, Refused, UnexpectedAnswer, refused
from ._quantity import plain
from ._version import __version__

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

FIRST_DELAY = 0.25
# Longer than this is not waited for; the error has the time to come back.
LONGEST_DELAY = 60.0
MAX_REDIRECTS = 5
# The body of an error is read up to here.
MAX_ERROR_BYTES = 1 << 20
CHUNK_BYTES = 1 << 18

# These two say that the request was not begun.
_UNTOUCHED = {429, 503}
_TRANSIENT = {408, 429, 502, 503, 504}

_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[-+]\d\d:\d\d)", re.IGNORECASE
)

USER_AGENT = f"molbox-python/{__version__}"


def checked_key(key: str) -> str:
    """An idempotency key, if it is one."""
    if not isinstance(key, str) or not re.fullmatch("[ -~]{1,255}", key):
        raise InvalidRequest(
            f"idempotency_key: must be 1 to 255 printable ASCII characters, got {key!r}"
        )
    return key


def checked_number(name: str, value: Any, kind: type, least: float = -math.inf) -> Any:
    """An argument, if it is such a number: another thing would fail later, under no name."""
    found = plain(value)
    is_number = isinstance(found, (int, kind)) and not isinstance(found, bool)
    if not is_number or not least <= found < math.inf:
        words = "a whole number" if kind is int else "a number"
        bound = f" >= {least:g}" if least > -math.inf else ""
        raise InvalidRequest(f"{name}: must be {words}{bound}, got {value!r}")
    return found


def read(model: type[Model], record: Any) -> Model:
    """An answer with types.

    Raises
    ------
    UnexpectedAnswer
        When it is not what the document says.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(record)
    except ValidationError as error:
        places = (".".join(map(str, one["loc"])) + f": {one['msg']}" for one in error.errors())
        raise UnexpectedAnswer(f"is no {model.__name__}: {'; '.join(places)}") from error


def member(answer: Mapping[str, Any], name: str, kind: type) -> Any:
    """What an answer has under a name, if it is of this kind."""
    found = answer.get(name)
    if not isinstance(found, kind):
        raise UnexpectedAnswer(f"the answer has no {name}: {str(answer)[:200]}")
    return found


def moment(answer: Mapping[str, Any], name: str) -> datetime | None:
    """A time that an answer has under a name, in UTC; None where it has none."""
    text = answer.get(name)
    if text is None:
        return None
    # Python 3.10 itself reads three or six digits of a second alone, and no Z.
    match = _MOMENT.fullmatch(str(text))
    try:
        if match is not None:
            micros, zone = (
                (match[2] or "")[:6].ljust(6, "0"),
                match[3].upper().replace("Z", "+00:00"),
            )
            return datetime.fromisoformat(f"{match[1]}.{micros}{zone}").astimezone(timezone.utc)
    except ValueError:
        match = None
    raise UnexpectedAnswer(f"{name}: is no time: {text!r}")


def required_moment(answer: Mapping[str, Any], name: str) -> datetime:
    """The same, of a time that the document has in every such answer."""
    found = moment(answer, name)
    if found is None:
        raise UnexpectedAnswer(f"the answer has no {name}: {str(answer)[:200]}")
    return found


def backoff(attempt: int) -> float:
    """Seconds, doubling, half to the whole: clients refused together do not return together."""
    return float(FIRST_DELAY * 2 ** min(attempt, 10) * random.uniform(0.5, 1.0))


def is_transient(error: Exception) -> bool:
    """Whether the same may succeed later: out of reach, or overloaded."""
    if isinstance(error, Refused):
        return error.status in _TRANSIENT
    return isinstance(error, ConnectionError)


def retry_delay(error: Refused, attempt: int, *, is_repeatable: bool) -> float | None:
    """Seconds until a refused request is repeated; none when it may not be."""
    if error.status not in (_TRANSIENT if is_repeatable else _UNTOUCHED):
        return None
    if error.retry_after is None:
        return backoff(attempt)
    # A minute is what the service itself asks for; what is added is so that not all come at once.
    return error.retry_after + backoff(0) / 2 if error.retry_after <= LONGEST_DELAY else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """What `retry-after` asks for, in seconds: a number, or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


# What the libraries say of a connection, and what that means and helps. The command line says the
# same (crates/cli/src/failure.rs).
_CAUSES = (
    (
        "hostname mismatch|ip address mismatch",
        "its certificate is for another name; give the address with the name that it is for, as "
        "base_url or MOLBOX_BASE_URL",
    ),
    (
        "certificate has expired",
        "its certificate has expired; whoever runs the service renews it",
    ),
    (
        "certificate_verify_failed",
        "its certificate cannot be verified; set SSL_CERT_FILE to a file with the certificate of "
        "the authority that has signed it",
    ),
    (
        "wrong_version_number|record_layer_failure|packet_length_too_long",
        "there is no TLS on that port; give the address with http:// in place of https://",
    ),
    (
        "name or service not known|nodename nor servname|name resolution|no address associated"
        "|getaddrinfo failed",
        "there is no machine of that name; is the name right, and is there a network?",
    ),
)


def explained(cause: Exception) -> str:
    """Why a service was not reached, and what helps against it, as far as the cause is known."""
    text = str(cause) or type(cause).__name__
    for pattern, meaning in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return f"{meaning} ({text})"
    if "refused" in text:
        text += "; is the service started there, with `molboxd up`?"
    return text


def is_certificate(cause: Exception) -> bool:
    """Whether a connection failed by a certificate, which is the same a second later."""
    return "CERTIFICATE_VERIFY_FAILED" in str(cause)


def unreadable_authorities(error: OSError) -> MolboxError | OSError:
    """The error where the certificates cannot be read that the environment names.

    That of the library names neither the variable nor the file.
    """
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if path := os.environ.get(name):
            return InvalidRequest(
                f"{name}: no certificates can be read from {path!r}: {error}; name a file in PEM"
                " format, or unset it"
            )
    return error


def refusal(response: httpx.Response, body: bytes) -> Refused:
    """The error of an answer, whatever its body is."""
    return refused(
        response.status_code,
        _violations(response, body),
        response.headers.get("x-request-id"),
        retry_after(response.headers),
    )


def _violations(response: httpx.Response, body: bytes) -> list[dict[str, Any]]:
    text = body.decode("utf-8", "replace")
    message = _of_page(text) or text[:500] or response.reason_phrase
    try:
        answer = httpx.Response(200, content=body).json()
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        detail = answer.get("detail")
        if isinstance(detail, list) and detail and all(isinstance(one, dict) for one in detail):
            return detail
        # What others answer.
        texts = [answer.get(key) for key in ("detail", "message", "error")]
        message = next((text for text in texts if isinstance(text, str)), message)
    return [{"loc": [], "msg": message or "no explanation", "type": "unexpected_body"}]


def _of_page(text: str) -> str | None:
    """What to say of a web page, which a proxy on the way answers with, or another server."""
    if not re.match(r"\s*<(!doctype html|html)", text, re.IGNORECASE):
        return None
    title = re.search(r"<title>([^<]*)<", text, re.IGNORECASE)
    words = " ".join(title[1].split())[:100] if title else ""
    named = f', "{words}"' if words else ""
    return f"the answer is a web page{named}, of a proxy on the way or of another server"


def is_at_home(url: httpx.URL, other: httpx.URL) -> bool:
    """Whether two addresses have one origin, so that the key may travel to both."""
    return (url.scheme, url.host, url.port) == (other.scheme, other.host, other.port)

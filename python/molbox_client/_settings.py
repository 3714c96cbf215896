"""Where the service is, and the key for it."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ._errors import InvalidRequest

DEFAULT_URL = "http://127.0.0.1:8080/local"
DEFAULT_MARGIN_URL = "http://127.0.0.1:8081"


@dataclass(frozen=True)
class Settings:
    """Addresses without a slash at their end, and the keys for them, which no `repr` shows."""

    base_url: str
    margin_url: str
    api_key: str = field(repr=False)
    #: None where the margin address is not of the profile that the key is from.
    margin_key: str | None = field(repr=False)
    profile: str | None
    #: Whether the profile was asked for by an argument, and so before the environment.
    is_named: bool
    #: Of a key that was an argument, by which it is known again; None of one that was looked up.
    given_digest: str | None = field(repr=False, default=None)


def profile_path() -> Path:
    """The file of the command line, so that `molbox login` serves both."""
    if path := os.environ.get("MOLBOX_CONFIG"):
        return Path(path).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/molbox/config.toml"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", Path.home())) / "molbox/config/config.toml"
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "molbox/config.toml"


def cache_path() -> Path:
    """Where results are kept that have been downloaded to be read."""
    if path := os.environ.get("MOLBOX_CACHE"):
        return Path(path).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/molbox"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "molbox/cache"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "molbox"


def _profiles() -> dict[str, Any]:
    path = profile_path()
    if not path.exists():
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path}: {error}") from error
    profiles = read.get("profile", {})
    is_good = isinstance(read.get("default", ""), str) and isinstance(profiles, dict)
    if not is_good or not all(isinstance(one, dict) for one in profiles.values()):
        raise InvalidRequest(
            f"{path}: is no file of profiles: they are tables as [profile.lab], and default the "
            "name of one; mend it, or remove it and run `molbox login`"
        )
    return read


def _address(name: str, value: str) -> str:
    # Of one that was copied from a browser the part before the portal is the service's.
    if not isinstance(value, str):
        raise InvalidRequest(f"{name}: must be a text, got {value!r}")
    value = value.strip().split("/portal")[0]
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or "?" in value or "#" in value:
        raise InvalidRequest(f"{name}: must be http(s)://host/path, got {value!r}")
    return value.rstrip("/")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def margin_url_of(base_url: str) -> str:
    """Where the margins of a service are asked for when nobody says, as the command line does it.

    There too, but for a service of this machine, whose margins have an address of their own.
    """
    return DEFAULT_MARGIN_URL if base_url == DEFAULT_URL else base_url


def no_key(url: str) -> InvalidRequest:
    """The error where there is no key for an address."""
    return InvalidRequest(
        f"api_key: none was given for {url}; set MOLBOX_API_KEY, or log in with `molbox login`, "
        "which `pip install molbox-cli` brings"
    )


def resolve(
    base_url: str | None, api_key: str | None, margin_url: str | None, profile: str | None
) -> Settings:
    """Arguments come before the environment, and that before the profile."""
    file = _profiles()
    name = profile or os.environ.get("MOLBOX_PROFILE") or file.get("default")
    profiles = file.get("profile", {})
    if name and name not in profiles:
        known = f"there are {', '.join(profiles)}" if profiles else "run `molbox login`"
        raise InvalidRequest(f"profile: no {name!r} in {profile_path()}; {known}")
    section = profiles.get(name, {})
    # A profile that is asked for here and now is meant as a whole.
    environment: Any = {} if profile else os.environ
    url = base_url or environment.get("MOLBOX_BASE_URL") or section.get("base_url")
    url = _address("base_url", url or DEFAULT_URL)
    # The key of a profile is for the service of that profile, and for no other; so is its address
    # of margins.
    home = _address("base_url", section.get("base_url") or DEFAULT_URL)
    its_margin = _address("margin_url", section.get("margin_url") or margin_url_of(home))
    is_its = _origin(url) == _origin(home)
    margin = margin_url or environment.get("MOLBOX_MARGIN_URL")
    margin = margin or (section.get("margin_url") if is_its else None) or margin_url_of(url)
    margin = _address("margin_url", margin)
    is_margin_its = _origin(margin) in (_origin(home), _origin(its_margin))
    given, own = api_key or environment.get("MOLBOX_API_KEY"), section.get("api_key")
    key = _key(given or (own if is_its else None))
    if key is None:
        raise no_key(url)
    margin_key = _key(given or (own if is_margin_its else None))
    digest = _digest(key) if api_key else None
    return Settings(url, margin, key, margin_key, name, bool(profile), digest)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def require_same_key(settings: Settings, digest: str | None) -> None:
    """Refuse a key that was looked up in the place of another one, which was an argument.

    The environment has the key that is meant for this process.
    """
    is_another = digest is not None and digest != _digest(settings.api_key)
    if is_another and not os.environ.get("MOLBOX_API_KEY"):
        raise InvalidRequest(
            "api_key: the client was made with another key than the one of the profile here, "
            "which would be another account's; set MOLBOX_API_KEY"
        )


def without_password(url: str) -> str:
    """An address without the name and the password that it may have."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _key(text: str | None) -> str | None:
    if not isinstance(text, (str, type(None))):
        raise InvalidRequest(f"api_key: must be a text, got one of {type(text).__name__}")
    key = (text or "").strip()
    if not key.isascii() or not key.isprintable():
        raise InvalidRequest("api_key: has characters that no key has")
    return key or None

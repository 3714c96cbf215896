"""Where the service is, and the key for it."""

from __future__ import annotations

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
    """Addresses without a slash at their end, and the key, which no `repr` shows."""

    base_url: str
    margin_url: str
    api_key: str = field(repr=False)
    profile: str | None = None


def profile_path() -> Path:
    """The file of the command line, so that `molbox login` serves both."""
    if path := os.environ.get("MOLBOX_CONFIG"):
        return Path(path)
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/molbox/config.toml"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", Path.home())) / "molbox/config/config.toml"
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "molbox/config.toml"


def cache_path() -> Path:
    """Where results are kept that have been downloaded to be read."""
    if path := os.environ.get("MOLBOX_CACHE"):
        return Path(path)
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
        return read
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path}: {error}") from error


def _address(name: str, value: str) -> str:
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
    margin = margin_url or environment.get("MOLBOX_MARGIN_URL") or section.get("margin_url")
    url = _address("base_url", url or DEFAULT_URL)
    # The key of a profile is for the service of that profile, and for no other.
    is_its = _origin(section.get("base_url") or url) == _origin(url)
    own = section.get("api_key") if is_its else None
    key = (api_key or environment.get("MOLBOX_API_KEY") or own or "").strip()
    if not key:
        raise InvalidRequest(
            f"api_key: none was given for {url}; set MOLBOX_API_KEY, or log in with `molbox login`"
        )
    if not key.isascii() or not key.isprintable():
        raise InvalidRequest("api_key: has characters that no key has")
    return Settings(
        url,
        _address("margin_url", margin or DEFAULT_MARGIN_URL),
        key,
        name,
    )

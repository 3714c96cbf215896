"""The asynchronous client; `_sync.py` is made of this file, without `async` and `await`."""

from __future__ import annotations

import json as _json
import sys
import time as _time
import uuid
import warnings as _warnings
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import date as Date
from datetime import datetime as Datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import httpx

from . import _bundle, _results
from ._errors import (
    ConnectionFailed,
    Damaged,
    InvalidRequest,
    MolboxError,
    MolboxWarning,
    Refused,
    TaskFailed,
    UnexpectedAnswer,
    WaitTimeout,
    is_name_taken,
    unwanted,
    with_remedy,
)
from ._http import (
    CHUNK_BYTES,
    MAX_ERROR_BYTES,
    MAX_REDIRECTS,
    USER_AGENT,
    backoff,
    checked_key,
    checked_number,
    explained,
    is_at_home,
    is_certificate,
    is_transient,
    member,
    moment,
    read,
    refusal,
    required_moment,
    retry_delay,
    unreadable_authorities,
)
from ._margin import Margin
from ._margin import request as margin_request
from ._part import Part, content_range
from ._plan import job_of, name_of, plan
from ._progress import Progress, shown, shown_task
from ._request import body, identified, is_handle
from ._settings import (
    Settings,
    cache_path,
    no_key,
    require_same_key,
    resolve,
    without_password,
)
from ._source import Content, content, is_file
from ._waiting_async import here, in_thread, interruptions, sleep

if TYPE_CHECKING:
    import MDAnalysis
    import pandas

    # Of the checkers of types alone, which bring it.
    from typing_extensions import Unpack

    from . import _arguments as arguments
    from . import _records as records

Preset = Literal["quick", "standard", "membrane"]

FIRST_POLL = 0.2
LAST_POLL = 5.0
# A service that restarts is waited for this long.
LONGEST_SILENCE = 300.0
# The service sends something every 15 s; a proxy that holds events back does not.
QUIET = 40.0
# A margin may wait a minute for its turn and be calculated for five, in which nothing is sent.
LONGEST_MARGIN = 420.0
# Of a file's own name, in the one that it has for an estimate.
LONGEST_STEM = 100
ZIP = "application/zip, application/octet-stream, */*"
# Streams of events that are open together. Each takes a connection; what waits besides asks.
MOST_STREAMS = 8


class AsyncClient:
    """A connection to a molbox service.

    Address and key come from the arguments, else from `MOLBOX_BASE_URL` and `MOLBOX_API_KEY`, else
    from the profile that `molbox login` or `molboxd up` has written.

    Parameters
    ----------
    base_url : str, optional
        Address of the simulation workflow, with the deployment stage:
        `http://127.0.0.1:8080/local`.
    api_key : str, optional
        Better in the environment or a profile than in a notebook.
    margin_url : str, optional
        Address of the margin endpoint, else from `MOLBOX_MARGIN_URL`, or from the profile when it
        has the base address, too. Default: as the base address.
    profile : str, optional
        Section of the profile file; the environment is not asked then.
    retries : int
        How often a request is repeated after an error that passes, when it is safe to.
    timeout : float
        Seconds to wait for the next byte, but for a margin at least 420; there is no limit to a
        whole transfer.
    http : httpx.AsyncClient, optional
        An own one, for proxies, certificates, or tests. It is not closed with this.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        margin_url: str | None = None,
        profile: str | None = None,
        retries: int = 4,
        timeout: float = 60,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._begin(resolve(base_url, api_key, margin_url, profile), retries, timeout, http)

    def _begin(
        self, settings: Settings, retries: int, timeout: float, http: httpx.AsyncClient | None
    ) -> None:
        if not isinstance(http, (httpx.AsyncClient, type(None))):
            kind = type(http).__name__
            raise InvalidRequest(f"http: must be an httpx.AsyncClient, got {kind}")
        self._settings = settings
        self._retries = checked_number("retries", retries, int, least=0)
        self._timeout = checked_number("timeout", timeout, float, least=0.001)
        self._owns_http = http is None
        self._place: object = None
        self._http = http or self._connections()
        self._streams = 0

    def _connections(self) -> httpx.AsyncClient:
        try:
            return httpx.AsyncClient(timeout=httpx.Timeout(self._timeout, connect=10))
        except OSError as error:
            # What is not found is the file of the authorities, and the error does not name it.
            raise unreadable_authorities(error) from error

    def _connected(self) -> httpx.AsyncClient:
        """The connections of this place.

        After a fork two processes would read each other's answers, and another event loop cannot
        use those of the first.
        """
        if self._http.is_closed:
            raise InvalidRequest("client: is closed; make another one")
        if self._owns_http and self._place != (now := here()):
            self._http = self._http if self._place is None else self._connections()
            self._place = now
        return self._http

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owns_http and not self._http.is_closed:
            await self._connected().aclose()

    def __repr__(self) -> str:
        return f"<molbox {without_password(self.base_url)}>"

    def __copy__(self) -> AsyncClient:
        # In the same process the key stays, too.
        copied = type(self).__new__(type(self))
        http = None if self._owns_http else self._http
        copied._begin(self._settings, self._retries, self._timeout, http)
        return copied

    def __deepcopy__(self, _: dict[int, Any]) -> AsyncClient:
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        # The key does not travel in a pickle; where it is unpickled it is looked up again.
        settings = self._settings
        return {
            "urls": (settings.base_url, settings.margin_url),
            "profile": settings.profile,
            "is_named": settings.is_named,
            "patience": (self._retries, self._timeout),
            "key": settings.given_digest,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        (base_url, margin_url), (retries, timeout) = state["urls"], state["patience"]
        # Workers of a cluster have a key in their environment, other processes the profile. One
        # that was named goes before the environment, as when the client was made.
        first, then = (state["profile"], None) if state["is_named"] else (None, state["profile"])
        try:
            settings = resolve(base_url, None, margin_url, first)
        except InvalidRequest as error:
            try:
                settings = resolve(base_url, None, margin_url, then)
            except InvalidRequest:
                # The first says what is missing here.
                raise error from None
        require_same_key(settings, state.get("key"))
        self._begin(settings, retries, timeout, None)

    @property
    def base_url(self) -> str:
        """Address of the simulation workflow."""
        return self._settings.base_url

    @property
    def margin_url(self) -> str:
        """Address of the margin endpoint."""
        return self._settings.margin_url

    # Requests.

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Any operation of the document: `request("GET", "/info/usage")`.

        Returns
        -------
        object
            The decoded answer; None for an empty one, bytes for one that is not JSON.
        """
        url = self._url(path)
        answer = await self._send(method, url, json=json, params=params, headers=headers)
        if not answer.content:
            return None
        kind = answer.headers.get("content-type", "")
        return _decoded(answer) if "json" in kind else answer.content

    def _url(self, path: str) -> str:
        """An address of the service; with `@host` in the place of a path it would be another's."""
        if not isinstance(path, str) or not path.startswith("/"):
            raise InvalidRequest(f"path: must begin with a slash, got {path!r}")
        return self.base_url + path

    async def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The object that an operation answers."""
        answer = _decoded(await self._send(method, self.base_url + path, **options))
        if not isinstance(answer, dict):
            raise UnexpectedAnswer(f"{method} {path}: is no object: {str(answer)[:200]}")
        return answer

    async def _send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        retries: int | None = None,
        idempotency_key: str | None = None,
        **what: Any,
    ) -> httpx.Response:
        """Send a request, again after what passes; a success, which is read unless streamed."""
        sent = {"user-agent": USER_AGENT, "x-api-key": self._settings.api_key, **(headers or {})}
        if method == "POST":
            # With a key of its own a POST can be repeated, too: the service does it once.
            own = uuid.uuid4().hex if idempotency_key is None else checked_key(idempotency_key)
            sent.setdefault("idempotency-key", own)
        is_repeatable = method in ("GET", "HEAD", "POST")
        attempt = 0
        while True:
            delay: float | None
            error: MolboxError
            try:
                response = await self._followed(method, url, sent, what)
                if response.is_success:
                    if not stream:
                        await response.aread()
                    return response
                error = await _refused(response)
                delay = retry_delay(error, attempt, is_repeatable=is_repeatable)
            except (httpx.InvalidURL, httpx.LocalProtocolError) as cause:
                raise InvalidRequest(f"{url}: {cause}") from cause
            except (httpx.TransportError, httpx.DecodingError) as cause:
                error = _unreached(url, cause)
                is_untouched = isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout))
                is_repeated = (is_repeatable or is_untouched) and not is_certificate(cause)
                delay = backoff(attempt) if is_repeated else None
            if delay is None or attempt >= (self._retries if retries is None else retries):
                raise error
            await sleep(delay)
            attempt += 1

    async def _followed(
        self, method: str, url: str, headers: dict[str, str], what: dict[str, Any]
    ) -> httpx.Response:
        """Follow redirects of a GET, without the key once the origin is another."""
        headers, next_url = dict(headers), httpx.URL(url)
        left = MAX_REDIRECTS if method == "GET" else 0
        while True:
            http = self._connected()
            request = http.build_request(method, next_url, headers=headers, **what)
            response = await http.send(request, stream=True, follow_redirects=False)
            if not left or not response.has_redirect_location:
                return response
            target = next_url.join(response.headers["location"])
            if target.scheme not in ("http", "https"):
                return response
            await response.aclose()
            left -= 1
            if not is_at_home(target, next_url):
                headers.pop("x-api-key", None)
            # The new address has its own query.
            next_url = target
            what = {name: value for name, value in what.items() if name != "params"}

    async def _pages(self, path: str, filters: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Every record of a listing; pages are asked for as they are needed."""
        params = {name: value for name, value in filters.items() if value is not None}
        while True:
            page = await self._json("GET", path, params=params)
            for item in member(page, "items", list):
                yield item
            token = page.get("next_page")
            if not token:
                return
            if token == params.get("page_token"):
                raise UnexpectedAnswer(f"GET {path}: the page after {token} is the same one")
            # It carries the filters.
            params = {"page_token": token}

    # The service.

    async def whoami(self) -> records.Account:
        """The account and the key that requests are made with."""
        from . import _records as records

        return read(records.Account, await self._json("GET", "/info/account"))

    # Files.

    async def upload(
        self,
        source: Any,
        *,
        name: str | None = None,
        format: str | None = None,
        progress: bool | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncFile:
        """Upload a file and register it.

        A name is that of one file. Of a file whose name is not given, and whose content the account
        has under its name already, the record is returned.

        Parameters
        ----------
        source : str, Path, bytes, MDAnalysis.AtomGroup, rdkit.Chem.Mol or (Topology, positions)
            A file of this machine, its bytes, or what another library has in memory.
        name : str, optional
            Name to register it under. Default: that of the file, without its extension but for
            formats of built systems, which are many files of one name.
        format : str, optional
            `pdb`, `sdf` and so on. Default: the extension of the file.

        Raises
        ------
        Conflict
            When another file has the name.
        """
        what = await in_thread(partial(content, source, format))
        try:
            return await self._upload(what, name, progress, idempotency_key)
        except Refused as error:
            if not is_name_taken(error):
                raise
            own = what.name if name is None else name
            found = None if own is None or name is not None else await self._ready(own)
            if found is not None and found.get("sha256") == await in_thread(what.sha256):
                return AsyncFile(self, found)
            # The traceback of the first would repeat it.
            remedy = f"client.files(name={own!r}) has that one, to be used or deleted"
            raise with_remedy(error, remedy) from None

    async def _upload(
        self,
        what: Content,
        name: str | None,
        progress: bool | None,
        idempotency_key: str | None = None,
    ) -> AsyncFile:
        registration = _registration(what, name)
        if idempotency_key is not None:
            checked_key(idempotency_key)
        link = await self._json("GET", "/submit/upload-url", params={"filetype": what.format})
        most, size = link.get("max_bytes"), what.size
        if most is not None and size > most:
            raise InvalidRequest(f"source: has {size} bytes, the service takes {most}")
        registration["file_id"] = member(link, "file_id", str)
        await self._put(link, what, size, progress)
        try:
            record = await self._json(
                "POST", "/submit/file/", json=registration, idempotency_key=idempotency_key
            )
        except Refused as error:
            if unwanted(error):
                await self._forget(registration["file_id"])
            raise
        return AsyncFile(self, record)

    async def _forget(self, file_id: str) -> None:
        """Delete a file that nobody will use: one that was refused, or of an estimate."""
        try:
            await self._send("DELETE", f"{self.base_url}/info/file/{file_id}")
        except MolboxError:
            # What is raised is why the file was refused, also when it cannot be deleted.
            return

    async def _put(
        self, link: Mapping[str, Any], what: Content, size: int, progress: bool | None
    ) -> None:
        """Send a content to its link: no key, no redirect, and a length instead of chunks."""
        url = member(link, "upload_url", str)
        headers = {"user-agent": USER_AGENT, "content-length": str(size)}
        if link.get("content_type"):
            headers["content-type"] = link["content_type"]

        async def chunks(bar: Progress) -> AsyncIterator[bytes]:
            left = size
            with what.open() as file:
                while left:
                    chunk = file.read(min(left, CHUNK_BYTES))
                    if not chunk:
                        raise InvalidRequest("source: is shorter than it was")
                    yield chunk
                    left -= len(chunk)
                    bar.update(len(chunk))

        attempt = 0
        while True:
            error: MolboxError
            try:
                with shown(progress, f"upload {what.name or what.format}", size) as bar:
                    http = self._connected()
                    request = http.build_request("PUT", url, headers=headers, content=chunks(bar))
                    response = await http.send(request, stream=True, follow_redirects=False)
                    if response.is_success:
                        await response.aclose()
                        return
                error = await _refused(response)
            except httpx.TransportError as cause:
                error = _unreached(url, cause)
            delay: float | None = backoff(attempt)
            if isinstance(error, Refused):
                delay = retry_delay(error, attempt, is_repeatable=True)
            if delay is None or not is_transient(error) or attempt >= self._retries:
                raise error
            await sleep(delay)
            attempt += 1

    async def _registered(
        self, what: Content, progress: bool | None, passing: list[str] | None = None
    ) -> AsyncFile:
        """A file under its own name, uploaded unless the account has it already.

        With a list, it is for the moment: under a name by which no run finds it, and in that list.
        """
        own = what.name or "structure"
        digest = await in_thread(what.sha256)
        nth = 1
        while True:
            # Names are unique in an account: another content of the same name gets a number.
            name = own if nth == 1 else f"{own}-{nth}"
            found = await self._ready(name)
            if found is None:
                if passing is not None:
                    name = f"{own[:LONGEST_STEM]}-estimate-{uuid.uuid4().hex[:12]}"
                    sent = await self._upload(what, name, progress)
                    passing.append(sent.id)
                    return sent
                try:
                    return await self._upload(what, name, progress)
                except Refused as error:
                    # Another run was first, perhaps with the same content.
                    if error.status != httpx.codes.CONFLICT:
                        raise
                    found = await self._ready(name)
            if found is not None and found.get("sha256") == digest:
                return AsyncFile(self, found)
            nth += 1

    async def _ready(self, name: str) -> dict[str, Any] | None:
        """The registered file of a name."""
        async for item in self._pages("/info/files", {"name": name, "status": "ready"}):
            if item.get("name") == name:
                return item
        return None

    async def file(self, id: str | AsyncFile) -> AsyncFile:
        """A file by its identifier."""
        path = f"/info/file/{_checked(id, 'file', 'file_')}"
        return AsyncFile(self, await self._json("GET", path))

    async def files(
        self, *, status: str | None = None, name: str | None = None
    ) -> AsyncIterator[AsyncFile]:
        """Every file of the account, the newest first."""
        async for item in self._pages("/info/files", {"status": status, "name": name}):
            yield AsyncFile(self, item)

    # Systems and jobs.

    async def build(
        self,
        *,
        wait: bool = True,
        progress: bool | None = None,
        idempotency_key: str | None = None,
        **system: Unpack[arguments.SystemBuildRequest],
    ) -> AsyncSystem:
        """Build a system.

        Parameters
        ----------
        wait : bool
            Whether to wait until it is built.
        **system
            Fields of `SystemBuildRequest`; numbers may have units, and a `File` stands for its
            identifier.
        """
        record = await self._json(
            "POST",
            "/submit/system",
            json=body("SystemBuildRequest", system),
            idempotency_key=idempotency_key,
        )
        made = AsyncSystem(self, record)
        return await made.wait(progress=progress) if wait else made

    async def submit(
        self, *, idempotency_key: str | None = None, **job: Unpack[arguments.JobCreateParams]
    ) -> AsyncJob:
        """Submit a job.

        Parameters
        ----------
        **job
            Fields of `JobCreateParams`; numbers may have units, and `box_id` may be a `System`.
            Without it the service takes the newest of the account, which is a `MolboxWarning` with
            its name.
        """
        asked = _of_job(job)
        record = await self._json(
            "POST", "/submit/job", json=asked, idempotency_key=idempotency_key
        )
        made = AsyncJob(self, record)
        if "box_id" not in asked:
            await self._warn_of_newest(made.id, record.get("box_id"))
        return made

    async def _warn_of_newest(self, what: str, box_id: object) -> None:
        """Name the system that the service has taken, which need not be the one that was meant."""
        name = None
        if _is_identifier(box_id):
            try:
                name = (await self._json("GET", f"/info/system/{box_id}", retries=0)).get(
                    "box_name"
                )
            except MolboxError:
                # The job is submitted, and its identifier is what matters.
                name = None
        named = f"{box_id}, {name!r}" if name else box_id
        text = f"{what} is of the newest system of the account, {named}; give box_id to choose one"
        _warnings.warn(text, MolboxWarning, stacklevel=3)

    async def estimate(
        self,
        structure: Any = None,
        *,
        atoms: int | None = None,
        time: Any = None,
        temperature: Any = None,
        ligands: Sequence[Any] = (),
        preset: Preset | None = None,
        system: Mapping[str, Any] | None = None,
        wait: bool = True,
        progress: bool | None = None,
        idempotency_key: str | None = None,
        **job: Unpack[arguments.JobCreateParamsRest],
    ) -> records.Estimate:
        """What a job would take: steps, frames, bytes, hours. Nothing is submitted.

        Takes what `run` takes; files that the account does not have yet are uploaded for it, and
        deleted again. Without a structure it is of a system that is built, `box_id`, and a preset
        is used when it is given.

        Parameters
        ----------
        structure, time, temperature, ligands, preset, system, progress
            As of `run`; its `wait` and `idempotency_key` mean nothing here.
        atoms : int, optional
            Instead of a structure or a system that is built: one of so many atoms.
        **job
            Fields of `JobCreateParams`, as for `run` and `submit`.
        """
        from . import _records as records

        if structure is not None:
            if atoms is not None:
                raise InvalidRequest("atoms: give them or a structure, not both")
            passing: list[str] = []
            try:
                build, asked = await self._planned(
                    structure, time, temperature, ligands, preset, system, progress, job, passing
                )
                atoms = await self._atoms_of(build)
            finally:
                for file_id in passing:
                    await self._forget(file_id)
        elif system is not None or ligands:
            raise InvalidRequest("structure: is missing, of which the system would be built")
        else:
            asked = _of_job(job)
            asked = job_of(preset, asked, time=time, temperature=temperature)
        of = {} if atoms is None else {"atoms": atoms}
        preview = await self._json("POST", "/check/job", params=of, json=asked)
        if atoms is None and "box_id" not in asked:
            taken = member(preview, "parameters", dict).get("box_id")
            await self._warn_of_newest("the estimate", taken)
        return read(records.JobPreview, preview).estimate

    async def _atoms_of(self, build: Mapping[str, Any]) -> int:
        """About how many atoms a system would have."""
        asked = body("SystemBuildRequest", build)
        preview = await self._json("POST", "/check/system", json=asked)
        atoms = member(preview, "estimate", dict).get("atoms")
        if not isinstance(atoms, int):
            notices = [str(one.get("message")) for one in preview.get("warnings") or []]
            why = "; ".join(notices) or "the service cannot tell its atoms"
            raise _results.NoResult(f"there is no estimate of the system: {why}")
        return atoms

    async def run(
        self,
        structure: Any,
        *,
        time: Any = None,
        temperature: Any = None,
        ligands: Sequence[Any] = (),
        preset: Preset | None = None,
        system: Mapping[str, Any] | None = None,
        wait: bool = True,
        progress: bool | None = None,
        idempotency_key: str | None = None,
        **job: Unpack[arguments.JobCreateParamsRest],
    ) -> AsyncJob:
        """From a structure to a finished job: upload, build, simulate.

        Parameters
        ----------
        structure : str, Path, bytes, File, MDAnalysis.AtomGroup, or (Topology, positions)
            A file of this machine, the bytes of a PDB file, what another library has in memory, or
            what the service knows: a registered file or its name, or that of a public structure
            entry such as `"1VII"`.
        time, temperature : float, str or quantity
            Of the production: in ns, or `"10 ns"`; in K, or `"37 C"`.
        ligands : sequence of str, Path, bytes, File or rdkit.Chem.Mol
            Files, the bytes of SDF files, or molecules with coordinates.
        preset : {"quick", "standard", "membrane"}, optional
            What to begin with, as `molbox run --preset`. Default: `membrane` when `system` has a
            membrane, else `standard`.
        system : mapping, optional
            Fields of `SystemBuildRequest` in the place of the preset's.
        wait : bool
            Whether to wait until the job has ended; for the system it is waited in any case.
        progress : bool, optional
            Whether to show progress. Default: where somebody watches.
        idempotency_key : str, optional
            Names this run: repeated with the same name, it submits nothing twice.
        **job
            Fields of `JobCreateParams` in the place of the preset's.
        """
        built, simulate = await self._prepared(
            structure, time, temperature, ligands, preset, system, progress, idempotency_key, job
        )
        key = idempotency_key and f"{idempotency_key}-job"
        made = await self.submit(idempotency_key=key, **{**simulate, "box_id": built.id})
        return await made.wait(progress=progress) if wait else made

    async def run_replicas(
        self,
        structure: Any,
        n: int,
        *,
        time: Any = None,
        temperature: Any = None,
        ligands: Sequence[Any] = (),
        preset: Preset | None = None,
        system: Mapping[str, Any] | None = None,
        wait: bool = True,
        progress: bool | None = None,
        idempotency_key: str | None = None,
        **job: Unpack[arguments.JobCreateParamsRest],
    ) -> list[AsyncJob]:
        """The same simulation `n` times, of one system, with other velocities.

        A `seed` is counted up from one to the next. Arguments are those of `run`.

        Raises
        ------
        TaskFailed
            When some have failed, after all have ended; all of them are its `jobs`.
        """
        n = checked_number("n", n, int, least=1)
        seed = job.get("seed")
        if isinstance(seed, int) and seed + n > 1 << 31:
            raise InvalidRequest(f"seed: must leave room for {n} replicas, got {seed}")
        built, simulate = await self._prepared(
            structure, time, temperature, ligands, preset, system, progress, idempotency_key, job
        )
        jobs = []
        for index in range(n):
            own = {**simulate, "box_id": built.id, "batch_index": index}
            if "seed" in own:
                own["seed"] += index
            key = idempotency_key and f"{idempotency_key}-{index}"
            jobs.append(await self.submit(idempotency_key=key, **own))
        failures: list[TaskFailed] = []
        for one in jobs if wait else ():
            try:
                await one.wait(progress=progress)
            except TaskFailed as error:
                # The others are worth waiting for.
                failures.append(error)
            except interruptions():
                others = [job.id for job in jobs if job is not one and not job.is_over]
                if others:
                    print(f"molbox: so do {', '.join(others)}", file=sys.stderr)
                raise
        if failures:
            failures[0].jobs = jobs
            raise failures[0]
        return jobs

    async def _prepared(
        self,
        structure: Any,
        time: Any,
        temperature: Any,
        ligands: Sequence[Any],
        preset: str | None,
        system: Mapping[str, Any] | None,
        progress: bool | None,
        idempotency_key: str | None,
        job: Mapping[str, Any],
    ) -> tuple[AsyncSystem, dict[str, Any]]:
        """A built system, and the fields of a job for it."""
        key = None
        if idempotency_key is not None:
            key = checked_key(f"{checked_key(idempotency_key)}-system")
        build, simulate = await self._planned(
            structure, time, temperature, ligands, preset, system, progress, job
        )
        try:
            return await self.build(progress=progress, idempotency_key=key, **build), simulate
        except interruptions():
            # What goes on is the system.
            print("molbox: no job has been submitted yet", file=sys.stderr)
            raise

    async def _planned(
        self,
        structure: Any,
        time: Any,
        temperature: Any,
        ligands: Sequence[Any],
        preset: str | None,
        system: Mapping[str, Any] | None,
        progress: bool | None,
        job: Mapping[str, Any],
        passing: list[str] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Fields of a system, whose files are registered, and of a job for it."""
        known = identified("file", structure, "structure")
        is_own = is_file(known)
        build, simulate = plan(
            preset,
            {} if system is None else system,
            job,
            time=time,
            temperature=temperature,
            name=name_of(structure),
        )
        # What cannot be read is refused before anything is sent.
        own = None
        if is_own:
            own = await in_thread(partial(content, known, _format(known, "pdb"), "structure"))
        if ligands is not None and not isinstance(ligands, (list, tuple)):
            raise InvalidRequest(f"ligands: must be a list, as [{ligands!r}], got {ligands!r}")
        molecules: list[Any] = []
        for index, ligand in enumerate(ligands or ()):
            at = f"ligands[{index}]"
            if is_handle(ligand):
                molecules.append(identified("file", ligand, at))
                continue
            read_in = partial(content, ligand, _format(ligand, "sdf"), at)
            molecules.append(await in_thread(read_in))
        for one in (own, *molecules):
            if isinstance(one, Content):
                _registration(one)
        if own:
            build["protein"] = (await self._registered(own, progress, passing)).id
        else:
            build["protein"] = known
        if molecules:
            build["ligands"] = [
                (await self._registered(one, progress, passing)).id
                if isinstance(one, Content)
                else one
                for one in molecules
            ]
        return build, simulate

    async def system(self, id: str | AsyncSystem) -> AsyncSystem:
        """A system by its identifier."""
        path = f"/info/system/{_checked(id, 'system', 'box_')}"
        return AsyncSystem(self, await self._json("GET", path))

    async def systems(
        self, *, status: str | None = None, name: str | None = None
    ) -> AsyncIterator[AsyncSystem]:
        """Every system of the account, the newest first."""
        async for item in self._pages("/info/systems", {"status": status, "name": name}):
            yield AsyncSystem(self, item)

    async def job(self, id: str | AsyncJob) -> AsyncJob:
        """A job by its identifier."""
        return AsyncJob(self, await self._json("GET", f"/info/job/{_checked(id, 'job', 'job_')}"))

    async def jobs(
        self, *, status: str | None = None, name: str | None = None
    ) -> AsyncIterator[AsyncJob]:
        """Every job of the account, the newest first; `name` is that of its batch."""
        async for item in self._pages("/info/jobs", {"status": status, "name": name}):
            yield AsyncJob(self, item)

    # Analyses.

    async def analyze(
        self,
        *,
        wait: bool = True,
        progress: bool | None = None,
        idempotency_key: str | None = None,
        **analysis: Unpack[arguments.AnalysisRequest],
    ) -> AsyncAnalysis:
        """Analyse the trajectory of a job, or one that was uploaded.

        Parameters
        ----------
        **analysis
            Fields of `AnalysisRequest`: `job_id`, or `topology` and `trajectory`; `rmsd_masks` and
            so on. A `Job`, a `System` or a `File` stands for its identifier.
        """
        asked = body("AnalysisRequest", analysis)
        record = await self._json(
            "POST", "/submit/analysis", json=asked, idempotency_key=idempotency_key
        )
        made = AsyncAnalysis(self, record)
        return await made.wait(progress=progress) if wait else made

    async def analysis(self, id: str | AsyncAnalysis) -> AsyncAnalysis:
        """An analysis by its identifier."""
        path = f"/info/analysis/{_checked(id, 'analysis', 'ana_')}"
        return AsyncAnalysis(self, await self._json("GET", path))

    # Margins.

    async def margin(
        self,
        portfolio: Any,
        *,
        date: Date | str | None = None,
        **settings: Unpack[arguments.MarginJobRequestRest],
    ) -> Margin:
        """Calculate the margin of a portfolio of futures.

        Parameters
        ----------
        portfolio : list of mappings, mapping, pandas.DataFrame, str or Path
            Positions with `ticker`, `type` and `quantity`, or a file: CSV, JSON, XML, FpML, YAML.
        date : datetime.date or str, optional
            Date of the margin, `marginDate`. Default: the latest of the market data.
        **settings
            Fields of `MarginJobRequest`, such as `numScenarios`.
        """
        data_format, job = margin_request(portfolio, date, settings)
        url = f"{self.margin_url}/margin/submit_job/historical/{data_format}"
        key = self._settings.margin_key
        if key is None:
            raise no_key(self.margin_url)
        patience = httpx.Timeout(max(self._timeout, LONGEST_MARGIN), connect=10)
        answer = _decoded(
            await self._send(
                "POST",
                url,
                json=job,
                headers={"x-api-key": key},
                params={"shape": "report"},
                timeout=patience,
            )
        )
        if not isinstance(answer, dict):
            raise UnexpectedAnswer(f"POST {url}: is no margin: {str(answer)[:200]}")
        return Margin(answer)

    # Downloads.

    async def download(
        self,
        path: str,
        to: str | Path,
        *,
        progress: bool | None = None,
        accept: str = ZIP,
    ) -> Path:
        """Download a content of the service to a file of this machine.

        Bytes go to `<name>.<digest>.part` beside the target, which is renamed when its size and
        SHA-256 are as the service says: the target is whole or not there. What broke, in this
        process or an earlier one, is resumed where it stopped.

        Parameters
        ----------
        path : str
            Of the operation: `/retrieve/job/job_…`. The objects' own `download` know theirs.
        to : str or Path
            The file, or a folder that is there, in which it gets the name of the content.
        """
        self._url(path)
        if not isinstance(to, (str, Path)):
            raise InvalidRequest(f"to: must be a path, got {to!r}")
        target = Path(to).expanduser()
        if target.is_dir():
            target /= path.rsplit("/", 1)[1]
        if not target.parent.is_dir():
            raise FileNotFoundError(f"{target.parent}: no such folder")
        in_vain = furthest = 0
        while True:
            part = Part.left_behind(target)
            # A large one may break any number of times, as long as something new arrives.
            if part is not None and part.size > furthest:
                in_vain, furthest = 0, part.size
            try:
                return await self._transferred(path, target, part, accept, progress)
            except ConnectionFailed:
                if in_vain >= self._retries:
                    raise
            await sleep(backoff(in_vain))
            in_vain += 1

    async def _transferred(
        self, path: str, to: Path, part: Part | None, accept: str, progress: bool | None
    ) -> Path:
        """Receive what is missing of a part, all of it when the content is another one by now."""
        # Ranges are of the content as it is, not of a compressed one.
        headers = {"accept": accept, "accept-encoding": "identity"}
        response, part = await self._opened(path, to, part, headers)
        try:
            total = part.total(response)
            with shown(progress, to.name, total, part.size) as bar:
                # As they come: chunks of a size of our own would be lost with the connection.
                async for chunk in response.aiter_bytes():
                    part.append(chunk)
                    bar.update(len(chunk))
            if total is not None and part.size < total:
                kept = f"{part.size} of {total} bytes arrived, kept in {part.path}"
                raise ConnectionFailed(f"{path}: {kept}; download again to resume")
            if total is not None and part.size > total:
                part.discard()
                raise Damaged(f"{to}: {part.size} bytes arrived, not {total}; it was removed")
            return await in_thread(lambda: part.finish(to))
        except httpx.TransportError as cause:
            kept = f"{part.size} bytes arrived, kept in {part.path}; download again to resume"
            raise ConnectionFailed(f"{path}: {kept}") from cause
        except UnexpectedAnswer:
            part.discard()
            raise
        finally:
            part.close()
            await response.aclose()

    async def _opened(
        self, path: str, to: Path, part: Part | None, headers: dict[str, str]
    ) -> tuple[httpx.Response, Part]:
        """Ask for what is missing of a part; for all when there is none, or of another content."""
        url = self._url(path)
        whole: httpx.Response | None = None
        if part is not None:
            wanted = {**headers, "range": f"bytes={part.size}-"}
            try:
                response = await self._send("GET", url, headers=wanted, stream=True)
                if part.is_continued_by(response):
                    return response, part
                # Some proxies answer with everything, whatever is asked for.
                if response.status_code == httpx.codes.OK:
                    whole = response
                else:
                    await response.aclose()
            except Refused as error:
                # All bytes were there already, or more than the content has.
                if error.status != httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                    part.close()
                    raise
            except MolboxError:
                part.close()
                raise
            part.discard()
        if whole is None:
            whole = await self._send("GET", url, headers=headers, stream=True)
        return whole, Part.create(to, whole.headers.get("etag", ""))

    async def _range(self, path: str, wanted: str) -> tuple[bytes, int, int, str] | None:
        """Bytes of a content, the first one's place, its size, its ETag.

        None when it is not to be had in parts: from behind some proxies, or just now.
        """
        headers = {"accept": ZIP, "accept-encoding": "identity", "range": f"bytes={wanted}"}
        response = await self._send("GET", self._url(path), headers=headers, stream=True)
        try:
            begin = content_range(response)
            is_part = response.status_code == httpx.codes.PARTIAL_CONTENT
            if not is_part or begin is None or begin[1] is None:
                return None
            content = await response.aread()
            return content, begin[0], begin[1], response.headers.get("etag", "")
        except httpx.TransportError:
            return None
        finally:
            await response.aclose()

    # Waiting.

    async def _wait(
        self,
        task: AsyncTask,
        timeout: float | None,
        progress: bool | None,
        seen: Callable[[], None],
    ) -> None:
        """Follow a task to its end, by events or by asking."""
        watch = _Watch(task, timeout, seen)
        try:
            with shown_task(progress, task.id) as bar:
                watch.bar = bar
                if not watch.look(await task._view()):
                    await self._by_events(watch)
                    await self._by_asking(watch)
        except interruptions():
            back = f"client.{task.kind}({task.id!r}).wait()"
            print(f"molbox: {task.id} goes on without you; return by {back}", file=sys.stderr)
            raise
        watch.conclude()

    async def _by_events(self, watch: _Watch) -> None:
        """Look at each record that the service sends; returns when there are no more."""
        task = watch.task
        if task.kind != "job" or self._streams >= MOST_STREAMS or watch.left() < QUIET:
            return
        self._streams += 1
        try:
            async with aclosing(self._events(task)) as events:
                async for record in events:
                    if record is not None and watch.look(record):
                        return
                    if watch.left() < QUIET:
                        return
        finally:
            self._streams -= 1

    async def _events(self, task: AsyncTask) -> AsyncGenerator[dict[str, Any] | None, None]:
        """Records of a job as they change; none in between, when the service is still there."""
        try:
            response = await self._send(
                "GET",
                f"{self.base_url}/info/job/{task.id}/events",
                headers={"accept": "text/event-stream"},
                stream=True,
                retries=0,
                timeout=httpx.Timeout(QUIET, connect=10),
            )
            try:
                async for line in response.aiter_lines():
                    # A record is one line.
                    yield task._own(_json.loads(line[5:])) if line.startswith("data:") else None
            finally:
                await response.aclose()
        except (MolboxError, httpx.TransportError, ValueError):
            # A proxy that holds events back, a service that restarts: it is asked instead, and
            # what is wrong for good is found there.
            return

    async def _by_asking(self, watch: _Watch) -> None:
        """Look at the record again and again, until it is that of an end."""
        pause, last_answer = FIRST_POLL, _time.monotonic()
        while not watch.is_over:
            if watch.left() <= 0:
                raise watch.timed_out()
            await sleep(min(pause, watch.left()))
            pause = min(pause * 1.25, LAST_POLL)
            try:
                watch.look(await watch.task._view())
                last_answer = _time.monotonic()
            except MolboxError as error:
                silence = _time.monotonic() - last_answer
                if not is_transient(error) or silence > LONGEST_SILENCE:
                    raise


class _Watch:
    """What a wait has seen so far."""

    def __init__(self, task: AsyncTask, timeout: float | None, seen: Callable[[], None]) -> None:
        if timeout is not None:
            timeout = checked_number("timeout", timeout, float)
        self.task, self.timeout, self.seen = task, timeout, seen
        self.start = _time.monotonic()
        self.bar = Progress()

    def left(self) -> float:
        """Seconds until the wait ends; infinite without a limit."""
        if self.timeout is None:
            return float("inf")
        return self.start + self.timeout - _time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self.task.is_over

    def look(self, record: dict[str, Any]) -> bool:
        """Take over a record; whether it is that of an end."""
        self.task.data = record
        self.bar.show(record)
        self.seen()
        return self.is_over

    def timed_out(self) -> WaitTimeout:
        """The error for a task that takes longer."""
        task, limit = self.task, self.timeout
        return WaitTimeout(f"{task.id} is {task.status} after {limit:g} s, and goes on")

    def conclude(self) -> None:
        """Raise unless the task has succeeded; what the service warns of is a warning of Python."""
        task = self.task
        if task.status == "succeeded":
            for notice in task.data.get("warnings") or []:
                _warnings.warn(f"{task.id}: {notice['message']}", MolboxWarning, stacklevel=2)
            return
        failure = None
        if task.data.get("error"):
            from . import _records as records

            failure = read(records.Failure, task.data["error"])
        raise TaskFailed(task.id, task.status, failure)


def _decoded(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        begin = response.text[:200]
        raise UnexpectedAnswer(f"{response.url}: is no JSON: {begin!r}") from error


def _unreached(url: str, cause: Exception) -> ConnectionFailed:
    # Neither the path of an upload's link, which is a grant, nor a query.
    origin = httpx.URL(without_password(url)).copy_with(raw_path=b"/")
    error = ConnectionFailed(f"{str(origin).rstrip('/')}: {explained(cause)}")
    error.__cause__ = cause
    return error


async def _refused(response: httpx.Response) -> Refused:
    """The error of an answer, whose body is read up to a bound."""
    found = b""
    async for chunk in response.aiter_bytes():
        found += chunk
        if len(found) >= MAX_ERROR_BYTES:
            break
    await response.aclose()
    return refusal(response, found)


def _registration(what: Content, name: str | None = None) -> dict[str, Any]:
    """What a content is registered as, but for its identifier."""
    return body(
        "FileRegistration", {"format": what.format, "name": what.name if name is None else name}
    )


def _of_job(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a job. Of all its fields `box_id` alone is not left out when it is None.

    A variable that was meant to have a system would begin a job on any other.
    """
    if fields.get("box_id", "") is None:
        raise InvalidRequest("box_id: is None; leave it out for the newest system of the account")
    return body("JobCreateParams", fields)


def _format(source: Any, usual: str) -> str | None:
    """The format of bytes, which have no name to tell it by."""
    return usual if isinstance(source, bytes) else None


def _placed(to: str | Path | None, name: str) -> Path:
    """Where a download goes: a file, or under its own name into a folder that is there.

    The name is the service's, and leads to no other folder.
    """
    # With a colon, on some systems, it would be another drive's.
    for separator in "/\\:":
        name = name.replace(separator, "_")
    if to is None:
        return Path(name)
    path = Path(to).expanduser()
    return path / name if path.is_dir() else path


def _checked(id: Any, kind: str, prefix: str) -> str:
    """An identifier that leads to no other operation: `..`, or an empty one, would."""
    found = identified(kind, id, "id")
    if not _is_identifier(found) or not found.startswith(prefix):
        raise InvalidRequest(f"id: must be {prefix} and what follows it, got {id!r}")
    return str(found)


def _is_identifier(id: object) -> bool:
    """Whether it is one, which is part of paths here and there."""
    return isinstance(id, str) and id.isascii() and id.replace("_", "").isalnum()


class AsyncTask:
    """What is queued and runs: a system, a job or an analysis."""

    kind = "task"
    _id = "id"

    def __init__(self, client: AsyncClient, data: dict[str, Any]) -> None:
        self.client = client
        #: The record as it was answered; `record` has it with types.
        self.data = self._own(data)

    def _own(self, data: Any) -> dict[str, Any]:
        """A record, if it is one of such a task."""
        if (
            isinstance(data, dict)
            and _is_identifier(data.get(self._id))
            and isinstance(data.get("status"), str)
        ):
            return data
        raise UnexpectedAnswer(f"is no {self.kind}: {str(data)[:200]}")

    @property
    def id(self) -> str:
        """Its identifier."""
        return str(self.data[self._id])

    @property
    def status(self) -> str:
        """`queued`, `running`, `succeeded`, `failed`, `cancelled`, as it was last seen."""
        return str(self.data["status"])

    @property
    def is_over(self) -> bool:
        """Whether it has ended. An unknown status is an end when the record has the time of it."""
        if self.status in ("queued", "running"):
            return False
        known = self.status in ("succeeded", "failed", "cancelled")
        return known or bool(self.data.get("finished_at"))

    @property
    def created_at(self) -> Datetime:
        """When it was submitted, in UTC; the texts of all times are in `record`."""
        return required_moment(self.data, "created_at")

    @property
    def started_at(self) -> Datetime | None:
        """When it started; None before."""
        return moment(self.data, "started_at")

    @property
    def finished_at(self) -> Datetime | None:
        """When it ended; None before."""
        return moment(self.data, "finished_at")

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id} {self.status}>"

    async def _view(self) -> dict[str, Any]:
        return self._own(await self.client._json("GET", f"/info/{self.kind}/{self.id}"))

    async def _cancelled(self) -> dict[str, Any]:
        return self._own(await self.client._json("POST", f"/cancel/{self.kind}/{self.id}"))

    async def delete(self) -> None:
        """Delete it, with its results."""
        await self.client._send("DELETE", f"{self.client.base_url}/info/{self.kind}/{self.id}")


class AsyncFile:
    """A file of the account."""

    kind = "file"

    def __init__(self, client: AsyncClient, data: dict[str, Any]) -> None:
        self.client = client
        #: The record as it was answered; `record` has it with types.
        self.data = data
        if not _is_identifier(data.get("file_id")):
            raise UnexpectedAnswer(f"is no file: {str(data)[:200]}")

    @property
    def id(self) -> str:
        """Its identifier."""
        return str(self.data["file_id"])

    @property
    def name(self) -> str:
        """What it was registered as."""
        return str(self.data.get("name"))

    @property
    def created_at(self) -> Datetime:
        """When it was registered, in UTC."""
        return required_moment(self.data, "created_at")

    @property
    def record(self) -> records.FileRecord:
        """All that is known of it."""
        from . import _records as records

        return read(records.FileRecord, self.data)

    def __repr__(self) -> str:
        return f"<file {self.id} {self.name}>"

    async def download(self, to: str | Path | None = None, *, progress: bool | None = None) -> Path:
        """Its content, to a file. Default: its name and format, in the working folder.

        Raises
        ------
        FileExistsError
            When `to` names no file, and there is one of that name with another content.
        """
        # Files of built systems have the extension in their names.
        extension = f".{self.data.get('format')}"
        target = _placed(to, self.name.removesuffix(extension) + extension)
        is_named = to is not None and target == Path(to).expanduser()
        if not is_named and target.exists():
            digest = await in_thread(Content(target, extension).sha256)
            if digest == self.data.get("sha256"):
                return target
            raise FileExistsError(f"{target}: has another content; give the file to write as `to`")
        return await self.client.download(f"/retrieve/file/{self.id}", target, progress=progress)

    async def delete(self) -> None:
        """Delete it."""
        await self.client._send("DELETE", f"{self.client.base_url}/info/file/{self.id}")


class AsyncSystem(AsyncTask):
    """A system: topology, force field, coordinates."""

    kind = "system"
    _id = "system_id"

    @property
    def record(self) -> records.SystemRecord:
        """All that is known of it; `.summary` once it is built."""
        from . import _records as records

        return read(records.SystemRecord, self.data)

    async def refresh(self) -> AsyncSystem:
        """Look at it again."""
        self.data = await self._view()
        return self

    async def wait(
        self,
        timeout: float | None = None,
        *,
        progress: bool | None = None,
        on_progress: Callable[[AsyncSystem], None] | None = None,
    ) -> AsyncSystem:
        """Wait until it is built; as `wait` of a job."""
        seen = (lambda: on_progress(self)) if on_progress else _nothing
        await self.client._wait(self, timeout, progress, seen)
        return self

    async def cancel(self) -> AsyncSystem:
        """Stop building it."""
        self.data = await self._cancelled()
        return self

    async def download(self, to: str | Path | None = None, *, progress: bool | None = None) -> Path:
        """The system and its structures, a zip."""
        path = f"/retrieve/system/{self.id}"
        target = _placed(to, f"{self.id}.zip")
        return await self.client.download(path, target, progress=progress)


class AsyncJob(AsyncTask):
    """A simulation of a system."""

    kind = "job"
    _id = "job_id"

    @property
    def record(self) -> records.JobRecord:
        """All that is known of it: `.parameters`, `.stages`, `.warnings` and so on."""
        from . import _records as records

        return read(records.JobRecord, self.data)

    async def refresh(self) -> AsyncJob:
        """Look at it again."""
        self.data = await self._view()
        return self

    async def wait(
        self,
        timeout: float | None = None,
        *,
        progress: bool | None = None,
        on_progress: Callable[[AsyncJob], None] | None = None,
    ) -> AsyncJob:
        """Wait until it has succeeded. Ctrl-C leaves it running.

        Parameters
        ----------
        timeout : float, optional
            Seconds. Default: as long as it takes.
        progress : bool, optional
            Whether to show progress on standard error. Default: where somebody watches.
        on_progress : callable, optional
            Called with the job each time its record has been looked at.

        Raises
        ------
        TaskFailed
            When it failed or was cancelled.
        WaitTimeout
            When it goes on for longer.
        """
        seen = (lambda: on_progress(self)) if on_progress else _nothing
        await self.client._wait(self, timeout, progress, seen)
        return self

    async def cancel(self) -> AsyncJob:
        """Stop it. What it has simulated can be downloaded."""
        self.data = await self._cancelled()
        return self

    async def extend(self, time: Any, *, idempotency_key: str | None = None) -> AsyncJob:
        """Continue the production of a succeeded job by more time, in ns or with a unit.

        It is queued again under the same identifier: wait for it again.
        """
        asked = body("JobExtension", {"time": time})
        path = f"/extend/job/{self.id}"
        record = await self.client._json("POST", path, json=asked, idempotency_key=idempotency_key)
        self.data = self._own(record)
        return self

    async def retry(self) -> AsyncJob:
        """Queue a failed or cancelled job once more; it resumes from its last checkpoint."""
        self.data = self._own(await self.client._json("POST", f"/retry/job/{self.id}"))
        return self

    async def log(self, lines: int | None = None) -> str:
        """What it has logged so far, or the last lines of that."""
        if lines is not None:
            lines = checked_number("lines", lines, int)
        url = f"{self.client.base_url}/info/job/{self.id}/log"
        text = (await self.client._send("GET", url)).text
        if lines is None:
            return text
        return "".join(text.splitlines(keepends=True)[-lines:] if lines > 0 else [])

    async def download(self, to: str | Path | None = None, *, progress: bool | None = None) -> Path:
        """The results bundle, a zip. Default: its identifier, in the working folder."""
        path = f"/retrieve/job/{self.id}"
        target = _placed(to, f"{self.id}.zip")
        return await self.client.download(path, target, progress=progress)

    async def files(
        self, folder: str | Path | None = None, *, progress: bool | None = None
    ) -> dict[str, Path]:
        """The files of the bundle by name: `production.dcd`, `system/system.xml` and so on.

        Downloaded once, and kept in `folder`, or in the user's cache (`MOLBOX_CACHE`). What is
        missing there is downloaded again, in the cache also what is cut off.

        Raises
        ------
        FileExistsError
            When the folder has another file of one of these names.
        """
        stamp = await self._stamp()
        place = Path(folder).expanduser().absolute() if folder else cache_path() / stamp
        is_cache = not folder
        while not _results.is_unpacked(place, stamp, is_cache=is_cache):
            base = _results.beside(place)
            base.mkdir(parents=True, exist_ok=True)
            bundle, own = base / f"{stamp}.zip", base / f"{stamp}.{uuid.uuid4().hex}.zip"
            await self.download(bundle, progress=progress)
            try:
                bundle.rename(own)
            except FileNotFoundError:
                # Another thread or process that wants the same has taken it.
                continue
            try:
                await in_thread(partial(_results.unpack, own, place, stamp, is_cache=is_cache))
            finally:
                own.unlink()
            break
        return _results.listed(place)

    async def _stamp(self) -> str:
        """Names the files: an extended job has others under the same identifier."""
        if not self.is_over:
            await self.refresh()
        return f"{self.id}-{''.join(filter(str.isalnum, str(self.data.get('finished_at', ''))))}"

    async def _few_files(self, is_wanted: Callable[[str], bool]) -> dict[str, Path]:
        """Files of the bundle: all, but of a large one only those that are wanted."""
        stamp, path = await self._stamp(), f"/retrieve/job/{self.id}"
        if _results.is_unpacked(cache_path() / stamp, stamp, is_cache=True):
            return await self.files()
        end = await self.client._range(path, f"-{_bundle.END_BYTES}")
        if end is None or end[2] <= _bundle.SMALL_BYTES:
            return await self.files()
        content, first, size, etag = end
        folder, found = cache_path() / f"{stamp}-few", {}
        try:
            bundle = _bundle.Remote(content, first, size)
            for name in bundle.names(is_wanted):
                found[name] = folder / name
                if found[name].exists():
                    continue
                first, last = bundle.range_of(name)
                piece = await self.client._range(path, f"{first}-{last}")
                if piece is None or piece[3] != etag:
                    return await self.files()
                _results.keep(found[name], bundle.content(name, piece[0]))
        except zipfile.BadZipFile:
            return await self.files()
        return found

    async def universe(self, **options: Any) -> MDAnalysis.Universe:
        """Topology and production trajectory as an `MDAnalysis.Universe`, made with `options`."""
        files = await self.files()
        return await in_thread(lambda: _results.universe(files, options))

    async def trajectory(self) -> Any:
        """Topology and production trajectory as an `mdtraj.Trajectory`, with times in ps."""
        files = await self.files()
        return await in_thread(lambda: _results.mdtraj_trajectory(files, self.data))

    async def energies(self) -> pandas.DataFrame:
        """The log of every stage: `stage` and `row` index it, columns have units in their names."""
        files = await self._few_files(lambda name: name.endswith(".csv"))
        return await in_thread(lambda: _results.energies(files, self._stages()))

    async def openmm(self) -> tuple[Any, Any, Any]:
        """`openmm.System`, `openmm.app.Topology`, and the `openmm.State` of the end.

        The time of the state begins with its stage, as that of `energies()`.
        """
        files = await self._few_files(_results.is_for_openmm)
        return await in_thread(lambda: _results.openmm_objects(files, self._stages()))

    async def view(self) -> Any:
        """The trajectory as a widget of nglview, in a notebook."""
        files = await self.files()
        return await in_thread(lambda: _results.widget(files))

    def _stages(self) -> list[str]:
        return [str(stage["name"]) for stage in self.data.get("stages") or []]

    def cite(self) -> str:
        """A paragraph of methods for a paper, of the stages that have ended, and what to cite.

        Raises
        ------
        NoResult
            Before the first stage has ended.
        """
        return _results.methods(self.data)

    async def analyze(
        self,
        *,
        wait: bool = True,
        progress: bool | None = None,
        idempotency_key: str | None = None,
        **analysis: Unpack[arguments.AnalysisRequestRest],
    ) -> AsyncAnalysis:
        """Analyse its trajectory; with no fields of `AnalysisRequest`, the default report.

        Raises
        ------
        TypeError
            For a `job_id`, which is this job's; `analyze` of a client takes another's.
        """
        if "job_id" in analysis:
            raise TypeError(f"analyze() of {self.id} takes no job_id; client.analyze() does")
        return await self.client.analyze(
            wait=wait,
            progress=progress,
            idempotency_key=idempotency_key,
            job_id=self.id,
            **analysis,
        )


class AsyncAnalysis(AsyncTask):
    """Tables of numbers from a trajectory."""

    kind = "analysis"
    _id = "analysis_id"

    @property
    def record(self) -> records.AnalysisRecord:
        """All that is known of it."""
        from . import _records as records

        return read(records.AnalysisRecord, self.data)

    async def refresh(self) -> AsyncAnalysis:
        """Look at it again."""
        self.data = await self._view()
        return self

    async def wait(
        self,
        timeout: float | None = None,
        *,
        progress: bool | None = None,
        on_progress: Callable[[AsyncAnalysis], None] | None = None,
    ) -> AsyncAnalysis:
        """Wait until it has succeeded; as `wait` of a job."""
        seen = (lambda: on_progress(self)) if on_progress else _nothing
        await self.client._wait(self, timeout, progress, seen)
        return self

    async def cancel(self) -> AsyncAnalysis:
        """Stop it."""
        self.data = await self._cancelled()
        return self

    async def _tables(self) -> dict[str, Any]:
        path = f"/retrieve/analysis/{self.id}"
        return await self.client._json("GET", path, headers={"accept": "application/json"})

    async def results(self) -> records.AnalysisData:
        """Its tables, with titles, definitions, units and values."""
        from . import _records as records

        return read(records.AnalysisData, await self._tables())

    async def to_pandas(self) -> dict[str, pandas.DataFrame]:
        """Its tables by name; `.attrs` has title, definition, and units of the columns."""
        return _results.tables(await self._tables())

    async def download(self, to: str | Path | None = None, *, progress: bool | None = None) -> Path:
        """Tables (CSV, Parquet) and plots (PNG, SVG, PDF), a zip."""
        path, target = f"/retrieve/analysis/{self.id}", _placed(to, f"{self.id}.zip")
        return await self.client.download(path, target, progress=progress, accept="application/zip")


def _nothing() -> None:
    """What is called where nobody wants to know."""

"""One service for several models: each has an application below /models/NAME; the first is also at the root."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.applications import Starlette

from longtail.serve import annif, schemas, v2
from longtail.serve.app import create_app
from longtail.serve.board import Board
from longtail.serve.gate import Receive, Scope, Send
from longtail.serve.limits import Limits

if TYPE_CHECKING:
    from longtail.tagging import Tagger

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PREFIXES = ("/models/", annif.PREFIX + "/", v2.PREFIX + "/")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """One model of a service.

    Parameters
    ----------
    source : path of a saved Tagger, or a Tagger
    limits : Limits, optional
        Limits of this model's requests; those on connections belong to the service.
    api_key : str, optional
        Key for this model's endpoints.
    feedback : bool, default False
        Take corrections and store them beside the model.
    queue : path, optional
        Texts without labels, to be looked at next.
    language : str, optional
        Language of the names of labels.
    """

    source: Path | Tagger
    limits: Limits = field(default_factory=Limits)
    api_key: str | None = None
    feedback: bool = False
    queue: Path | None = None
    language: str | None = None


def find_models(paths: Iterable[str]) -> dict[str, Path]:
    """Name the models of `longtail serve PATH...`: a PATH is a model, NAME=MODEL, or a folder of models.

    A model without a name of its own is called like its directory without the extension.
    """
    found: dict[str, Path] = {}
    for text in paths:
        name, equals, rest = text.partition("=")
        is_named = bool(equals) and not Path(text).exists()
        path = Path(rest) if is_named else Path(text)
        if is_named or _is_model(path):
            _add(found, name if is_named else path.resolve().stem, path)
            continue
        if not path.is_dir():
            raise ValueError(f"{path}: there is no such model")
        inside = sorted(child for child in path.iterdir() if _is_model(child))
        if not inside:
            raise ValueError(f"{path} is neither a model nor a folder that holds models")
        for child in inside:
            _add(found, child.stem, child)
    return found


def _is_model(path: Path) -> bool:
    return (path / "manifest.json").is_file()


def _add(found: dict[str, Path], name: str, path: Path) -> None:
    check_name(name)
    if name in found:
        raise ValueError(f"{found[name]} and {path} have the same name {name!r}; name one of them: NAME={path}")
    found[name] = path


def check_name(name: str) -> None:
    """Raise unless a name can stand in an address."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"the name of a model must be letters, digits, '.', '_' and '-', got {name!r}; name the model: NAME=PATH"
        )


class Service:
    """An ASGI application that passes each request to the application of the model that its path names.

    Parameters
    ----------
    models : dict of str to ModelSettings
        By name, in order; requests that name no model go to the first one.
    allowed_hosts : names, optional
        Accepted values of the Host header; default: any.
    boards : dict of str to Board, optional
        Counters that several worker processes share, by model.
    verify : bool, default True
        Compare the checksums of the models whenever they are loaded, before they answer: about a second per GB.
    """

    def __init__(
        self,
        models: Mapping[str, ModelSettings],
        *,
        allowed_hosts: Iterable[str] | None = None,
        boards: Mapping[str, Board] | None = None,
        verify: bool = True,
    ) -> None:
        if not models:
            raise ValueError("Service: models must not be empty")
        hosts = None if allowed_hosts is None else list(allowed_hosts)
        self.apps: dict[str, FastAPI] = {}
        for name, settings in models.items():
            check_name(name)
            self.apps[name] = create_app(
                settings.source,
                name=name,
                limits=settings.limits,
                api_key=settings.api_key,
                allowed_hosts=hosts,
                board=None if boards is None else boards[name],
                verify=verify,
                feedback=settings.feedback,
                queue=settings.queue,
                language=settings.language,
            )
        self._first = next(iter(self.apps.values()))
        if len(self.apps) > 1:
            for app in self.apps.values():
                app.state.models = list(self.apps)
        _list_models(self._first, self.apps)
        self._lifespan = Starlette(lifespan=self._run)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        app = self._first
        for prefix in _PREFIXES:
            name = scope["path"].removeprefix(prefix).partition("/")[0]
            if scope["path"].startswith(prefix) and name in self.apps:
                app = self.apps[name]
                if prefix == "/models/":
                    scope = {**scope, "root_path": scope.get("root_path", "") + prefix + name}
        await app(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _run(self, _: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for app in self.apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield


def _list_models(first: FastAPI, apps: Mapping[str, FastAPI]) -> None:
    @first.get("/models")
    async def models() -> schemas.ModelsResponse:
        """List the models of this service."""
        return schemas.ModelsResponse(
            models=[
                schemas.ModelEntry(name=name, version=app.state.served.current.version, path=f"/models/{name}/")
                for name, app in apps.items()
            ]
        )

    @first.get(annif.PREFIX)
    async def projects() -> annif.Projects:
        """List the models as Annif lists its projects."""
        return annif.Projects(projects=[annif.describe(name, app.state.served) for name, app in apps.items()])

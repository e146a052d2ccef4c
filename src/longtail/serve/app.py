"""The HTTP application: a shell over the Tagger's public methods."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

import longtail
from longtail.feedback import FeedbackStore, feedback_path
from longtail.serve import metrics, schemas, validation
from longtail.serve.annif import add_annif
from longtail.serve.board import Board
from longtail.serve.feedback import add_feedback
from longtail.serve.gate import LOOPBACK_NAMES, Gate
from longtail.serve.limits import Limits
from longtail.serve.model import ServedModel, Snapshot
from longtail.serve.page_files import PAGE_FILES, PageFile
from longtail.serve.queue import Queue, add_queue
from longtail.serve.schemas import ErrorResponse
from longtail.serve.v2 import add_v2
from longtail.tagging.vocabulary_tags import tag_with_vocabulary

if TYPE_CHECKING:
    from longtail.tagging import Tag, Tagger

_logger = logging.getLogger("longtail.serve")
_WATCH_SECONDS = 0.25
_MAX_TREE_ROWS = 1000
_ERROR_STATUSES = (400, 401, 403, 404, 405, 408, 413, 422, 431, 500, 503)


def create_app(
    model: str | PathLike[str] | Tagger,
    *,
    name: str = "model",
    limits: Limits | None = None,
    api_key: str | None = None,
    allowed_hosts: Iterable[str] | None = None,
    board: Board | None = None,
    verify: bool = True,
    feedback: bool = False,
    queue: str | PathLike[str] | None = None,
    language: str | None = None,
) -> FastAPI:
    """Create the ASGI application that serves a model, for any ASGI server; `longtail serve` runs it with uvicorn.

    Parameters
    ----------
    model : path of a saved Tagger, or a Tagger
        A path is watched: when another model takes its place, requests move over to it and none is dropped.
    name : str, default "model"
        Name of the model in the addresses of Annif's API.
    limits : Limits, optional
        Limits on connections and on the head of a request need `longtail serve`; other servers have their own.
    api_key : str, optional
        Without it everyone who can reach the service may use it, except for POST /api/reload, which is then off.
    allowed_hosts : names, optional
        Accepted values of the Host header; default: any.
    board : Board, optional
        Counters that several worker processes share.
    verify : bool, default True
        Compare the checksums of the model whenever it is loaded, before it answers: about a second per GB.
    feedback : bool, default False
        Take corrections at POST /api/feedback and store them in a file beside the model; needs a model with a path.
    queue : path, optional
        Texts without labels (a file or a folder) that GET /api/queue offers, the most useful ones first.
    language : str, optional
        Language of the names of labels, for a model with a vocabulary, unless a request asks for another one.

    Returns
    -------
    FastAPI
    """
    if api_key is not None and not api_key.strip():
        raise ValueError("create_app: api_key must not be empty; pass None to serve without a key")
    limits = limits or Limits()
    board = board or Board()
    hosts = None if allowed_hosts is None else list(allowed_hosts)
    served = ServedModel(Path(model) if isinstance(model, str | PathLike) else model, verify=verify, language=language)
    store = _open_store(served) if feedback else None
    app = FastAPI(
        title="longtail",
        version=longtail.__version__,
        description="Tag texts with the few relevant labels out of many.",
        lifespan=_lifespan(served, limits, board, store),
        docs_url=None,  # both pages would load scripts from other servers
        redoc_url=None,
        responses={status: {"model": ErrorResponse} for status in _ERROR_STATUSES},
    )
    app.state.served = served
    app.state.models = []
    app.add_middleware(Gate, limits=limits, board=board, api_key=api_key, allowed_hosts=hosts)
    _add_error_handlers(app)
    _add_tagging(app, served, limits, board)
    _add_model(app, served, has_feedback=feedback, has_queue=queue is not None)
    if store is not None:
        is_private = api_key is not None or (hosts is not None and set(hosts) <= set(LOOPBACK_NAMES))
        add_feedback(app, served, store, limits, is_private=is_private)
    if queue is not None:
        add_queue(app, Queue(served, Path(queue), store))
    _add_operations(app, served, board, can_reload=api_key is not None)
    add_annif(app, name, served, limits, board, store)
    add_v2(app, name, served, limits, board)
    _add_page(app)
    if api_key is not None:
        _declare_security(app)
    return app


def _lifespan(
    served: ServedModel, limits: Limits, board: Board, store: FeedbackStore | None
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = limits.n_threads
        watching = asyncio.create_task(_watch(served, board))
        yield
        watching.cancel()
        if store is not None:
            store.close()

    return lifespan


async def _watch(served: ServedModel, board: Board) -> None:
    """Reload when another process, a signal or a new model on disk asks for it."""
    n_seen = board.n_reload_calls
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        n_calls = board.n_reload_calls
        if n_calls == n_seen and not served.changed_on_disk():
            continue
        n_seen = n_calls
        with contextlib.suppress(Exception):  # logged and counted in _reload; the old model stays
            await asyncio.to_thread(_reload, served, board)


def _reload(served: ServedModel, board: Board) -> None:
    try:
        served.reload()
    except Exception:
        board.add_reload(failed=True)
        raise
    board.add_reload(failed=False)


def _add_error_handlers(app: FastAPI) -> None:
    def refuse(status: int, message: str, headers: Any = None) -> JSONResponse:
        # Messages may quote half of a surrogate pair, which UTF-8 cannot encode.
        return JSONResponse({"error": message.encode("utf-8", "replace").decode()}, status, headers=headers)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return refuse(422, validation.describe(error.errors()))

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> JSONResponse:
        is_encoding = isinstance(error.__cause__, UnicodeDecodeError)  # FastAPI says only that it cannot parse the body
        message = "the body must be JSON in UTF-8" if is_encoding else str(error.detail)
        return refuse(error.status_code, message, error.headers)

    # The library's messages about values are written for callers.
    @app.exception_handler(ValueError)
    @app.exception_handler(KeyError)
    def library_error(request: Request, error: Exception) -> JSONResponse:
        return refuse(422, str(error.args[0]) if error.args else type(error).__name__)


def _add_tagging(app: FastAPI, served: ServedModel, limits: Limits, board: Board) -> None:
    requests = schemas.bounded_requests(limits)

    def tag(body: schemas.TagRequest) -> Response:
        """Propose labels for one text."""
        snapshot = served.current
        tags = tag_with_vocabulary(snapshot.tagger, [body.text], **body.filters())[0]
        board.add_texts(1)
        n_known = int(snapshot.tagger.known_words([body.text])[0])
        return _json(snapshot, schemas.TagResponse(labels=_scored(snapshot, tags, body.language), known_words=n_known))

    def tag_batch(body: schemas.TagBatchRequest) -> Response:
        """Propose labels for several texts."""
        snapshot = served.current
        rows = tag_with_vocabulary(snapshot.tagger, body.texts, **body.filters()) if body.texts else []
        board.add_texts(len(body.texts))
        n_known = [int(n) for n in snapshot.tagger.known_words(body.texts)] if body.texts else []
        return _json(
            snapshot,
            schemas.TagBatchResponse(
                rows=[_scored(snapshot, tags, body.language) for tags in rows], known_words=n_known
            ),
        )

    def explain(body: schemas.ExplainRequest) -> Response:
        """Return the words that speak for and against a label."""
        snapshot = served.current
        found = snapshot.tagger.explain(body.text, body.label, max_words=limits.max_words)
        words = [
            schemas.Word(word=word.word, contribution=word.contribution, spans=list(word.spans)) for word in found.words
        ]
        return _json(
            snapshot,
            schemas.ExplainResponse(
                label=found.label,
                name=snapshot.name_of(found.label, body.language),
                score=found.score,
                bias=found.bias,
                exact=found.exact,
                words=words,
                rest=found.rest,
            ),
        )

    # The limits of this service are known only now; the handlers are typed with the unbounded models.
    for path, handler, request, answer in (
        ("/api/tag", tag, requests.tag, schemas.TagResponse),
        ("/api/tag-batch", tag_batch, requests.tag_batch, schemas.TagBatchResponse),
        ("/api/explain", explain, requests.explain, schemas.ExplainResponse),
    ):
        handler.__annotations__["body"] = request
        app.post(path, response_model=answer)(handler)


def _json(snapshot: Snapshot, answer: BaseModel) -> Response:
    """Serialise in the thread that made the answer; the framework would use a second one."""
    headers = {"Model-Version": snapshot.version}
    return Response(answer.model_dump_json(), media_type="application/json", headers=headers)


def _scored(snapshot: Snapshot, tags: Iterable[Tag], language: str | None) -> list[schemas.ScoredLabel]:
    return [
        schemas.ScoredLabel(
            label=tag.label, score=tag.score, proba=tag.proba, name=snapshot.name_of(tag.label, language)
        )
        for tag in tags
    ]


def _exact(tagger: Tagger, query: str) -> str | None:
    """Return the label that a query names as a whole."""
    if query in tagger.label_names_:
        return query
    return None if tagger.vocabulary_ is None else tagger.vocabulary_.find(query)


def _open_store(served: ServedModel) -> FeedbackStore:
    if served.path is None:
        raise ValueError("create_app: feedback needs a model with a path; save the model and pass its path")
    return FeedbackStore(feedback_path(served.path))


def _add_model(app: FastAPI, served: ServedModel, *, has_feedback: bool, has_queue: bool) -> None:
    @app.get("/api/labels")
    def labels(
        query: Annotated[str, Query(max_length=schemas.MAX_LABEL_CHARS)] = "",
        limit: Annotated[int, Query(ge=1, le=schemas.MAX_SEARCH_LABELS)] = 20,
        unseen: bool = False,
        language: Annotated[str | None, Query(max_length=100)] = None,
    ) -> schemas.LabelsResponse:
        """Search the labels of the model, with `unseen` all of its vocabulary, by a part of any of their names."""
        snapshot = served.current
        tagger = snapshot.tagger
        found = tagger.search_labels(query, limit=limit, unseen=unseen)
        names = [snapshot.name_of(label, language) for label in found]
        return schemas.LabelsResponse(
            labels=found,
            counts=tagger.count_texts(found),
            names=None if tagger.vocabulary_ is None else [name for name in names if name is not None],
            exact=_exact(tagger, query.strip()),
        )

    @app.get("/api/tree")
    def tree(
        below: Annotated[str | None, Query(max_length=schemas.MAX_LABEL_CHARS)] = None,
        language: Annotated[str | None, Query(max_length=100)] = None,
    ) -> schemas.TreeResponse:
        """List the labels right below one of the vocabulary, or those without a parent."""
        snapshot = served.current
        vocabulary = snapshot.tagger.vocabulary_
        if vocabulary is None:
            return schemas.TreeResponse(rows=[], n_rows=0)
        found = vocabulary.roots() if below is None else vocabulary.children(below)
        found = [label for label in found if not vocabulary[label].retired]
        by_name = sorted((vocabulary.name(label, language or snapshot.language), label) for label in found)
        counts = snapshot.tagger.count_texts(label for _, label in by_name[:_MAX_TREE_ROWS])
        rows = [
            schemas.TreeEntry(label=label, name=name, count=count, n_below=len(vocabulary.below(label)) - 1)
            for (name, label), count in zip(by_name, counts, strict=False)
        ]
        return schemas.TreeResponse(rows=rows, n_rows=len(found))

    @app.get("/api/examples")
    def examples() -> schemas.ExamplesResponse:
        """Return a few texts the model was trained on."""
        return schemas.ExamplesResponse(texts=list(served.current.examples))

    @app.get("/api/model")
    def model() -> schemas.ModelResponse:
        """Describe the model."""
        snapshot = served.current
        vocabulary = snapshot.tagger.vocabulary_
        return schemas.ModelResponse(
            version=snapshot.version,
            card=snapshot.card,
            feedback=has_feedback,
            queue=has_queue,
            languages=None if vocabulary is None else vocabulary.languages,
            language=snapshot.language,
            unseen=vocabulary is not None and snapshot.tagger.can_tag_unseen,
            models=app.state.models,
        )


def _add_operations(app: FastAPI, served: ServedModel, board: Board, *, can_reload: bool) -> None:
    # These two and the page do no slow work and are answered on the event loop, even when all threads are busy.
    @app.get("/health")
    async def health() -> schemas.HealthResponse:
        """Report that the service is up, and which model it uses."""
        return _health(served)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {metrics.CONTENT_TYPE: {}}}})
    async def prometheus() -> Response:
        """Return the counters of all workers in Prometheus' text format."""
        return Response(metrics.exposition(board, served.current.version), media_type=metrics.CONTENT_TYPE)

    @app.post("/api/reload")
    def reload() -> schemas.HealthResponse:
        """Load the model again, in every worker. Off unless the service has an API key; SIGHUP always works."""
        if not can_reload:
            raise HTTPException(403, "reload over HTTP needs a service with an API key; or send SIGHUP")
        try:
            served.reload()
        except Exception as error:
            board.add_reload(failed=True)
            raise HTTPException(422, f"the old model stays: {error}") from error
        board.call_reload()  # for the other workers; this one loads once more, which is cheap
        return _health(served)


def _health(served: ServedModel) -> schemas.HealthResponse:
    return schemas.HealthResponse(status="ok", version=served.current.version, last_reload_error=served.last_error)


def _declare_security(app: FastAPI) -> None:
    """Add the two ways to send the API key to the OpenAPI schema; /health needs none."""
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        schema = describe()
        schema["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        schema["security"] = [{"bearer": []}, {"apiKey": []}]
        schema["paths"]["/health"]["get"]["security"] = []
        return schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI documents it


def _add_page(app: FastAPI) -> None:
    def add(path: str, file: PageFile) -> None:
        headers = {"ETag": f'"{hashlib.sha256(file.content).hexdigest()[:16]}"', "Cache-Control": "no-cache"}

        @app.get(path, include_in_schema=False)
        @app.head(path, include_in_schema=False)
        async def page(request: Request) -> Response:
            if request.headers.get("if-none-match") == headers["ETag"]:
                return Response(status_code=304, headers=headers)
            return Response(file.content, media_type=file.media_type, headers=headers)

    for path, file in PAGE_FILES.items():
        add(path, file)

"""Endpoints for corrections: store, export, delete."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Response
from pydantic import BaseModel, Field, create_model
from starlette.exceptions import HTTPException

from longtail.feedback import ConflictError, Feedback, FeedbackStore, record
from longtail.serve.limits import Limits
from longtail.serve.model import ServedModel
from longtail.serve.schemas import ErrorResponse, LabelNames, Request

_MAX_EXPORT_ROWS = 10_000
_MAX_EXPORT_BYTES = 16 << 20
_JSONL = "application/jsonl"
_NOT_PRIVATE = (
    "export and deletion by author need a service with an API key, or one that only this machine can reach; "
    "or use `longtail feedback MODEL`"
)

Id = Annotated[str, Field(min_length=1, max_length=record.MAX_ID_CHARS)]
Author = Annotated[str, Field(min_length=1, max_length=record.MAX_AUTHOR_CHARS)]


class FeedbackRequest(Request):
    """What somebody says about the labels of a text."""

    text: str
    accepted: LabelNames = Field(
        [],
        description="Proposed labels that are right: of the model or its vocabulary, unless version is that of another "
        "model.",
    )
    rejected: LabelNames = Field([], description="Proposed labels that are wrong.")
    added: LabelNames = Field([], description="Labels that were missing; also labels that the model does not know.")
    complete: bool = Field(False, description="The accepted and added labels are all labels of this text.")
    author: Author | None = Field(None, description="Who says it.")
    version: Annotated[str, Field(min_length=1, max_length=record.MAX_VERSION_CHARS)] | None = Field(
        None, description="Model-Version header of the answer that proposed the labels."
    )
    id: Id | None = Field(None, description="Made by the client: a repeated request is stored once. Default: random.")


class FeedbackResponse(BaseModel):
    """The feedback is on disk."""

    id: str
    stored: bool = Field(description="False if the same feedback was there already.")


class CountResponse(BaseModel):
    """How much feedback there is."""

    n_feedback: int


class DeletedResponse(BaseModel):
    """How much feedback was deleted."""

    n_deleted: int


def add_feedback(app: FastAPI, served: ServedModel, store: FeedbackStore, limits: Limits, *, is_private: bool) -> None:
    """Add the endpoints; export and deletion by author only to a service that has a key or is on loopback."""

    def check_private() -> None:
        if not is_private:
            raise HTTPException(403, _NOT_PRIVATE)

    def post(body: FeedbackRequest) -> FeedbackResponse:
        """Store what somebody says about the labels of a text; it is on disk when the answer comes."""
        given = body.model_dump(exclude_none=True)
        feedback = Feedback(**given)
        model = served.current
        if feedback.version in (None, model.version):
            try:
                model.tagger.check_labels("accepted", feedback.accepted)
            except ValueError as error:
                raise ValueError(f"{error}; a label that is new to the model goes to added") from None
        with http_errors():
            return FeedbackResponse(id=feedback.id, stored=store.add(feedback))

    text = Annotated[str, Field(max_length=min(limits.max_text_chars, record.MAX_TEXT_CHARS))]
    bounded: Any = create_model(
        "FeedbackRequest", __base__=FeedbackRequest, __doc__=FeedbackRequest.__doc__, text=(text, ...)
    )
    post.__annotations__["body"] = bounded
    refusals: Any = {status: {"model": ErrorResponse} for status in (409, 507)}
    app.post("/api/feedback", responses=refusals)(post)

    @app.get("/api/feedback", response_class=Response, responses={200: {"content": {_JSONL: {}}}})
    def export(
        after: Annotated[int, Query(ge=0, le=2**62)] = 0,
        limit: Annotated[int, Query(ge=1, le=_MAX_EXPORT_ROWS)] = _MAX_EXPORT_ROWS,
    ) -> Response:
        """Return feedback as JSONL, oldest first; ask again with the last `number` as `after` until none is left."""
        check_private()
        with http_errors():
            return Response("".join(_lines(store, after, limit)), media_type=_JSONL)

    @app.delete("/api/feedback")
    def delete(
        feedback_id: Annotated[str | None, Query(alias="id", max_length=record.MAX_ID_CHARS)] = None,
        author: Annotated[str | None, Query(max_length=record.MAX_AUTHOR_CHARS)] = None,
    ) -> DeletedResponse:
        """Delete one feedback by its id, or everything by an author."""
        if (feedback_id is None) == (author is None):
            raise HTTPException(422, "give id or author, and only one of them")
        if author is not None:
            check_private()
        with http_errors():
            return DeletedResponse(n_deleted=store.delete(feedback_id=feedback_id, author=author))

    @app.get("/api/feedback/count")
    def count() -> CountResponse:
        """Count the feedback."""
        with http_errors():
            return CountResponse(n_feedback=store.count())


def _lines(store: FeedbackStore, after: int, limit: int) -> Iterator[str]:
    """Write lines until there are enough of them, or enough bytes."""
    n_bytes = n_rows = 0
    while n_rows < limit and n_bytes < _MAX_EXPORT_BYTES:
        rows = store.read(after=after, limit=min(100, limit - n_rows))
        if not rows:
            return
        for row in rows:
            line = json.dumps(row.as_json(), ensure_ascii=False) + "\n"
            n_bytes += len(line)
            yield line
            if n_bytes >= _MAX_EXPORT_BYTES:
                return
        n_rows += len(rows)
        after = rows[-1].number


@contextmanager
def http_errors() -> Iterator[None]:
    """Answer what the store raises: 409 a taken id, 507 a full disk, 503 a locked file."""
    try:
        yield
    except ConflictError as error:
        raise HTTPException(409, str(error)) from None
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise HTTPException(503, error.strerror, headers={"Retry-After": "1"}) from error
        if error.errno == errno.ENOSPC:
            raise HTTPException(507, error.strerror) from error
        raise

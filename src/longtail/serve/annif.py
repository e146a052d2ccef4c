"""The part of Annif's REST API that its `http` backend and other clients use: projects, suggestions and learning.

Annif's scores lie in [0, 1]: probabilities of a calibrated model, else the logistic function of the score. Texts
and limits beyond those of the service are cut, not refused: Annif would log the refusal and go on without suggestions.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from fastapi import Body, Depends, FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from longtail.feedback import Feedback, FeedbackStore, record
from longtail.serve.board import Board
from longtail.serve.feedback import http_errors
from longtail.serve.limits import Limits
from longtail.serve.model import ServedModel
from longtail.serve.schemas import ErrorResponse

PREFIX = "/v1/projects"
_FORM = "application/x-www-form-urlencoded"
_DEFAULT_LIMIT = 10
_MAX_FIELDS = 100  # Annif sends a field for every column of metadata


class Backend(BaseModel):
    """How a project works."""

    backend_id: Literal["longtail"]


class Project(BaseModel):
    """A model, described as Annif describes a project."""

    project_id: str
    name: str
    language: str | None
    backend: Backend
    is_trained: bool
    modification_time: str | None


class Projects(BaseModel):
    """All models of the service."""

    projects: list[Project]


class Suggestion(BaseModel):
    """One proposed label: `uri` is what the model calls it, `label` its name in the model's vocabulary, if any."""

    uri: str
    label: str
    notation: str | None = None
    score: float = Field(ge=0, le=1)


class Suggestions(BaseModel):
    """The labels of one text, best first."""

    results: list[Suggestion]


class SuggestForm(BaseModel):
    """The fields of a form; others that Annif knows are accepted and have no effect."""

    model_config = ConfigDict(extra="ignore")

    text: str
    limit: int = _DEFAULT_LIMIT
    threshold: float = 0.0
    language: str | None = None


class Subject(BaseModel):
    """A label of a document; only its `uri` counts."""

    uri: str = Field(min_length=1, max_length=record.MAX_LABEL_CHARS)


class IndexedDocument(BaseModel):
    """A text with all its labels."""

    text: str
    subjects: list[Subject] = Field([], max_length=record.MAX_LABELS)


def describe(name: str, served: ServedModel) -> Project:
    """Describe a model as a project."""
    changed_at = served.changed_at
    return Project(
        project_id=name,
        name=name,
        language=None,
        backend=Backend(backend_id="longtail"),
        is_trained=True,
        modification_time=None if changed_at is None else datetime.fromtimestamp(changed_at, UTC).isoformat(),
    )


def add_annif(
    app: FastAPI, name: str, served: ServedModel, limits: Limits, board: Board, store: FeedbackStore | None = None
) -> None:
    """Add the routes of one model; `learn` needs a store of feedback."""
    path = f"{PREFIX}/{name}"

    async def read_form(request: Request) -> SuggestForm:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise HTTPException(422, f"the body must be a form, sent with Content-Type: {_FORM}")
        return _parse_form(await request.body(), limits)

    @app.get(path)
    async def project() -> Project:
        """Describe the model."""
        return describe(name, served)

    @app.post(f"{path}/suggest", response_model=Suggestions, openapi_extra=_form_schema(limits))
    def suggest(form: Annotated[SuggestForm, Depends(read_form)]) -> Response:
        """Propose labels for one text."""
        snapshot = served.current
        tags = snapshot.tagger.tag([form.text], top_k=form.limit)[0]
        board.add_texts(1)
        results = [
            Suggestion(uri=tag.label, label=snapshot.name_of(tag.label, form.language) or tag.label, score=score)
            for tag in tags
            if (score := tag.unit_score) >= form.threshold and score > 0
        ]
        headers = {"Model-Version": snapshot.version}
        content = Suggestions(results=results).model_dump_json()
        return Response(content, media_type="application/json", headers=headers)

    refusals: Any = {status: {"model": ErrorResponse} for status in (409, 507)}

    @app.post(f"{path}/learn", status_code=204, responses=refusals)
    def learn(
        documents: Annotated[list[IndexedDocument], Body(min_length=1, max_length=limits.max_batch)],
    ) -> Response:
        """Store documents with all their labels as feedback, for `longtail learn`; the model stays as it is."""
        if store is None:
            raise HTTPException(403, "learning is off; start the service with --feedback")
        too_long = min(limits.max_text_chars, record.MAX_TEXT_CHARS)
        for number, document in enumerate(documents):
            if len(document.text) > too_long:
                raise HTTPException(422, f"{number}.text must have at most {too_long:,} characters")
        version = served.current.version
        found = [
            Feedback(
                text=document.text,
                added=tuple(dict.fromkeys(subject.uri for subject in document.subjects)),
                complete=True,
                author="annif",
                version=version,
            )
            for document in documents
        ]
        with http_errors():
            for feedback in found:
                store.add(feedback)
        return Response(status_code=204)


def _parse_form(body: bytes, limits: Limits) -> SuggestForm:
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"))
    except ValueError:
        raise HTTPException(422, f"the body must be a form in UTF-8 with at most {_MAX_FIELDS} fields") from None
    if "text" not in fields:
        raise HTTPException(422, "text must be given")
    return SuggestForm(
        text=fields["text"][: limits.max_text_chars],
        limit=min(_number(fields, "limit", int, _DEFAULT_LIMIT, 1, 2**31 - 1), limits.max_top_k),
        threshold=_number(fields, "threshold", float, 0.0, 0, 1),
        language=fields.get("language"),
    )


def _number(fields: dict[str, str], name: str, kind: type, default: float, least: float, greatest: float) -> Any:
    try:
        value = kind(fields.get(name, default))
    except ValueError:
        value = None
    if value is None or not least <= value <= greatest:
        what = "an integer" if kind is int else "a number"
        raise HTTPException(422, f"{name} must be {what} from {least} to {greatest}, got {fields[name][:40]!r}")
    return value


def _form_schema(limits: Limits) -> dict[str, Any]:
    properties = {
        "text": {"type": "string", "description": f"The first {limits.max_text_chars:,} characters count."},
        "limit": {"type": "integer", "minimum": 1, "description": f"At most {limits.max_top_k} labels are given."},
        "threshold": {"type": "number", "minimum": 0, "maximum": 1},
        "language": {"type": "string"},
    }
    schema = {"type": "object", "required": ["text"], "properties": properties}
    return {"requestBody": {"required": True, "content": {_FORM: {"schema": schema}}}}

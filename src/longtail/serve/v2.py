"""The V2 inference protocol (KServe, Triton): texts in, labels and scores out, as JSON.

The binary extension of the protocol is not there: texts and names gain nothing from it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, StrictInt, ValidationError

import longtail
from longtail._topk import Tag
from longtail.serve.board import Board
from longtail.serve.limits import Limits
from longtail.serve.model import ServedModel

PREFIX = "/v2/models"
_DEFAULT_TOP_K = 5


class Server(BaseModel):
    """What answers."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(BaseModel):
    """A tensor that the model takes or gives; -1 is any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """The tensors of a model. It has no `versions`: those are for routes that ask for one, which are not there."""

    name: str
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class InputTensor(BaseModel):
    """The texts."""

    name: Literal["text"]
    shape: list[StrictInt] = Field(min_length=1, max_length=2)
    datatype: Literal["BYTES"]
    data: list[str] | list[list[str]]


class RequestedOutput(BaseModel):
    """An output to return."""

    name: Literal["labels", "scores"]


class InferParameters(BaseModel):
    """Parameters of a request; others have no effect."""

    top_k: StrictInt | None = Field(None, ge=1, description="Labels per text.")


class InferRequest(BaseModel):
    """Texts to tag."""

    id: str | None = Field(None, max_length=200)
    inputs: list[InputTensor] = Field(min_length=1, max_length=1)
    outputs: list[RequestedOutput] = Field([], max_length=2)
    parameters: InferParameters = InferParameters(top_k=None)


class OutputTensor(BaseModel):
    """Labels or scores of each text, row by row; rows with fewer labels are filled up with "" and 0."""

    name: str
    shape: list[int]
    datatype: str
    data: list[str] | list[float]


class InferResponse(BaseModel):
    """The answer."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


def add_v2(app: FastAPI, name: str, served: ServedModel, limits: Limits, board: Board) -> None:
    """Add the routes of one model."""
    path = f"{PREFIX}/{name}"
    inputs = [TensorMetadata(name="text", datatype="BYTES", shape=[-1])]
    outputs = [TensorMetadata(name=one, datatype=kind, shape=[-1, -1]) for one, kind in _KINDS.items()]

    @app.get("/v2")
    async def server() -> Server:
        """Describe the service."""
        return Server(name="longtail", version=longtail.__version__, extensions=[])

    @app.get("/v2/health/live")
    @app.get("/v2/health/ready")
    @app.get(f"{path}/ready")
    async def ready() -> dict[str, Any]:
        """Report that the service is up; a model is loaded before the service starts."""
        return {}

    @app.get(path)
    async def metadata() -> ModelMetadata:
        """Describe the model."""
        return ModelMetadata(name=name, platform="longtail", inputs=inputs, outputs=outputs)

    @app.post(f"{path}/infer", response_model=InferResponse, openapi_extra=_body_schema(limits))
    def infer(request: Annotated[InferRequest, Depends(_read)]) -> Response:
        """Propose labels for texts."""
        texts = _texts(request.inputs[0], limits)
        top_k = request.parameters.top_k or min(_DEFAULT_TOP_K, limits.max_top_k)
        if top_k > limits.max_top_k:
            raise HTTPException(422, f"parameters.top_k must be at most {limits.max_top_k}, got {top_k}")
        snapshot = served.current
        rows = snapshot.tagger.tag(texts, top_k=top_k) if texts else []
        board.add_texts(len(texts))
        found: dict[str, Any] = {
            "labels": [tag.label for row in rows for tag in [*row, *[_NO_TAG] * (top_k - len(row))]],
            "scores": [_score(tag) for row in rows for tag in [*row, *[_NO_TAG] * (top_k - len(row))]],
        }
        wanted: list[str] = [one.name for one in request.outputs] or [*_KINDS]
        answer = InferResponse(
            model_name=name,
            model_version=snapshot.version,
            id=request.id,
            outputs=[
                OutputTensor(name=one, shape=[len(texts), top_k], datatype=_KINDS[one], data=found[one])
                for one in wanted
            ],
        )
        return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")


_KINDS = {"labels": "BYTES", "scores": "FP32"}
_NO_TAG = Tag("", 0.0)


async def _read(request: Request) -> InferRequest:
    """Read the body as JSON whatever its Content-Type: Triton's client sends none."""
    if "inference-header-content-length" in request.headers:
        raise HTTPException(422, "the binary extension is not supported; send texts as JSON (binary_data=False)")
    try:
        return InferRequest.model_validate_json(await request.body())
    except ValidationError as error:
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in error.errors()]) from None


def _score(tag: Tag) -> float:
    return tag.score if tag.proba is None else tag.proba


def _texts(tensor: InputTensor, limits: Limits) -> list[str]:
    """Read the texts; they may be a column, as batching clients send them."""
    texts = [text for part in tensor.data for text in ([part] if isinstance(part, str) else part)]
    n_texts = tensor.shape[0]
    if tensor.shape[1:] not in ([], [1]) or n_texts != len(texts):
        raise HTTPException(422, f"inputs.0.shape must be [{len(texts)}] or [{len(texts)}, 1], got {tensor.shape}")
    if n_texts > limits.max_batch:
        raise HTTPException(422, f"inputs.0.data must have at most {limits.max_batch} texts, got {n_texts}")
    if any(len(text) > limits.max_text_chars for text in texts):
        raise HTTPException(422, f"inputs.0.data: a text must have at most {limits.max_text_chars:,} characters")
    return texts


def _body_schema(limits: Limits) -> dict[str, Any]:
    text = {"type": "string", "maxLength": limits.max_text_chars}
    tensor = {
        "type": "object",
        "required": ["name", "shape", "datatype", "data"],
        "properties": {
            "name": {"const": "text"},
            "shape": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            "datatype": {"const": "BYTES"},
            "data": {"type": "array", "items": text, "maxItems": limits.max_batch},
        },
    }
    output = {"type": "object", "required": ["name"], "properties": {"name": {"enum": list(_KINDS)}}}
    top_k = {"type": "integer", "minimum": 1, "maximum": limits.max_top_k}
    schema = {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": "string", "maxLength": 200},
            "inputs": {"type": "array", "items": tensor, "minItems": 1, "maxItems": 1},
            "outputs": {"type": "array", "items": output, "maxItems": len(_KINDS)},
            "parameters": {"type": "object", "properties": {"top_k": top_k}},
        },
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}

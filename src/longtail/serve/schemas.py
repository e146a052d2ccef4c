"""Requests and answers. The bounds of the requests come from the service's limits and are part of the schema."""

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, create_model

from longtail.serve.limits import Limits

MAX_LABEL_CHARS = 10_000
MAX_FILTER_LABELS = 1_000
MAX_SEARCH_LABELS = 100

LabelName = Annotated[str, Field(max_length=MAX_LABEL_CHARS)]
Language = Annotated[str, Field(max_length=100)] | None
LabelNames = Annotated[list[LabelName], Field(max_length=MAX_FILTER_LABELS)]
# As longtail.decisions.parse_utility reads them; the power is checked there.
UTILITY = r"^(score|balanced|precision|psp|macro-f1|coverage|macro-f1-by-row|power:[0-9]{1,2}(\.[0-9]{1,6})?)$"
Threshold = Annotated[float, Field(allow_inf_nan=False)] | Literal["auto"]


_ARGUMENTS = ("top_k", "threshold", "include", "exclude", "below", "unseen", "parents", "utility", "max_loss")


class Request(BaseModel):
    """Base of requests: unknown fields are refused, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Choice(Request):
    top_k: int = Field(5, description="At most this many labels per text.")
    threshold: Threshold | None = Field(
        None,
        description='Only labels whose probability (or score, when the model is not calibrated) reaches this; "auto" '
        "takes the thresholds that were chosen in calibration.",
    )
    include: LabelNames | None = Field(None, description="Rank only these labels.")
    exclude: LabelNames | None = Field(None, description="Leave these labels out.")
    below: LabelName | None = Field(
        None, description="Only this label of the vocabulary (its id or a name) and those below it."
    )
    unseen: bool = Field(False, description="Also labels of the vocabulary without training texts, by their names.")
    parents: bool = Field(False, description="Also parents in the vocabulary whose children share the probability.")
    language: Language = Field(None, description="Language of the names of labels, for a model with a vocabulary.")
    utility: Annotated[str, Field(pattern=UTILITY)] | None = Field(
        None,
        description='What the ranking is to be good for: "precision" puts the most probable labels first, "psp" '
        'favours rare labels, "power:ALPHA" lies between ("power:0" is "precision", "power:1" is "psp"); "macro-f1" '
        'and "coverage" choose for all texts of a request together. Any but "score" needs a calibrated model. '
        'Default: "precision" for calibrated models, otherwise "score".',
        examples=["power:0.5"],
    )
    max_loss: Annotated[float, Field(ge=0, le=100)] | None = Field(
        None, description="The largest loss of expected precision at top_k, in points, that the utility may cost."
    )

    def filters(self) -> dict[str, Any]:
        """The arguments of tag_with_vocabulary besides the texts."""
        return {name: getattr(self, name) for name in _ARGUMENTS}


class TagRequest(_Choice):
    """One text to tag."""

    text: str


class TagBatchRequest(_Choice):
    """Several texts to tag."""

    texts: list[str]


class ExplainRequest(Request):
    """A text and the label to explain: any label of the model, proposed or not."""

    text: str
    label: LabelName
    language: Language = Field(None, description="Language of the name of the label.")


class ScoredLabel(BaseModel):
    """One proposed label."""

    label: str
    score: float = Field(description="The estimator's own score; any real number.")
    proba: float | None = Field(description="Calibrated probability; null when the model is not calibrated.")
    name: str | None = Field(description="Name in the vocabulary; null when the model has none.")


class TagResponse(BaseModel):
    """The labels of one text, best first."""

    labels: list[ScoredLabel]
    known_words: int = Field(description="Words of the text that the model knows; with 0 it proposes no labels.")


class TagBatchResponse(BaseModel):
    """The labels of each text, in the order of the texts."""

    rows: list[list[ScoredLabel]]
    known_words: list[int] = Field(description="Words of each text that the model knows; with 0 it proposes no labels.")


class Word(BaseModel):
    """What one word adds to the score."""

    word: str
    contribution: float
    spans: list[tuple[int, int]] = Field(description="Where it occurs in the text: begin and end, in characters.")


class ExplainResponse(BaseModel):
    """Why a label got its score; bias, contributions and rest add up to it."""

    label: str
    name: str | None = Field(description="Name in the vocabulary; null when the model has none.")
    score: float
    bias: float
    exact: bool = Field(description="Whether contributions are the terms of the score itself, not estimates.")
    words: list[Word] = Field(description="The words with the largest contributions, largest first.")
    rest: float = Field(description="Sum of the contributions of words that are not listed.")


class LabelsResponse(BaseModel):
    """Labels that match a search."""

    labels: list[str]
    counts: list[int] = Field(description="Training texts of each label.")
    names: list[str] | None = Field(description="Their names in the vocabulary; null when the model has none.")
    exact: str | None = Field(description="The label that has the whole query as its id or as one of its names.")


class TreeEntry(BaseModel):
    """One label of the vocabulary."""

    label: str
    name: str
    count: int = Field(description="Training texts of the label itself.")
    n_below: int = Field(description="Labels below it, at any depth.")


class TreeResponse(BaseModel):
    """Labels right below one of the vocabulary, by name; at the top those without a parent."""

    rows: list[TreeEntry]
    n_rows: int = Field(description="How many there are; at most a thousand are listed.")


class ExamplesResponse(BaseModel):
    """A few texts the model was trained on."""

    texts: list[str]


class ModelResponse(BaseModel):
    """The model card."""

    version: str = Field(description="Changes when another model is loaded.")
    card: dict[str, Any]
    feedback: bool = Field(description="Whether POST /api/feedback is there.")
    queue: bool = Field(description="Whether GET /api/queue is there.")
    languages: list[str] | None = Field(description="Languages of the vocabulary; null when the model has none.")
    language: str | None = Field(description="Language of names unless a request asks for another one.")
    unseen: bool = Field(description="Whether labels without training texts can be proposed.")
    models: list[str] = Field(description="All models of the service, if there are several; see GET /models.")


class ModelEntry(BaseModel):
    """One model of the service; its endpoints are below `path`."""

    name: str
    version: str
    path: str


class ModelsResponse(BaseModel):
    """The models of the service; the first is also at the root."""

    models: list[ModelEntry]


class HealthResponse(BaseModel):
    """The state of the service."""

    status: Literal["ok"]
    version: str
    last_reload_error: str | None = Field(description="Why the newest model could not be loaded.")


class ErrorResponse(BaseModel):
    """What went wrong."""

    error: str


class Requests(NamedTuple):
    """The request models of one service."""

    tag: type[TagRequest]
    tag_batch: type[TagBatchRequest]
    explain: type[ExplainRequest]


def bounded_requests(limits: Limits) -> Requests:
    """Derive request models that declare and check the limits of this service."""
    text = Annotated[str, Field(max_length=limits.max_text_chars)]
    texts = Annotated[list[text], Field(max_length=limits.max_batch)]
    top_k: Any = (Annotated[int, Field(ge=1, le=limits.max_top_k)], min(5, limits.max_top_k))
    return Requests(
        create_model("TagRequest", __base__=TagRequest, __doc__=TagRequest.__doc__, text=(text, ...), top_k=top_k),
        create_model(
            "TagBatchRequest",
            __base__=TagBatchRequest,
            __doc__=TagBatchRequest.__doc__,
            texts=(texts, ...),
            top_k=top_k,
        ),
        create_model("ExplainRequest", __base__=ExplainRequest, __doc__=ExplainRequest.__doc__, text=(text, ...)),
    )

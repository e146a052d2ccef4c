"""A server for the Model Context Protocol: assistants tag texts, ask why, and search labels."""

from __future__ import annotations

from os import PathLike
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

import longtail as lt
from longtail.tagging import takes_texts

_MAX_CHARS = 100_000
_MAX_LABELS = 100


def create_server(model: str | PathLike[str] | lt.Tagger) -> MCPServer:
    """Create the server; ``create_server("tags.model").run()`` speaks over standard input and output.

    Parameters
    ----------
    model : path of a saved Tagger, or a Tagger

    Returns
    -------
    MCPServer
    """
    tagger = lt.load(model) if isinstance(model, str | PathLike) else model
    if not takes_texts(tagger):
        raise TypeError(f"create_server: model must be a Tagger of texts, got {type(tagger).__name__}")
    vocabulary = tagger.vocabulary_

    def named(label: str) -> dict[str, Any]:
        """Put the name beside a label, which may be a URI."""
        return {"label": label} | ({} if vocabulary is None else {"name": vocabulary.name(label)})

    server = MCPServer("longtail", instructions=f"Tags texts with labels out of {tagger.n_labels_:,}.")

    @server.tool()
    def tag(
        text: str = Field(max_length=_MAX_CHARS, description="The text."),
        top_k: int = Field(5, ge=1, le=_MAX_LABELS, description="At most this many labels."),
    ) -> list[dict[str, Any]]:
        """Propose labels for a text, best first: label, score, and probability if the model is calibrated.

        A model with a vocabulary also gives the name of each label.
        """
        return [named(one.label) | one._asdict() for one in tagger.tag([text], top_k)[0]]

    @server.tool()
    def explain(
        text: str = Field(max_length=_MAX_CHARS, description="The text."),
        label: str = Field(description="A label of the model, proposed or not."),
        max_words: int = Field(20, ge=1, le=1000, description="At most this many words."),
    ) -> dict[str, Any]:
        """Say why a label fits a text or not: what each word adds to the score of the label."""
        try:
            found = tagger.explain(text, label, max_words=max_words)
        except ValueError as error:  # an unknown label: the message names similar ones
            raise ToolError(str(error)) from None
        words = [{"word": word.word, "contribution": word.contribution} for word in found.words]
        return named(found.label) | {"score": found.score, "bias": found.bias, "words": words, "rest": found.rest}

    @server.tool()
    def search_labels(
        query: str = Field(max_length=10_000, description="Part of a name."),
        limit: int = Field(20, ge=1, le=_MAX_LABELS, description="At most this many labels."),
    ) -> list[dict[str, str]]:
        """Find labels by a part of their name; frequent ones first."""
        return [named(label) for label in tagger.search_labels(query, limit)]

    return server

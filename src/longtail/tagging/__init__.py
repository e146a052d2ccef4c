"""Texts in, label names out: the Tagger, its vectorizer and its explanations."""

from typing import TypeGuard

from longtail._topk import Tag
from longtail.tagging.embeddings import register_embedding
from longtail.tagging.explanations import Explanation
from longtail.tagging.learning import Learnt
from longtail.tagging.tagger import Tagger
from longtail.tagging.vectorizer import TextVectorizer

__all__ = ["Explanation", "Learnt", "Tag", "Tagger", "TextVectorizer", "register_embedding", "takes_texts"]


def takes_texts(model: object) -> TypeGuard[Tagger]:
    """Say whether a model, or anything else, takes texts: whatever does has the methods of a Tagger."""
    return bool(getattr(model, "takes_texts", False))

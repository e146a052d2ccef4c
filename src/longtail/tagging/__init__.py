"""Texts in, label names out: the Tagger, its vectorizer and its explanations."""

from longtail.tagging.explanations import Explanation
from longtail.tagging.tagger import Tag, Tagger
from longtail.tagging.vectorizer import TextVectorizer

__all__ = ["Explanation", "Tag", "Tagger", "TextVectorizer"]

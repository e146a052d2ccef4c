"""Labels with names in several languages, alternatives and parents."""

from longtail.vocabulary.concepts import Concept, Vocabulary
from longtail.vocabulary.files import read_vocabulary

__all__ = ["Concept", "Vocabulary", "read_vocabulary"]

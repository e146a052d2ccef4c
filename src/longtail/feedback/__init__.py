"""Corrections of proposed labels: stored beside a model, read again to learn from them."""

from longtail.feedback.record import Feedback
from longtail.feedback.store import ConflictError, FeedbackStore, Stored, feedback_path

__all__ = ["ConflictError", "Feedback", "FeedbackStore", "Stored", "feedback_path"]

"""The HTTP service and its page; needs the extra ``longtail[serve]``."""

from longtail.serve.app import create_app
from longtail.serve.limits import Limits
from longtail.serve.server import is_loopback, serve

__all__ = ["Limits", "create_app", "is_loopback", "serve"]

"""The HTTP service and its page; needs the extra ``longtail[serve]``."""

from longtail.serve.app import create_app
from longtail.serve.limits import Limits
from longtail.serve.server import is_loopback, serve
from longtail.serve.several import ModelSettings, Service, find_models

__all__ = ["Limits", "ModelSettings", "Service", "create_app", "find_models", "is_loopback", "serve"]

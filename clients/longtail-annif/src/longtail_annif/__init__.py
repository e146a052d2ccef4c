"""A longtail backend for Annif. Point ANNIF_CONFIG at one of the configuration classes here to register it."""

import annif.backend
import annif.default_config


def _longtail():
    from longtail_annif.backend import LongtailBackend

    return LongtailBackend


# Annif has no entry point for backends: its table of constructors is the one place that knows them.
annif.backend._backend_fns["longtail"] = _longtail


class Config(annif.default_config.Config):
    """Annif's default configuration, with the longtail backend."""


class ProductionConfig(annif.default_config.ProductionConfig):
    """Annif's configuration for web servers, with the longtail backend: models are loaded at the start."""

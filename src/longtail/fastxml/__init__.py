"""FastXML, PfastXML and PfastreXML: ensembles of trees over features, with nDCG splits."""

from longtail.fastxml.estimator import FastXML
from longtail.fastxml.pfastrexml import PfastreXML, PfastXML

__all__ = ["FastXML", "PfastXML", "PfastreXML"]

"""Plans in wheels: what setuptools, hatchling and scikit-build-core need to build the models of [tool.stowplan]."""

from stowplan_setuptools.editable import rebuild

__all__ = ["rebuild"]

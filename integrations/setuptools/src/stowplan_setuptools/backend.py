"""The build backend of setuptools, with `-C stowplan.NAME=VALUE`: `build-backend = "stowplan_setuptools.backend"`.

setuptools passes no setting on to a plugin and ignores what it does not know; this one does, and refuses it.
"""

from __future__ import annotations

from setuptools import build_meta

from stowplan_setuptools.settings import Given, applied


def get_requires_for_build_wheel(config_settings: Given | None = None) -> list[str]:
    with applied(config_settings):
        return list(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_sdist(config_settings: Given | None = None) -> list[str]:
    with applied(config_settings):
        return list(build_meta.get_requires_for_build_sdist(config_settings))


def get_requires_for_build_editable(config_settings: Given | None = None) -> list[str]:
    with applied(config_settings):
        return list(build_meta.get_requires_for_build_editable(config_settings))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Given | None = None) -> str:
    with applied(config_settings):
        return str(build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Given | None = None) -> str:
    with applied(config_settings):
        return str(build_meta.prepare_metadata_for_build_editable(metadata_directory, config_settings))


def build_wheel(
    wheel_directory: str, config_settings: Given | None = None, metadata_directory: str | None = None
) -> str:
    with applied(config_settings):
        return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Given | None = None, metadata_directory: str | None = None
) -> str:
    with applied(config_settings):
        return str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Given | None = None) -> str:
    with applied(config_settings):
        return str(build_meta.build_sdist(sdist_directory, config_settings))

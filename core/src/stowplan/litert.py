"""`stowplan.litert.CompiledModel` and its kin: a short name for what the plugin stowplan-backend-litert has."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    try:
        import stowplan_backend_litert as plugin
    except ImportError as err:
        if name.startswith("__"):
            raise AttributeError(name) from err
        from stowplan.errors import PluginError

        raise PluginError("LiteRT's plugin is not installed: pip install stowplan-backend-litert[runtime]") from err
    return getattr(plugin, name)

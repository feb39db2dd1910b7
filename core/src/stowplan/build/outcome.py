"""What every compilation has in common, cached or not: who has to be there, what is warned of, what it gives back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from stowplan.build.artifact import Artifact
from stowplan.build.request import CompileRequest
from stowplan.build.telemetry import Telemetry
from stowplan.cache.entry import Entry
from stowplan.errors import UsageError
from stowplan.plugins.host import Host

MOST_TEXT = 500


def artifact_of(entry: Entry, key: str, cache: str, layer: str, telemetry: Telemetry) -> Artifact:
    return Artifact(
        key=key,
        document=entry.document,
        files=entry.files,
        metadata=entry.meta,
        cache=cache,
        layer=layer,
        timings_ns=dict(telemetry.durations_ns),
    )


def check_plugins(request: CompileRequest, plugins: Host) -> None:
    """Raise `PluginError` for names that nobody offers, before their absence becomes part of a key."""
    plugins.provider_version("scheduler", request.scheduler)
    plugins.provider_version("backend", request.backend)
    if request.compressor != "none":
        plugins.provider_version("compressor", request.compressor)
    for step in request.steps:
        if not step.name or not step.version:
            raise UsageError(f"step {step.name or step.run!r}: give it a name and a version, which are its identity")


@contextmanager
def diagnostics() -> Iterator[list[str]]:
    """Collect what is warned of in the block; a hit says it again."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)  # others as the user has them: most are for developers
        yield said
    said += dict.fromkeys(" ".join(str(warning.message).split())[:MOST_TEXT] for warning in caught)

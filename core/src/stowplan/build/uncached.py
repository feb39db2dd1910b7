"""A model compiled with no cache at all.

Apart from the incremental half, because the modules of the cache take as long to import as a small model to schedule.
"""

from __future__ import annotations

from stowplan.build.artifact import PLAN, Artifact
from stowplan.build.causes import compile_explaining
from stowplan.build.codec import facts_document
from stowplan.build.outcome import artifact_of, check_plugins, diagnostics
from stowplan.build.pipeline import Session
from stowplan.build.request import CompileRequest
from stowplan.build.telemetry import Telemetry
from stowplan.cache.entry import Entry
from stowplan.nouns import replace
from stowplan.plugins.host import Host, host


def compile_uncached(request: CompileRequest, telemetry: Telemetry, plugins: Host | None = None) -> Artifact:
    """Compile a model with nothing looked up and nothing kept. Raises what `compile_model` raises.

    No key is made: to find out who takes part costs a third of a small model's compilation. So the artifact has none.
    """
    plugins = plugins or host()
    check_plugins(request, plugins)
    with telemetry.span("compile", model=request.model_path.name), diagnostics() as said:
        result = compile_explaining(Session(request, plugins, telemetry=telemetry))
    meta = {"facts": facts_document(result.facts), "diagnostics": said}
    entry = Entry(document={}, files={PLAN: result.data}, meta=meta)
    return replace(artifact_of(entry, "", "off", "", telemetry), plan=result.plan)

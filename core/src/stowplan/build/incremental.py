"""Compiles only what changed: looks a model up by its bytes, then by its meaning, and stores what it had to make.

Two levels. The first key holds the model's bytes: a hit is the plan as it was written, and nothing is parsed. The
second holds the graph's meaning: a renamed tensor or another doc string still finds its schedule and its proof, and
only the plan file is written anew. Both give the bytes that a compilation without a cache would give.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stowplan.build import keys
from stowplan.build.artifact import PLAN, Artifact
from stowplan.build.codec import facts_document, numbering, runs_document, runs_of, schedule_document, schedule_of
from stowplan.build.identity import Identities
from stowplan.build.outcome import MOST_TEXT, artifact_of, check_plugins, diagnostics
from stowplan.build.request import CompileRequest
from stowplan.build.steps import steps_meta, warn_of_changed_code
from stowplan.build.telemetry import Telemetry
from stowplan.cache import key as cachekey
from stowplan.cache.digests import file_digest
from stowplan.cache.entry import Entry
from stowplan.cache.files import sha256
from stowplan.cache.layers import Layer, Layered
from stowplan.errors import InternalFault
from stowplan.flow.model import Model
from stowplan.nouns import dataclass, replace
from stowplan.plugins.host import Host, host

if TYPE_CHECKING:
    from stowplan.build.pipeline import CompileResult, Proven, Session
    from stowplan.flow.plan import Plan

CUT_SHORT = "the time limit ended the search, a longer one may give a smaller plan; this one is not kept in the cache"
_NOT_A_SCHEDULE = (InternalFault, IndexError, KeyError, ValueError, TypeError, AttributeError)
"""What the checker and the lowering raise for a schedule that somebody else put into the cache."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A request with what its key is made of: the model's bytes, and who takes part."""

    request: CompileRequest
    model: Model
    document: Mapping[str, Any]
    key: str
    identities: Identities
    external: tuple[Path, ...] = ()


def ask(
    request: CompileRequest,
    plugins: Host | None = None,
    model: Model | None = None,
    identities: Identities | None = None,
) -> Question:
    """Return the key of a request, for a model read before if given. Raises `ModelError` when it cannot be read.

    Many requests may share `identities`: then the tools are looked up once.
    """
    plugins = plugins or host()
    model = model or Model.read(request.model_path)
    check_plugins(request, plugins)
    external = external_files(model, plugins)
    identities = identities or Identities(plugins)
    digests = {path.name: file_digest(path) for path in external}
    document = keys.plan_document(request, model.digest, identities, digests)
    identities.save()
    key = cachekey.digest(document)
    return Question(request=request, model=model, document=document, key=key, identities=identities, external=external)


def compile_incremental(
    request: CompileRequest,
    cache: Layer | None,
    *,
    plugins: Host | None = None,
    telemetry: Telemetry | None = None,
    recache: bool = False,
    model: Model | None = None,
    identities: Identities | None = None,
) -> Artifact:
    """Return the plan of a model from the cache, or compile and store it. Raises what `compile_model` raises.

    Refusals and faults are never stored. With `recache` nothing is looked up and everything stored again; without a
    cache nothing is stored either.
    """
    plugins = plugins or host()
    telemetry = telemetry or Telemetry(plugins.event)
    with telemetry.span("lookup", model=request.model_path.name) as facts:
        question = ask(request, plugins, model, identities)
        if cache is None:
            return _Build(question, Layered([]), plugins, telemetry, recache).artifact("off")
        entry = None if recache else usable(cache.get(question.key))
        facts.update(key=question.key, found=entry is not None)
    if entry is not None:
        return _hit(entry, question, telemetry)
    with cache.alone(question.key):
        # Another process may have compiled it while this one waited.
        entry = None if recache else usable(cache.get(question.key))
        if entry is not None:
            return _hit(entry, question, telemetry)
        telemetry.event("miss", key=question.key, model=request.model_path.name)
        cache.note("miss", question.key)
        return _Build(question, cache, plugins, telemetry, recache).artifact()


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Every file a build depends on: the model with what lies beside it, by SHA-256, and the tools' files and folders.

    `key` is what the request's key is now.
    """

    key: str
    files: Mapping[Path, str]
    tools: tuple[str, ...]


def inputs_of(request: CompileRequest, plugins: Host | None = None) -> Inputs:
    """Return what to watch to notice that a request's result may have changed."""
    plugins = plugins or host()
    question = ask(request, plugins, identities=Identities(plugins, remembered=True))
    files = {request.model_path: question.model.digest, **{path: file_digest(path) for path in question.external}}
    return Inputs(key=question.key, files=files, tools=tuple(question.identities.watched))


def plan_again(request: CompileRequest, cache: Layer, artifact: Artifact, plugins: Host | None = None) -> Plan | None:
    """Return the plan whose bytes an artifact holds, from the schedule in the cache; None when that is not there."""
    plugins = plugins or host()
    return _Build(ask(request, plugins), cache, plugins, Telemetry(plugins.event), False).plan(artifact.data)


def usable(entry: Entry | None) -> Entry | None:
    """Return an entry that has what a plan's entry has; a forged one that lacks it is a miss."""
    if entry is None or PLAN not in entry.files or "facts" not in entry.meta:
        return None
    return entry


def may_have_external(path: Path, plugins: Host) -> bool:
    """Say whether some importer of this kind of file knows models that lie in several files."""
    suffix = path.suffix.lower()
    return any(offer.external and suffix in offer.suffixes for _, offer in plugins.offered("importer"))


def external_files(model: Model, plugins: Host) -> tuple[Path, ...]:
    """Return the files beside a model that hold a part of it, by importers that know such files."""
    if not may_have_external(model.path, plugins):
        return ()
    importer: Any = plugins.importer_for(model)
    find = getattr(importer, "external_files", None)
    return () if find is None else tuple(map(Path, find(model)))


class _Build:
    """One compilation after a miss."""

    def __init__(self, question: Question, cache: Layer, plugins: Host, telemetry: Telemetry, recache: bool) -> None:
        self.question = question
        self.cache = cache
        self.host = plugins
        self.telemetry = telemetry
        self.recache = recache
        self.layer = ""

    def artifact(self, status: str = "miss") -> Artifact:
        start = time.monotonic_ns()
        with self.telemetry.span("compile", key=self.question.key), diagnostics() as said:
            result = self._compiled()
        facts = facts_document(result.facts)
        cost_ns, steps = time.monotonic_ns() - start, steps_meta(self.question.request.steps)
        meta = {"facts": facts, "diagnostics": said, "cost_ns": cost_ns, "made_ns": time.time_ns(), **steps}
        entry = Entry(document=self.question.document, files={PLAN: result.data}, meta=meta)
        if self._tools_changed():
            self.telemetry.event("failure", key=self.question.key, reason="tools or model changed during the build")
        elif result.schedule.cut_short:
            said.append(CUT_SHORT)
            status = "off"
        else:
            self.cache.put(entry)
        return replace(artifact_of(entry, self.question.key, status, self.layer, self.telemetry), plan=result.plan)

    def _compiled(self) -> CompileResult:
        from stowplan.build.causes import compile_explaining
        from stowplan.build.pipeline import Session  # the heavy half, which a hit does not import

        question = self.question
        session = Session(question.request, self.host, model=question.model, telemetry=self.telemetry)
        document = self._schedule_document(session)
        key = cachekey.digest(document)
        with self.cache.alone(key):
            known = None if self.recache else self._known(self.cache.get(key), key, session)
            if known is not None:
                try:
                    result = compile_explaining(session, known)
                except _NOT_A_SCHEDULE as err:
                    # The checker or the lowering refused what the cache said: whoever wrote that, it is not used.
                    self._distrust(key, err)
                else:
                    self.layer = "graph"
                    return result
            result = compile_explaining(session)
            meta = {
                "schedule": schedule_document(result.schedule),
                "runs": runs_document(result.runs),
                "made_ns": time.time_ns(),
            }
            if not self._tools_changed() and not result.schedule.cut_short:
                self.cache.put(Entry(document=document, files={}, meta=meta))
            return result

    def plan(self, data: bytes) -> Plan | None:
        from stowplan.build.pipeline import Session
        from stowplan.planfile.writer import write_plan

        request = self.question.request
        session = Session(request, self.host, model=self.question.model, telemetry=self.telemetry)
        key = cachekey.digest(self._schedule_document(session))
        known = self._known(self.cache.get(key), key, session)
        if known is None:
            return None
        try:
            plan = replace(session.plan(request.target, request.compressor, known.schedule), proven=request.prove)
        except _NOT_A_SCHEDULE:
            return None
        return plan if write_plan(plan) == data else None

    def _known(self, entry: Entry | None, key: str, session: Session) -> Proven | None:
        from stowplan.build.pipeline import Proven

        if entry is None:
            return None
        try:
            schedule = schedule_of(entry.meta["schedule"], session.request.target)
            return Proven(schedule=schedule, runs=runs_of(entry.meta["runs"]))
        except (KeyError, TypeError, ValueError) as err:
            self._distrust(key, err)
            return None

    def _distrust(self, key: str, err: Exception) -> None:
        self.cache.remove(key)
        self.telemetry.event("failure", key=key, reason=f"the schedule in the cache is wrong: {err}"[:MOST_TEXT])

    def _schedule_document(self, session: Session) -> dict[str, Any]:
        numbers = sha256(cachekey.canonical({"numbers": numbering(session.graph)}))
        return keys.schedule_document(self.question.document, session.graph.digest, numbers, session.streamed)

    def _tools_changed(self) -> bool:
        """Say whether an input is not what the key says any more; what was made in between belongs to no key."""
        question = self.question
        digests = {path.name: file_digest(path) for path in question.external}
        return question.identities.changed() or digests != question.document["source"]["external"]


def _hit(entry: Entry, question: Question, telemetry: Telemetry) -> Artifact:
    telemetry.event("hit", key=question.key, model=question.model.name, layer=entry.layer)
    if question.request.steps:
        warn_of_changed_code(entry.meta, question.request.steps)
    return artifact_of(entry, question.key, "hit", entry.layer, telemetry)

"""Runs one job of a project: unchanged, restored, compiled or verified; never an exception, so others go on."""

from __future__ import annotations

import os
import time
from typing import Any

from stowplan.build import keys
from stowplan.build.artifact import PLAN, Artifact
from stowplan.build.identity import Identities
from stowplan.build.incremental import Question, ask, compile_incremental, may_have_external, usable
from stowplan.build.project import Job
from stowplan.build.telemetry import Event, Recorder, Telemetry
from stowplan.cache import subjects
from stowplan.cache.digests import Digests
from stowplan.cache.entry import Damaged
from stowplan.cache.layers import Layered
from stowplan.cache.store import Store
from stowplan.cli.output import check_output, write_file
from stowplan.errors import DoesNotFit, InternalFault, OutputError, StowplanError
from stowplan.nouns import dataclass, field, replace
from stowplan.plugins.host import Host, host

DIGESTS = "digests.json"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a job ended: unchanged (nothing written), restored (from a cache), built, verified, failed, skipped, waiting.

    Verified is built again and equal to what the cache has. The last is of a dry run; then `message` is what would be
    done. `code` is a failure's stable word.
    """

    name: str
    status: str
    output: str
    key: str = ""
    layer: str = ""
    reasons: tuple[str, ...] = ()
    message: str = ""
    code: str = ""
    exit_code: int = 0
    duration_ns: int = 0
    saved_ns: int = 0
    diagnostics: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    events: tuple[Event, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How jobs are to be run; plain data, so that it reaches other processes and machines."""

    recache: bool = False
    verify: bool = False
    dry_run: bool = False
    no_cache: bool = False
    read_only: bool = False
    traced: bool = False


class Workshop:
    """What the jobs of one process share: caches, plugins, and what is known of tools and files."""

    def __init__(self, terms: Terms, store: Store, cache: Layered | None, plugins: Host | None = None) -> None:
        self.terms = terms
        self.store = store
        self.cache = cache
        self.host = plugins or host()
        self.identities = Identities(self.host)
        self.digests = Digests(store.folder / DIGESTS)

    def unchanged(self, job: Job) -> Outcome | None:
        """Return the outcome of a job with nothing to do, None for every other; reads no file that did not move."""
        if (
            self.terms.recache
            or self.terms.verify
            or self.terms.no_cache
            or may_have_external(job.request.model_path, self.host)
        ):
            return None
        before = subjects.recall(self.store.folder, _subject(job))
        if before is None:
            return None
        model = self.digests.of(job.request.model_path)
        document = keys.plan_document(job.request, model, self.identities, {})
        key = before.key
        if subjects.compared(before, document) or not self._is_in_place(job, key):
            return None
        self.store.note("warm", key)
        inputs = (str(job.request.model_path), *self.identities.watched)
        return Outcome(name=job.name, status="unchanged", output=str(job.output), key=key, inputs=inputs)

    def run(self, job: Job) -> Outcome:
        """Do what a job needs, and say what that was."""
        start = time.monotonic_ns()
        recorder = Recorder()
        observers = [self.host.event, recorder] if self.terms.traced else [self.host.event]
        try:
            outcome = _Run(job, self, Telemetry(*observers, labels={"job": job.name})).outcome()
        except DoesNotFit as err:
            outcome = _failed(job, err.refusal, err)
        except StowplanError as err:
            outcome = _failed(job, str(err), err)
        except OSError as err:
            outcome = _failed(job, f"{job.output}: cannot be written: {err.strerror or err}", OutputError)
        except Exception as err:  # of a plugin, most likely: the other jobs are not to blame
            message = f"internal fault: {type(err).__name__}: {' '.join(str(err).split())[:300]}"
            outcome = _failed(job, message, InternalFault)
        return replace(outcome, duration_ns=time.monotonic_ns() - start, events=tuple(recorder.events))

    def finish(self) -> None:
        """Write down what was learnt, and wait for uploads."""
        self.identities.save()
        if not self.terms.read_only:
            self.digests.save()
        if self.cache is not None:
            self.cache.finish()

    def _is_in_place(self, job: Job, key: str) -> bool:
        """Say whether the output holds exactly what the cache has for a key."""
        try:
            record = self.store.record(key)
        except Damaged:
            return False
        return record is not None and PLAN in record.files and self.digests.of(job.output) == record.files[PLAN][0]


class _Run:
    def __init__(self, job: Job, shop: Workshop, telemetry: Telemetry) -> None:
        self.job = job
        self.terms = shop.terms
        self.cache = shop.cache
        self.store = shop.store
        self.host = shop.host
        self.identities = shop.identities
        self.telemetry = telemetry

    def outcome(self) -> Outcome:
        job = self.job
        question = ask(job.request, self.host, identities=self.identities)
        before = None if self.cache is None else subjects.recall(self.store.folder, _subject(job))
        reasons = subjects.compared(before, question.document)
        base = Outcome(
            name=job.name, status="built", output=str(job.output), key=question.key, inputs=_inputs(question)
        )
        if self.terms.dry_run:
            return replace(base, **self._forecast(question, reasons))
        return self._built(base, question, reasons)

    def _built(self, base: Outcome, question: Question, reasons: tuple[str, ...]) -> Outcome:
        self.job.output.parent.mkdir(parents=True, exist_ok=True)
        check_output(self.job.output, [self.job.request.model_path])
        artifact = self._compiled(question)
        write_file(self.job.output, artifact.data)
        if self.cache is not None and not self.terms.read_only:
            subjects.remember(self.store.folder, _subject(self.job), artifact.document, reasons)
        return replace(base, **self._ending(artifact, reasons))

    def _compiled(self, question: Question) -> Artifact:
        common: dict[str, Any] = {
            "plugins": self.host,
            "telemetry": self.telemetry,
            "model": question.model,
            "identities": self.identities,
        }
        if self.terms.verify and self.cache is not None:
            from stowplan.build.reproduce import compile_verified

            return compile_verified(self.job.request, self.cache, **common)
        return compile_incremental(self.job.request, self.cache, recache=self.terms.recache, **common)

    def _ending(self, artifact: Artifact, reasons: tuple[str, ...]) -> dict[str, Any]:
        if self.terms.verify:
            same = f"{self.job.output.name} equals the cached one"
            layer, diagnostics = artifact.layer, artifact.diagnostics
            return {"status": artifact.cache, "layer": layer, "reasons": (same,), "diagnostics": diagnostics}
        hit = artifact.cache == "hit"
        return {
            "status": "restored" if hit else "built",
            "layer": artifact.layer,
            "key": artifact.key,
            "reasons": ("--recache was given",) if self.terms.recache else reasons or ("its output was not in place",),
            "diagnostics": artifact.diagnostics,
            "saved_ns": int(artifact.metadata.get("cost_ns", 0)) if hit else 0,
        }

    def _forecast(self, question: Question, reasons: tuple[str, ...]) -> dict[str, Any]:
        entry = None if self.cache is None or self.terms.recache else usable(self.cache.get(question.key))
        would = "would be restored" if entry is not None else "would be built"
        return {"status": "waiting", "message": would, "reasons": reasons or ("its output is not in place",)}


def _subject(job: Job) -> str:
    return os.path.abspath(job.output)


def _inputs(question: Question) -> tuple[str, ...]:
    files = [question.request.model_path, *question.external]
    return (*map(str, files), *question.identities.watched)


def _failed(job: Job, message: str, kind: StowplanError | type[StowplanError]) -> Outcome:
    return Outcome(
        name=job.name, status="failed", output=str(job.output), message=message,
        code=kind.code, exit_code=kind.exit_code,
    )  # fmt: skip

"""Model to plan on one page: import, schedule, check, lower, pack, prove; and the facts the report is made of."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.build import survey
from stowplan.build.facts import Facts
from stowplan.build.passes import channels, pads, planes
from stowplan.build.planning import Lowering, PlanOptions, make_plan, packed, plan_compressed, plan_uncompressed
from stowplan.build.prove import prove, separate_schedule
from stowplan.build.request import POOL_NAMES, CompileRequest, Step
from stowplan.build.rows import Layout
from stowplan.build.telemetry import Telemetry
from stowplan.build.work import recompute_factor
from stowplan.errors import DoesNotFit, UnsupportedError, UsageError
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Target
from stowplan.nouns import dataclass, field, replace
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import Host, host
from stowplan.plugins.kinds import Metrics, ScheduleOptions
from stowplan.units import format_shape, format_size

__all__ = [
    "POOL_NAMES", "CompileRequest", "CompileResult", "Proven", "Session", "compile_model", "compile_session",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CompileResult:
    """A plan that passed checker and proof, with the nouns it was made from. `runs` is what each proof run cost."""

    graph: Graph
    target: Target
    schedule: Schedule
    plan: Plan
    data: bytes = field(repr=False)
    facts: Facts
    runs: tuple[Metrics, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Proven:
    """A schedule found before for the same graph, target and options, and what its proof runs cost (none: unproven)."""

    schedule: Schedule
    runs: tuple[Metrics, ...] = ()


BUILTIN_PASSES = (
    Step(name=pads.NAME, version=pads.VERSION, run=pads.fold_pads),
    Step(name=channels.NAME, version=channels.VERSION, run=channels.remove_channels),
)
"""What is done to every graph before it is scheduled; the report's rivals see it as it was imported."""
STEPS = 3
"""Runs in a row in which a model that keeps state is proven."""


MOST_ROWS = 1 << 20
"""Of one tensor: schedulers follow each row, and a model of a kilobyte may declare billions of them."""


class Session:
    """One model on its way: what has been found out so far, so that several budgets share the work."""

    def __init__(
        self,
        request: CompileRequest,
        plugins: Host | None = None,
        *,
        model: Model | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.request = request
        self.host = plugins or host()
        self.telemetry = telemetry or Telemetry(self.host.event)
        self.model = model or Model.read(request.model_path)
        importer = self.host.importer_for(self.model)
        with self.telemetry.span("parse", model=self.model.name, size_bytes=self.model.size_bytes):
            graph = importer.load(self.model, request.input_shapes)
        imported = self._passed(graph, request.steps)
        passed = self._passed(imported, BUILTIN_PASSES)
        self.streamed = streamed_inputs(passed, request.stream_inputs)
        self.graph = planes.arriving_pixels(passed, self.streamed)
        self.lowering = Lowering(self.graph)
        _check_rows(self.model, self.lowering.layout)
        self.facts = survey.model_facts(self.model, imported, request.target, self.host)
        self.facts = survey.streamed_facts(self.facts, self.lowering.layout, self.streamed)
        self.facts = replace(self.facts, notes=self.graph.notes, compressor=request.compressor, xip=request.xip)

    def plan(self, target: Target, compressor: str, known: Schedule | None = None) -> Plan:
        """Return a checked plan for a target, with a schedule known before or a new one. Raises `DoesNotFit`."""
        request = self.request
        if request.optimal and compressor != "none":
            raise UsageError(f"--optimal: leaves no room for -c {compressor} to choose stages in; give one of the two")
        options = PlanOptions(
            xip=request.xip,
            keep_names=request.keep_names,
            provenance=tuple(self._provenance(compressor).items()),
            schedule=ScheduleOptions(
                streamed_inputs=self.streamed,
                recompute=request.recompute,
                thorough=request.optimal,
                optimal=request.optimal,
                time_limit_s=request.time_limit_s,
            ),
        )
        packer = None if compressor == "none" else self.host.compressors()[compressor]
        if known is not None:
            plan = make_plan(self.model, self.lowering, known, options)
            return plan if packer is None else packed(plan, self.lowering, packer)
        scheduler = self.host.schedulers()[self.request.scheduler]
        with self.telemetry.span("schedule", model=self.model.name, scheduler=scheduler.name):
            if packer is None:
                return plan_uncompressed(self.model, self.lowering, target, scheduler, options)
            return plan_compressed(self.model, self.lowering, target, scheduler, options, packer)

    def prove(self, data: bytes, lowering: Lowering | None = None) -> tuple[Metrics, ...]:
        """Run a plan against the untiled schedule, of another graph than the session's where its lowering is given.

        Raises `ProofFailed`.
        """
        lowering = lowering or self.lowering
        graph = lowering.graph
        backend = self.host.backends()[self.request.backend]
        with self.telemetry.span("prove", model=self.model.name, backend=backend.name):
            untiled = make_plan(self.model, lowering, separate_schedule(graph), PlanOptions())
            return tuple(prove(backend, data, write_plan(untiled), graph.digest, in_a_row=STEPS if graph.states else 1))

    def _passed(self, graph: Graph, steps: tuple[Step, ...]) -> Graph:
        for step in steps:
            with self.telemetry.span("pass", model=self.model.name, step=step.name, version=step.version):
                graph = step.run(graph)
        return graph

    def _provenance(self, compressor: str) -> dict[str, object]:
        chosen = {"scheduler": self.request.scheduler, "compressor": compressor, "backend": self.request.backend}
        return {
            kind: self.host.provider_version(kind, name)
            for kind, name in chosen.items()
            if not (kind == "compressor" and name == "none")
        }


def streamed_inputs(graph: Graph, names: Sequence[str]) -> tuple[int, ...]:
    """Return the tensors of the named inputs in the order of the graph. Raises `UsageError` for what names none."""
    known = [graph.tensors[tensor].name for tensor in graph.entries]
    for name in names:
        if known.count(name) != 1:
            why = "is no input" if name not in known else f"names {known.count(name)} inputs"
            raise UsageError(f"--stream-input {name}: {why} of the model; its inputs are {', '.join(known)}")
        if names.count(name) > 1:
            raise UsageError(f"--stream-input {name}: is given twice")
    return tuple(tensor for tensor, name in zip(graph.entries, known, strict=True) if name in names)


def compile_model(request: CompileRequest, plugins: Host | None = None) -> CompileResult:
    """Fit a model into its budgets and prove the plan; nothing is written to disk.

    Raises `DoesNotFit` (with `facts` for the report) when a budget is not met, `ModelError` and `UnsupportedError` for
    models, `InternalFault` when the plan fails its checker or its proof.
    """
    return compile_session(Session(request, plugins))


def compile_session(session: Session, known: Proven | None = None) -> CompileResult:
    """Compile what a session holds; with a schedule known before, neither scheduling nor the proof is done again."""
    request, target = session.request, session.request.target
    try:
        plan = session.plan(target, request.compressor, known.schedule if known else None)
    except DoesNotFit as err:
        err.facts = survey.refused(session.facts, err)
        raise
    proven = replace(plan, proven=request.prove)
    with session.telemetry.span("serialize", model=session.model.name):
        data = write_plan(proven)
    facts = survey.plan_facts(session.facts, proven, data)
    facts = replace(facts, recompute=recompute_factor(session.graph, plan.graph))
    if request.flash_bytes is not None and len(data) > request.flash_bytes:
        too_large = DoesNotFit(
            f"the plan is {format_size(len(data))}, the flash budget is {format_size(request.flash_bytes)}",
            needed_bytes=len(data),
            budget_bytes=request.flash_bytes,
        )
        too_large.facts = facts
        raise too_large
    runs = () if not request.prove else known.runs if known else session.prove(data)
    facts = replace(facts, proof=survey.proof_line(runs))
    return CompileResult(
        graph=session.graph, target=target, schedule=plan.schedule, plan=proven, data=data, facts=facts, runs=runs
    )


def _check_rows(model: Model, layout: Layout) -> None:
    """Raise `UnsupportedError` for a tensor of so many rows that no schedule of them would ever be ready."""
    for tensor, form in layout.forms.items():
        if form.rows > MOST_ROWS:
            found = layout.graph.tensors[tensor]
            raise UnsupportedError(
                f'{model.name}: tensor "{found.name}" ({format_shape(found.shape)}) has {form.rows} rows; up to '
                f"{MOST_ROWS} are supported. Give it another shape, with longer rows"
            )

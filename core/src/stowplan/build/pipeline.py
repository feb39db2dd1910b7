"""Model to plan on one page: import, schedule, check, lower, pack, prove; and the facts the report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stowplan.build import survey
from stowplan.build.facts import Facts
from stowplan.build.planning import Lowering, PlanOptions, make_plan, plan_compressed, plan_uncompressed
from stowplan.build.prove import prove, separate_schedule
from stowplan.errors import DoesNotFit, UsageError
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Pool, Target
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import Host, host
from stowplan.plugins.kinds import Metrics, ScheduleOptions
from stowplan.units import format_size

POOL_NAMES = ("fast", "slow")


@dataclass(frozen=True, kw_only=True)
class CompileRequest:
    """What the caller wants. `pools` are (name, budget in bytes), fast first; no pools means no budget.

    The rows of the inputs named in `stream_inputs` arrive while the plan runs.
    """

    model_path: Path
    pools: tuple[tuple[str, int], ...] = ()
    flash_bytes: int | None = None
    compressor: str = "none"
    xip: bool = False
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    keep_names: bool = False
    prove: bool = True
    scheduler: str = "stream"
    backend: str = "c"
    stream_inputs: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        pools = self.pools or ((POOL_NAMES[0], 0),)
        sizes = [size if self.pools else None for _, size in pools]
        return Target(
            pools=tuple(Pool(name=name, size_bytes=size) for (name, _), size in zip(pools, sizes, strict=True)),
            flash_bytes=self.flash_bytes,
        )


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


class Session:
    """One model on its way: what has been found out so far, so that several budgets share the work."""

    def __init__(self, request: CompileRequest, plugins: Host | None = None) -> None:
        self.request = request
        self.host = plugins or host()
        self.model = Model.read(request.model_path)
        importer = self.host.importer_for(self.model)
        self.graph = importer.load(self.model, request.input_shapes)
        self.streamed = streamed_inputs(self.graph, request.stream_inputs)
        self.lowering = Lowering(self.graph)
        self.facts = survey.model_facts(self.model, self.graph, request.target, self.host)
        self.facts = survey.streamed_facts(self.facts, self.lowering.layout, self.streamed)
        self.facts = replace(self.facts, compressor=request.compressor, xip=request.xip)

    def plan(self, target: Target, compressor: str) -> Plan:
        """Return a checked plan for a target. Raises `DoesNotFit`."""
        scheduler = self.host.schedulers()[self.request.scheduler]
        options = PlanOptions(
            xip=self.request.xip,
            keep_names=self.request.keep_names,
            provenance=tuple(self._provenance(compressor).items()),
            schedule=ScheduleOptions(streamed_inputs=self.streamed),
        )
        if compressor == "none":
            return plan_uncompressed(self.model, self.lowering, target, scheduler, options)
        packer = self.host.compressors()[compressor]
        return plan_compressed(self.model, self.lowering, target, scheduler, options, packer)

    def prove(self, data: bytes) -> tuple[Metrics, ...]:
        """Run a plan against the untiled schedule. Raises `ProofFailed`."""
        backend = self.host.backends()[self.request.backend]
        untiled = make_plan(self.model, self.lowering, separate_schedule(self.graph), PlanOptions())
        return tuple(prove(backend, data, write_plan(untiled), seed=self.graph.digest))

    def _provenance(self, compressor: str) -> dict[str, object]:
        chosen = {"scheduler": self.request.scheduler, "compressor": compressor, "backend": self.request.backend}
        return {
            kind: self.host.provider_version(kind, name)
            for kind, name in chosen.items()
            if not (kind == "compressor" and name == "none")
        }


def streamed_inputs(graph: Graph, names: Sequence[str]) -> tuple[int, ...]:
    """Return the tensors of the named inputs in the order of the graph. Raises `UsageError` for what names none."""
    known = [graph.tensors[tensor].name for tensor in graph.inputs]
    for name in names:
        if known.count(name) != 1:
            why = "is no input" if name not in known else f"names {known.count(name)} inputs"
            raise UsageError(f"--stream-input {name}: {why} of the model; its inputs are {', '.join(known)}")
        if names.count(name) > 1:
            raise UsageError(f"--stream-input {name}: is given twice")
    return tuple(tensor for tensor, name in zip(graph.inputs, known, strict=True) if name in names)


def compile_model(request: CompileRequest, plugins: Host | None = None) -> CompileResult:
    """Fit a model into its budgets and prove the plan; nothing is written to disk.

    Raises `DoesNotFit` (with `facts` for the report) when a budget is not met, `ModelError` and `UnsupportedError` for
    models, `InternalFault` when the plan fails its checker or its proof.
    """
    return compile_session(Session(request, plugins))


def compile_session(session: Session) -> CompileResult:
    """Compile what a session holds."""
    request, target = session.request, session.request.target
    try:
        plan = session.plan(target, request.compressor)
    except DoesNotFit as err:
        err.facts = survey.refused(session.facts, err)
        raise
    proven = replace(plan, proven=request.prove)
    data = write_plan(proven)
    facts = survey.plan_facts(session.facts, proven, data)
    if request.flash_bytes is not None and len(data) > request.flash_bytes:
        too_large = DoesNotFit(
            f"the plan is {format_size(len(data))}, the flash budget is {format_size(request.flash_bytes)}",
            needed_bytes=len(data),
            budget_bytes=request.flash_bytes,
        )
        too_large.facts = facts
        raise too_large
    runs = session.prove(data) if request.prove else ()
    facts = replace(facts, proof=survey.proof_line(runs))
    return CompileResult(
        graph=session.graph, target=target, schedule=plan.schedule, plan=proven, data=data, facts=facts, runs=runs
    )

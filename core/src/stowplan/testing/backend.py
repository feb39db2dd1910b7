"""What every backend has to hold; results are compared with a reference that shares no code with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from math import prod
from pathlib import PurePosixPath

from stowplan.build.prove import random_bytes
from stowplan.errors import PlanError, StowplanError, UsageError
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.graph import Graph
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Availability, Compiled, Coverage, Metrics, SourceOptions
from stowplan.testing import reference, samples
from stowplan.testing.conformance import Conformance
from stowplan.testing.faults import Fault, skip
from stowplan.testing.graphs import GRAPHS

POISONS = (0xA5, 0x00, 0x7F)


class BackendConformance(Conformance):
    """`supports_plans`: whether it runs plans; `supports_sources`: whether it generates code from them."""

    kind = "backend"
    supports_plans: bool | None = None
    supports_sources: bool | None = None

    def ready(self) -> None:
        """Skip what needs the backend to work on this machine."""
        found = self.ask("available()", self.record.available)
        if isinstance(found, Availability) and not found.ok:
            skip(f"does not work on this machine: {found.why}")

    def covered(self) -> dict[str, Graph]:
        """Return the graphs of the kit that it takes as a whole. Skips where there are none."""
        self.ready()
        if self.supports_plans is False:
            skip("supports_plans is False: it runs no plans")
        graphs = {name: make() for name, make in GRAPHS.items()}
        found = {name: graph for name, graph in graphs.items() if not self.coverage(graph).reasons}
        if not found:
            skip("it takes none of the kit's graphs as a whole")
        if self.supports_plans is None:
            graph = next(iter(found.values()))
            try:
                self.opened(graph, allowed=True).close()
            except StowplanError as err:
                skip(f"runs no plans: {err}")
        return found

    def coverage(self, graph: Graph) -> Coverage:
        call, before = f"coverage({graph.name})", samples.snapshot(graph)
        found = self.ask(call, self.record.coverage, graph)
        if not isinstance(found, Coverage):
            raise Fault(f"{call} returned {type(found).__name__}. Return stowplan.plugins.kinds.Coverage.")
        if samples.snapshot(graph) != before:
            raise Fault(f"{call} changed the graph. Leave it alone.")
        return found

    def opened(self, graph: Graph, poison: int = 0xA5, allowed: bool = False) -> Compiled:
        allow = (StowplanError,) if allowed else ()
        call = f"compile(plan of {graph.name})"
        found: Compiled = self.ask(call, self.record.compile, samples.plan_of(graph), poison, allow=allow)
        return found

    def ran(self, graph: Graph, compiled: Compiled, inputs: list[bytes]) -> list[bytes]:
        call, before = f"run({graph.name})", [bytes(bytearray(data)) for data in inputs]
        found = self.ask(call, compiled.run, inputs)
        if inputs != before:
            raise Fault(f"{call} wrote into its inputs. Copy them into the arena.")
        wanted = [port.size_bytes for port in compiled.outputs]
        if not isinstance(found, list) or not all(isinstance(data, bytes) for data in found):
            raise Fault(f"{call} returned no list of bytes. Return one entry for each output.")
        if [len(data) for data in found] != wanted:
            raise Fault(f"{call} returned {[len(data) for data in found]} bytes, its output ports say {wanted}.")
        return found

    @staticmethod
    def inputs(compiled: Compiled, seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [random_bytes(port, rng) for port in compiled.inputs]

    def answers(self) -> Iterator[str]:
        for name, graph in self.covered().items():
            with closing(self.opened(graph)) as compiled:
                outputs = self.ran(graph, compiled, self.inputs(compiled, 0))
                yield f"{name}: {samples.digest(b''.join(outputs))}"

    def test_says_whether_it_works_here(self) -> None:
        found = self.ask("available()", self.record.available)
        if not isinstance(found, Availability):
            raise Fault(f"available() returned {type(found).__name__}. Return stowplan.plugins.kinds.Availability.")
        if not found.ok and (not found.why.strip() or "\n" in found.why):
            raise Fault(
                f"available() says no because of {found.why!r:.200}. Say in one line what is missing and how to get it."
            )

    def test_names_its_accelerators(self) -> None:
        self.ready()
        found = self.ask("accelerators()", self.record.accelerators)
        if not isinstance(found, tuple) or not found or not all(isinstance(name, str) and name for name in found):
            raise Fault(f'accelerators() returned {found!r:.200}. Return a tuple of names, ("cpu",) for plain kernels.')

    def test_takes_or_leaves_each_operator_and_says_why(self) -> None:
        for make in GRAPHS.values():
            graph = make()
            found, numbers = self.coverage(graph), set(range(len(graph.operators)))
            if set(found.taken) | set(found.reasons) != numbers or set(found.taken) & set(found.reasons):
                raise Fault(
                    f"coverage({graph.name}) takes {sorted(found.taken)} and leaves {sorted(found.reasons)} of "
                    f"{len(numbers)} operators. Put each into exactly one of the two."
                )
            if not all(isinstance(why, str) and why.strip() for why in found.reasons.values()):
                raise Fault(f"coverage({graph.name}) leaves an operator without a reason.")

    def test_compiles_what_it_takes_and_declines_the_rest(self) -> None:
        covered = self.covered()
        for name, make in GRAPHS.items():
            graph = make()
            try:
                self.opened(graph, allowed=True).close()
            except StowplanError as err:
                if name in covered:
                    raise Fault(
                        f"coverage({name}) takes all operators, and compile() says: {err}. Let both agree."
                    ) from err

    def test_results_match_the_reference(self) -> None:
        other = host().backends().get("c") if "c" in host().backends() and self.record.name != "c" else None
        if other is not None and not other.available().ok:
            other = None
        for graph in self.covered().values():
            with closing(self.opened(graph)) as compiled:
                for seed in range(3):
                    inputs = self.inputs(compiled, seed)
                    wanted = reference.run(graph, inputs)
                    if wanted is None and other is not None:
                        with closing(other.compile(samples.plan_of(graph))) as judge:
                            wanted = judge.run(inputs)
                    if wanted is not None:
                        self._compare(graph, self.ran(graph, compiled, inputs), wanted)

    @staticmethod
    def _compare(graph: Graph, got: list[bytes], wanted: list[bytes]) -> None:
        for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
            count = sum(a != b for a, b in zip(mine, theirs, strict=True))
            if count:
                raise Fault(
                    f"run({graph.name}): {count} of {len(theirs)} bytes of output {number} differ from the reference. "
                    "Follow the formulas of stowplan.planfile.kinds to the bit, or take less in coverage()."
                )

    def test_ports_are_those_of_the_plan(self) -> None:
        for graph in self.covered().values():
            with closing(self.opened(graph)) as compiled:
                ports, tensors = (*compiled.inputs, *compiled.outputs), (*graph.entries, *graph.exits)
                for port, number in zip(ports, tensors, strict=True):
                    tensor = graph.tensors[number]
                    if (port.shape, port.dtype) != (tensor.shape, tensor.dtype):
                        raise Fault(
                            f"a port of {graph.name} is {port.dtype} {port.shape}, "
                            f"its tensor {tensor.dtype} {tensor.shape}."
                        )
                    if port.size_bytes != prod(port.shape) * SIZE_BYTES[port.dtype]:
                        raise Fault(
                            f"a port of {graph.name} says {port.size_bytes} bytes, {tensor.size_bytes} is true."
                        )

    def test_runs_do_not_depend_on_each_other(self) -> None:
        for graph in self.covered().values():
            with closing(self.opened(graph)) as one, closing(self.opened(graph)) as two:
                first, second = self.inputs(one, 1), self.inputs(one, 2)
                alone = self.ran(graph, one, first)
                wanted = self.ran(graph, two, second)
                if self.ran(graph, one, first) != alone:
                    raise Fault(
                        f"run({graph.name}) changes after another model has run. Give each Compiled memory of its own."
                    )
                if self.ran(graph, one, second) != wanted or self.ran(graph, one, first) != alone:
                    raise Fault(f"run({graph.name}) depends on the run before it. Only a plan's states may.")

    def test_unwritten_memory_does_not_show(self) -> None:
        for graph in self.covered().values():
            seen = set()
            for poison in POISONS:
                with closing(self.opened(graph, poison)) as compiled:
                    seen.add(tuple(self.ran(graph, compiled, self.inputs(compiled, 3))))
            if len(seen) > 1:
                raise Fault(f"run({graph.name}) depends on what memory held before. It reads what nobody wrote.")

    def test_refuses_wrong_inputs(self) -> None:
        for graph in self.covered().values():
            with closing(self.opened(graph)) as compiled:
                good = self.inputs(compiled, 4)
                for what, bad in {
                    "no inputs": [],
                    "one too many": [*good, b"x"],
                    "one too short": [good[0][:-1], *good[1:]],
                }.items():
                    try:
                        self.ask(f"run({graph.name}, {what})", compiled.run, bad, allow=(StowplanError,))
                    except StowplanError:
                        continue
                    raise Fault(f"run({graph.name}, {what}) ran. Raise RuntimeFailure.")

    def test_refuses_damaged_plans(self) -> None:
        graph = next(iter(self.covered().values()))
        plan, rng = samples.plan_of(graph), random.Random(6)
        damaged = {
            "no bytes": b"",
            "text": b"hello",
            "a cut plan": plan[: len(plan) // 2],
            "a longer plan": plan + b"\0",
        }
        for number in range(20):
            data = bytearray(plan)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            damaged[f"bit flip {number}"] = bytes(data)
        for what, changed in damaged.items():
            try:
                self.ask(f"compile({what})", self.record.compile, changed, 0xA5, allow=(PlanError,))
            except PlanError:
                continue
            raise Fault(f"compile({what}) took it. Check the plan's digest (stowplan.planfile.reader.read_plan does).")

    def test_measures_its_runs_and_closes_twice(self) -> None:
        graph = next(iter(self.covered().values()))
        compiled = self.opened(graph)
        inputs = self.inputs(compiled, 5)
        outputs, metrics = self.ask(f"run_with_metrics({graph.name})", compiled.run_with_metrics, inputs)
        if outputs != self.ran(graph, compiled, inputs):
            raise Fault(f"run_with_metrics({graph.name}) gives other bytes than run().")
        if not isinstance(metrics, Metrics) or type(metrics.duration_ns) is not int or metrics.duration_ns < 0:
            raise Fault(f"run_with_metrics({graph.name}) returned {metrics!r:.200}. Return Metrics, durations in ns.")
        for _ in range(2):
            self.ask("close()", compiled.close)

    def test_generates_the_same_sources_or_refuses_to(self) -> None:
        graph = GRAPHS["relu"]()
        plan, options = samples.plan_of(graph), SourceOptions(name="kit")
        try:
            found = self.ask("generate(plan of relu)", self.record.generate, plan, options, allow=(StowplanError,))
        except StowplanError as err:
            if self.supports_sources:
                raise Fault(f"generate(plan of relu) says: {err}. supports_sources is True.") from err
            skip(f"generates no sources: {err}")
        for name, data in found.items():
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not isinstance(data, bytes):
                raise Fault(
                    f"generate() returned {name!r:.100}: {type(data).__name__}. Return relative names and bytes."
                )
        if self.ask("generate(plan of relu)", self.record.generate, plan, options) != found:
            raise Fault("generate() gives other files the second time. Use no clock, no counter and no absolute path.")
        try:
            unknown = SourceOptions(name="kit", format="no-such-format")
            self.ask("generate(format=no-such-format)", self.record.generate, plan, unknown, allow=(UsageError,))
        except UsageError:
            return
        raise Fault("generate(format=no-such-format) took it. Raise UsageError with the formats there are.")

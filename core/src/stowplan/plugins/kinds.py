"""The kinds of plugin: what an importer, scheduler, compressor, backend and profiler can do.

Each kind is a Protocol: a plugin's hook returns records that have these attributes and methods, and nothing here is
inherited from. `name` is what users type and is unique per kind; `summary` is one line for `stowplan plugins list`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from stowplan.nouns import dataclass, field
from stowplan.plugins.records import Acceleration as Acceleration
from stowplan.plugins.records import Metrics as Metrics
from stowplan.plugins.records import Port as Port
from stowplan.plugins.records import Share as Share

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.flow.model import Model
    from stowplan.flow.schedule import Schedule
    from stowplan.flow.target import Target

CONTRACT = 1
"""Goes up only when a plugin written for the previous number would break.

A plugin's module may say `STOWPLAN_CONTRACT = 1`, the number it was written for; without it, it was written for 1.
"""
OLDEST_CONTRACT = 1
"""Plugins written for an older one no longer work."""


class Offer(Protocol):
    """What every record has."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...


class Importer(Offer, Protocol):
    """Reads one model format.

    One whose models may keep a part of themselves in other files also has `external_files(model)`, which returns the
    paths of those that a model names: they belong to the model's cache key and to its list of inputs.

    It may have `oracles()`: pairs of a package's name and a function that opens a model's bytes in that runtime and
    returns what runs it (`inputs -> outputs`, as bytes); `stowplan verify` compares plans with those. And it may have
    `witnesses()`: pairs of a package's name and a function that opens a `Model`, where one run returns the bytes of all
    tensors by the names they have in the graph; `stowplan verify -v` finds the first operator that differs with those.
    One whose graphs do not keep the model's tensors as they are also has `exposed(model)`: the model with all of them
    among its outputs, in the order in which they are made.
    """

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name endings with their dot, lower case."""
        ...

    def sniff(self, data: bytes) -> bool:
        """Say by content whether this is a file of this format; must be quick and never raise."""
        ...

    def load(self, model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """Return the model's graph, free dimensions bound to `input_shapes` or else to 1 (with a note).

        Raises `ModelError` for damaged files, `UnsupportedError` naming everything unsupported at once, `UsageError`
        for a name in `input_shapes` that is no input or a shape that does not match it.
        """
        ...

    def describe(self, model: Model) -> Description:
        """Return what the file holds, without converting it. Raises `ModelError` for damaged files only."""
        ...


@dataclass(frozen=True, kw_only=True)
class OperatorFact:
    """One operator as the file has it; `weight_bytes` are its constant inputs, `reason` why it does not convert."""

    index: int
    kind: str
    name: str
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    weight_bytes: int = 0
    macs: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Description:
    """What `stowplan inspect` says of a model file; shapes keep free dimensions as -1.

    `largest` are the largest activations: name, shape, dtype and bytes, with free dimensions bound to 1.
    """

    format: str
    version: str
    inputs: tuple[tuple[str, tuple[int, ...], str], ...]
    outputs: tuple[tuple[str, tuple[int, ...], str], ...]
    operators: tuple[OperatorFact, ...]
    subgraph_count: int
    weight_bytes: int
    quantization: Mapping[str, int] = field(default_factory=dict)
    signatures: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    largest: tuple[tuple[str, tuple[int, ...], str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScheduleOptions:
    """What a scheduler may be asked beside graph and target.

    `weights_reserved_bytes` at the start of the fast pool are not the scheduler's to use. No stage may hold operators
    with more than `stage_weight_bytes` of constants together, unless a single one has more. The rows of
    `streamed_inputs` (tensor indices) arrive while the plan runs and never lie in memory as a whole. With `thorough` a
    scheduler looks for the least memory rather than for the first schedule that fits, and with `optimal` as well it
    goes on far beyond its usual limits. Those count steps, never seconds: equal inputs give equal schedules. Only
    `time_limit_s` may end a search early, and the schedule is then marked `cut_short`.
    Up to `recompute` times the arithmetic may be done where that saves memory; streamed inputs may then arrive several
    times.
    """

    weights_reserved_bytes: int = 0
    stage_weight_bytes: int | None = None
    streamed_inputs: tuple[int, ...] = ()
    thorough: bool = False
    optimal: bool = False
    time_limit_s: float | None = None
    recompute: float = 1.0


class Scheduler(Offer, Protocol):
    """Decides order, regions and memory."""

    @property
    def version(self) -> str:
        """Changes whenever the same input may give another schedule; part of every cache key."""
        ...

    def schedule(self, graph: Graph, target: Target, options: ScheduleOptions) -> Schedule:
        """Return a schedule that fits the target's pools. Raises `DoesNotFit` with the cause."""
        ...


class Compressor(Offer, Protocol):
    """Packs constants; the runtime unpacks them with the C decoder of the same name."""

    @property
    def version(self) -> str: ...

    def compress(self, data: bytes) -> bytes:
        """Return the packed form, possibly longer than `data`."""
        ...

    def decompress(self, data: bytes, size_bytes: int) -> bytes:
        """Return the `size_bytes` that were packed. Raises `ValueError` when `data` is no packed form of that size."""
        ...


class Compiled(Protocol):
    """A model ready to run. Not safe for two threads at once unless the backend says so."""

    @property
    def inputs(self) -> tuple[Port, ...]: ...
    @property
    def outputs(self) -> tuple[Port, ...]: ...

    @property
    def fully_accelerated(self) -> bool:
        """Whether every operator ran on the accelerator that was asked for."""
        ...

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        """Run once. Inputs and outputs are the tensors' bytes in the order of the ports.

        Raises `RuntimeFailure` for a wrong number or size of inputs, `InternalFault` when memory outside the plan's
        arenas was touched.
        """
        ...

    def run_with_metrics(self, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Whether a backend works on this machine; `why` says what is missing and how to get it."""

    ok: bool
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Which operators (graph indices) a backend takes; `reasons` maps those it leaves to why."""

    taken: tuple[int, ...]
    reasons: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How C is to be generated: `app` is a program with main(), `core` a source and a header to link.

    `package` names a build system or ecosystem to wrap a core for ("" for none), `weights` where the plan's bytes go,
    `specialize` which nodes get functions of their own, `kernels` whose instructions they use: the choices are the
    backend's, and what it does not know is a `UsageError`. With `selftest` the code can check itself.
    """

    name: str
    format: str = "core"
    package: str = ""
    weights: str = "inline"
    specialize: str = "none"
    kernels: str = "auto"
    selftest: bool = True


class Backend(Offer, Protocol):
    """Runs plans, or generates what runs them.

    One whose runs depend on this machine also has `host_identity()`, which returns what they depend on (names and words
    for cache keys: a compiler, a processor) and the files to watch to notice that it changed.
    """

    @property
    def version(self) -> str: ...

    def available(self) -> Availability: ...

    def accelerators(self) -> tuple[str, ...]:
        """Names of the accelerators present here; ("cpu",) for plain kernels."""
        ...

    def coverage(self, graph: Graph) -> Coverage: ...

    def compile(self, plan: bytes, poison: int = 0xA5) -> Compiled:
        """Load a plan. Unwritten arena memory is filled with `poison`. Raises `PlanError` when the plan is refused."""
        ...

    def generate(self, plan: bytes, options: SourceOptions) -> Mapping[str, bytes]:
        """Return source files by name, or by path in a package. Raises `PlanError` when the plan is refused."""
        ...


@dataclass(frozen=True, kw_only=True)
class BoardOptions:
    """Which board, and the product it stands for: its flash and RAM (None: all that the board has) and its stack.

    `optimize` is the compiler's level; `kernels` is "own" for the core's own kernel set or "portable" for plain C.
    """

    board: str
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    stack_bytes: int = 4096
    optimize: str = "O2"
    kernels: str = "own"


@dataclass(frozen=True, kw_only=True)
class OperatorCount:
    """What one node of a plan cost in one run; `operator` is its number in the model, 65535 for a copy."""

    operator: int
    kind: str
    firings: int
    instructions: int


@dataclass(frozen=True, kw_only=True)
class BoardReport:
    """What one run on a board used. `opening_stack_bytes` is what the check of the plan took before it."""

    board: str
    core: str
    instructions: int
    stack_bytes: int
    opening_stack_bytes: int
    fast_used_bytes: int
    slow_used_bytes: int
    flash_bytes: int
    ram_bytes: int
    operators: tuple[OperatorCount, ...] = ()


class BoardCompiled(Compiled, Protocol):
    """A plan as firmware of a board."""

    def measure(self, inputs: Sequence[bytes], each: bool = False) -> tuple[list[bytes], BoardReport]:
        """Run once; with `each` the report has the operators. Raises `DoesNotFit` when the product is too small."""
        ...


class BoardBackend(Backend, Protocol):
    """A backend that runs plans on boards, emulated or attached. Found by its method `boards`."""

    def boards(self) -> Mapping[str, str]:
        """Return the boards by name, each with the core it has."""
        ...

    def compile_on(self, plan: bytes, options: BoardOptions) -> BoardCompiled:
        """Make firmware of a plan. Raises `UsageError` for an unknown board, `RuntimeFailure` for missing tools."""
        ...


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How a backend is to compile a model file. `accelerators` are in the caller's order of preference.

    `device` names one of several that an accelerator could use, in the backend's own words; "" leaves it to it.
    `isolated` asks for a process of its own, so that a driver's crash is an error here and no crash.
    """

    accelerators: tuple[str, ...] = ("cpu",)
    precision: str = "default"
    profile: bool = False
    signature: int | str = 0
    threads: int = 1
    device: str = ""
    isolated: bool = False


class Accelerated(Compiled, Protocol):
    """A model that a backend compiled by itself, and what its accelerators took.

    One whose code is for another machine, and cannot run here, also has `estimate`: the `Metrics` that its compiler
    expects of a run there. `stowplan accelerate` and `stowplan profile` then show those and run nothing.
    """

    @property
    def acceleration(self) -> Acceleration: ...


class ModelBackend(Backend, Protocol):
    """A backend that compiles model files by itself, without a plan. Found by its method `load_model`."""

    def load_model(self, model: Model, options: LoadOptions) -> Accelerated:
        """Compile a model for the first accelerator that takes any of it. Raises `ModelError`, `RuntimeFailure`."""
        ...

    def toolchain(self, vendor: str) -> Mapping[str, str]:
        """Return the tools that `precompile` uses for a vendor, by name, with what tells their versions apart."""
        ...

    def partition(self, model: Model, vendor: str, options: LoadOptions) -> Partitioning:
        """Say what a vendor's compiler would take, without compiling. Raises `RuntimeFailure`."""
        ...

    def precompile(self, model: Model, vendor: str, options: LoadOptions) -> Precompiled:
        """Compile ahead of time with a vendor's kit. Raises `RuntimeFailure` that says which part of it is missing."""
        ...


@dataclass(frozen=True, kw_only=True)
class Partitioning:
    """How many of a model's operators an accelerator takes, in how many connected parts."""

    operators: int
    taken: int
    partitions: int


@dataclass(frozen=True, kw_only=True)
class Precompiled:
    """A model with parts compiled ahead of time, as a new file."""

    data: bytes = field(repr=False)
    counts: Partitioning


@dataclass(frozen=True, kw_only=True)
class ProfileEvent:
    """One timed thing. `kind` is operator, delegate_operator, delegate_profiled, run or what else a profiler has.

    Starts count from the first event; `estimated` means that the start was added up from durations. `index` is the
    profiler's number for the operator, or -1.
    """

    name: str
    kind: str
    start_ns: int
    duration_ns: int
    index: int = -1
    estimated: bool = False


@dataclass(frozen=True, kw_only=True)
class ProfileTotal:
    """What all runs spent in one thing: a kind of operator, or with `order` the order-th operator of each run."""

    name: str
    kind: str
    count: int
    duration_ns: int
    order: int = -1
    index: int = -1


class Profile(Protocol):
    """The recording of one compiled model. Runs count only between `resume` and `pause`."""

    @property
    def note(self) -> str:
        """What the recording cannot say and why; "" when nothing is missing."""
        ...

    def resume(self) -> None: ...
    def pause(self) -> None: ...
    def pending(self) -> int: ...

    def events(self, limit: int) -> Sequence[ProfileEvent]:
        """Return the most recent `limit` events, oldest first; all that are kept when it is 0."""
        ...

    def reset(self) -> None: ...

    def by_kind(self) -> Sequence[ProfileTotal]:
        """Return totals per kind of operator, slowest first."""
        ...

    def by_operator(self) -> Sequence[ProfileTotal]:
        """Return totals per operator, in the order of a run."""
        ...


class Profiler(Offer, Protocol):
    """Times what a compiled model does, operator by operator."""

    @property
    def cost_bytes(self) -> int:
        """Memory that recording takes at once, to be said before."""
        ...

    def attach(self, compiled: Compiled) -> Profile:
        """Return the recording of a model, paused. Raises `RuntimeFailure` for a model that it cannot record."""
        ...

"""Which accelerator a model ended up on: tried in the caller's order, counted without the CPU, with the reasons.

LiteRT takes a set of accelerators, knows no order, fails outright when the GPU has no device although the CPU was
allowed, and calls a model fully accelerated when the CPU's own delegate took it. So the order, the fallback and the
count are made here, from what LiteRT logs while it compiles.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from stowplan.nouns import dataclass, replace
from stowplan.plugins.records import Acceleration, Share
from stowplan_backend_litert.engine import Engine, Job
from stowplan_backend_litert.environments import Environment
from stowplan_backend_litert.errors import STATUS, CompileFailedError
from stowplan_backend_litert.modelfile import ModelFile
from stowplan_backend_litert.options import CompileOptions

UNPROFILED = {"gpu": "the GPU's WebGPU accelerator records no operators, and fails when asked to; whole runs are timed"}
_GPU_COUNT = re.compile(r"(\d+) operations will run on the GPU")
_GPU_DEVICE = re.compile(r"Selected adapter: (.+?)(?:, arch|$)", re.MULTILINE)
_NPU_COUNT = re.compile(r"[Pp]artitioned subgraph<\d+>, selected (\d+) ops.*?resulted in (\d+) partitions")
_NPU_APPLIED = re.compile(r"[1-9]\d* compiler plugins were applied successfully")
_NPU_DEVICE = re.compile(r"OpenVINO device: (\S+)")
_NOT_LOADED = re.compile(r'Cannot load library "([^"]+)"|(\S+\.so[\w.]*): cannot open shared object file')
_devices: dict[str, str] = {}
INTEL = "openvino==2026.3.1"
_MISSING = {
    "npu": "no NPU library could be loaded",
    "gpu": "no GPU library could be loaded",
    "cpu": "LiteRT has no CPU accelerator here",
}


@dataclass(frozen=True)
class Choice:
    """The engine that was chosen and what is known of every accelerator that was asked for."""

    engine: Engine
    job: Job
    acceleration: Acceleration
    signatures: tuple[str, ...]
    note: str


def choose(env: Environment, name: str, data: bytes, options: CompileOptions) -> Choice:
    """Return the first of the caller's accelerators that takes at least one operator; the CPU takes every one.

    Raises `CompileFailedError` with the reason of each when none does.
    """
    shares: list[Share] = []
    for kind in options.accelerators:
        with_rest = (kind, "cpu") if kind != "cpu" and "cpu" in options.accelerators else (kind,)
        attempt = _Attempt(env, with_rest, options)
        shares.append(attempt.make(name, data))
        if attempt.engine is not None and attempt.job is not None:
            acceleration = _acceleration(options.accelerators, kind, shares, attempt.operators)
            note = UNPROFILED.get(kind, "") if options.profile else ""
            return Choice(attempt.engine, attempt.job, acceleration, attempt.keys, note)
    reasons = "; ".join(f"{share.accelerator}: {share.why}" for share in shares)
    raise CompileFailedError(f"{name}: no accelerator compiles it: {reasons}", text=reasons)


class _Attempt:
    """One try: the model opened, compiled, and closed again unless the accelerator took any of it."""

    engine: Engine | None = None
    job: Job | None = None
    operators = 0
    keys: tuple[str, ...] = ()

    def __init__(self, env: Environment, kinds: tuple[str, ...], options: CompileOptions) -> None:
        self._env = env
        self._kinds = kinds
        self._options = options

    def make(self, name: str, data: bytes) -> Share:
        """Return what the accelerator took; `engine` is set when that is enough."""
        kind = self._kinds[0]
        share = Share(accelerator=kind, present=self._env.present(kind), tried=True)
        if not share.present:
            return replace(share, tried=False, why=_why_missing(self._env, kind))
        handle = self._env.acquire(self._kinds)
        try:
            self._compile(handle, ModelFile(handle, name, data))
            assert self.engine is not None
            share = _counted(self.engine, share, self.operators)
        except CompileFailedError as err:
            self._give_up()
            return replace(share, why=self._why_alone(name, data) or _reason(err))
        except BaseException:
            self._give_up()
            raise
        if kind != "cpu" and not share.taken:
            self._give_up()
        return share

    def _why_alone(self, name: str, data: bytes) -> str:
        """Return what the GPU says of a model it refuses as a whole: it names operators only where the CPU may help."""
        if self._kinds != ("gpu",):
            return ""
        probe = _Attempt(self._env, ("gpu", "cpu"), replace(self._options, profile=False))
        share = probe.make(name, data)
        taken, operators = share.taken, probe.operators
        if probe.engine is not None:
            probe._give_up()
        return f"takes {taken} of {operators} operators and may not leave any: {share.why}" if taken else share.why

    def _compile(self, handle: int, file: ModelFile) -> None:
        try:
            signature = file.signature(self._options.signature)
            self.operators = signature.operators
            self.keys = tuple(found.key for found in file.signatures())
            self.job = Job(handle, file, signature, self._options)
            profile = self._options.profile and self._kinds[0] not in UNPROFILED
            self.engine = Engine(self.job, self._kinds, profile)
        except BaseException:
            file.close()
            self.job = None
            raise

    def _give_up(self) -> None:
        if self.engine is not None:
            self.engine.close()
        if self.job is not None:
            self.job.file.close()
        self.engine = self.job = None
        self._env.release()


def _counted(engine: Engine, share: Share, operators: int) -> Share:
    """Return the share with what the accelerator took, from LiteRT's answer and its notes."""
    kind = share.accelerator
    if kind == "cpu":
        return replace(share, taken=operators, device="XNNPACK")
    notes = engine.notes()
    log = engine.log
    share = replace(share, device=_device(kind, log.text))
    if engine.non_cpu_fully_accelerated:
        return replace(share, taken=operators, partitions=1)
    if kind == "gpu":
        count = _GPU_COUNT.search(notes)
        why = _gpu_reasons(notes) or "LiteRT does not say why"
        return replace(share, taken=int(count[1]) if count else 0, why=why)
    counted = _NPU_COUNT.search(log.text) if _NPU_APPLIED.search(log.text) else None
    if counted is None:
        return replace(share, why=_shortened(log.errors()) or "its compiler took no operator")
    return replace(share, taken=int(counted[1]), partitions=int(counted[2]), why="its compiler left the others")


def _device(kind: str, log: str) -> str:
    """Return which device an accelerator uses. The GPU's is logged once in a process, so it is remembered."""
    found = (_GPU_DEVICE if kind == "gpu" else _NPU_DEVICE).search(log)
    if found:
        _devices[kind] = found[1].strip() if kind == "gpu" else f"OpenVINO {found[1]}"
    return _devices.get(kind, "")


def _gpu_reasons(notes: str) -> str:
    """Return which operators the GPU left and why, from the lines under LiteRT's heading."""
    lines = [line.strip() for line in notes.splitlines()]
    if not any("not supported by GPU delegate" in line for line in lines):
        return ""
    return "; ".join(line for line in lines if re.match(r"[A-Z][A-Z0-9_]+:? ", line))


def _acceleration(asked: Sequence[str], used: str, shares: list[Share], operators: int) -> Acceleration:
    taken = shares[-1].taken
    fully = used != "cpu" and taken == operators
    if used != "cpu" and not fully:  # the CPU did the rest, as part of the same compiled model
        shares = [*shares, Share(accelerator="cpu", present=True, tried=True, taken=operators - taken)]
    seen = {share.accelerator for share in shares}
    why = f"{used}, named before it, takes " + ("every operator" if used == "cpu" or fully else "its part")
    shares += [Share(accelerator=kind, present=None, tried=False, why=why) for kind in asked if kind not in seen]
    return Acceleration(asked=tuple(asked), used=used, operators=operators, taken=0 if used == "cpu" else taken,
                        fully=fully, shares=tuple(shares))  # fmt: skip


def _why_missing(env: Environment, kind: str) -> str:
    failed = _NOT_LOADED.search(env.log(kind))
    return f"{_MISSING[kind]}: {failed[1] or failed[2]} is missing" if failed else _MISSING[kind]


def _reason(err: CompileFailedError) -> str:
    text = _shortened(err.text.split("; ")) if err.text else STATUS.get(err.status, str(err))
    if "No adapters found" in text:
        return "no device: no Vulkan driver was found (on Linux: mesa-vulkan-drivers 23 or later, or the vendor's)"
    return text


def _shortened(errors: Sequence[str]) -> str:
    """Return the errors that say most, without folders and places in the source."""
    missing = next((match[1] or match[2] for match in map(_NOT_LOADED.search, errors) if match), "")
    if missing:
        name = os.path.basename(missing)
        return f"its compiler cannot load {name}: install the vendor's driver and kit (Intel: {INTEL})"
    return "; ".join(re.sub(r"(?<![:/\w])(?:/[^/\s:\"']+)+/", "", error) for error in errors[:3])

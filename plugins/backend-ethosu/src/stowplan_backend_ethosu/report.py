"""What Vela says of a model it compiled: which operators the NPU takes, cycles, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stowplan.nouns import dataclass
from stowplan_backend_ethosu.machine import Machine

CPU = "Passthrough"
"""How Vela calls what it leaves as it is."""


@dataclass(frozen=True, kw_only=True)
class OperatorEstimate:
    """One operator of the model, in the file's order; `cycles` is 0 on the CPU, of which Vela knows nothing."""

    kind: str
    name: str
    taken: bool
    cycles: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """Vela's estimates of one run. `memories` are peaks in bytes by the memory's name, `streams` parts on the NPU."""

    machine: Machine
    operators: tuple[OperatorEstimate, ...]
    streams: int
    cycles: int
    npu_cycles: int
    macs: int
    weight_bytes: int
    encoded_weight_bytes: int
    memories: Mapping[str, int]

    @property
    def taken(self) -> int:
        return sum(operator.taken for operator in self.operators)

    def duration_ns(self, cycles: int) -> int:
        return round(cycles * 1e9 / self.machine.core_clock_hz)

    @property
    def counters(self) -> dict[str, int | float | bool | str]:
        """The estimates by name, for `Metrics.counters`."""
        used: dict[str, int | float | bool | str] = {f"{name}_bytes": size for name, size in self.memories.items()}
        return {
            **used, "total_cycles": self.cycles, "npu_cycles": self.npu_cycles, "macs": self.macs,
            "weight_bytes": self.weight_bytes, "encoded_weight_bytes": self.encoded_weight_bytes,
            "core_clock_hz": self.machine.core_clock_hz, "system": self.machine.system, "memory": self.machine.memory,
        }  # fmt: skip


def report_of(document: Mapping[str, Any], machine: Machine) -> Report:
    """Return the report from what the worker left."""
    tables, numbers = document["tables"], document["numbers"]
    return Report(
        machine=machine, operators=_operators(tables, bool(numbers["npuOps"])),
        streams=len(_rows(tables, "cmdstream")), cycles=int(numbers["totalCycles"]),
        npu_cycles=int(numbers["npuCycles"]), macs=int(numbers["macCount"]),
        weight_bytes=int(numbers["originalWeights"]), encoded_weight_bytes=int(numbers["encodedWeights"]),
        memories=_memories(document["memories"], int(numbers["readOnlyPeakUsage"]), machine),
    )  # fmt: skip


def _operators(tables: Mapping[str, Any], any_taken: bool) -> tuple[OperatorEstimate, ...]:
    """Return the model's operators; one that left nothing to do, such as a reshape, is taken where any is."""
    left, cycles, names = set[str](), dict[str, int](), dict[str, str]()
    for row in _rows(tables, "perf"):
        source = row["source_id"]
        names.setdefault(source, row["name"])
        if row["operator"] == CPU:
            left.add(source)
        else:
            cycles[source] = cycles.get(source, 0) + int(row["op_cycles"])
    return tuple(
        OperatorEstimate(kind=row["operator"], name=names.get(row["id"], ""), cycles=cycles.get(row["id"], 0),
                         taken=any_taken and row["id"] not in left)
        for row in _rows(tables, "source")
    )  # fmt: skip


def _rows(tables: Mapping[str, Any], name: str) -> list[dict[str, str]]:
    table = tables.get(name, {"header": [], "rows": []})
    return [dict(zip(table["header"], row, strict=False)) for row in table["rows"]]


def _memories(peaks: Mapping[str, int], read_only_bytes: int, machine: Machine) -> dict[str, int]:
    """Return peaks by memory. The arrays inside the NPU are none of the system's memory.

    Where constants lie in the SRAM of the arena too, Vela's summary counts them apart, as on-chip flash.
    """
    inside = ("lutram", "shram")
    used = {name.lower(): int(size) for name, size in peaks.items() if name.lower() not in inside}
    if machine.areas["const"] == "Sram" and read_only_bytes and "onchipflash" not in used:
        used = {**used, "sram": used.get("sram", 0) - read_only_bytes, "onchipflash": read_only_bytes}
    return used

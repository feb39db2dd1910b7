"""The report of `compile` and `analyze`: facts in, aligned lines out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stowplan.build.facts import AliveFact, Facts, PortFact, StageFact, TrialFact
from stowplan.cli.minimum import minimum_lines, pareto_lines
from stowplan.cli.output import columns, painted, plain, safe
from stowplan.units import format_shape, format_size

if TYPE_CHECKING:
    from stowplan.plugins.kinds import Port

REPORT = 1
"""Version of the JSON report; goes up when a field changes its meaning or goes away."""
STAGE_HEAD = ("", "operators", "", "peak", "reloads", "spills", "weights", "bound by")


def print_report(facts: Facts, verbose: bool = False) -> None:
    """Print everything that is known; rows whose facts are missing are left out."""
    stages = _stages(facts.stage_table) if verbose else []
    more = [minimum_lines(facts.minimum), pareto_lines(facts.pareto), stages]
    blocks = [_heading(facts), _shrink(facts), _memory(facts), _flash(facts), *more, _remarks(facts)]
    print("\n\n".join("\n".join(block) for block in blocks if block))


def document(facts: Facts, **more: object) -> dict[str, Any]:
    """Return the report for `--json`: the facts as they are, plus what only the command knows."""
    fields = plain(facts)
    fields["total_bytes"] = facts.total_bytes
    return {"report": REPORT, **fields, **more}


def verdict(facts: Facts) -> str:
    """Return the line that says whether the model fits."""
    if facts.fast_budget_bytes is None:
        return "no budget given; memory figures only"
    budget = f"{format_size(facts.fast_budget_bytes)} fast memory"
    if not _fast_fits(facts):
        if facts.cause.startswith("fits "):  # the fast memory is enough, the slow one is not
            return facts.cause
        # The cause begins with what happened; what it takes is for the error's line.
        return f"does not fit {budget}" + (f": {facts.cause.partition(': ')[0]}" if facts.cause else "")
    line = f"fits {budget}, {count(facts.stages, 'stage')}, {facts.tiled} tiled"
    if facts.slow_budget_bytes is not None and (facts.slow_bytes or 0) > facts.slow_budget_bytes:
        needed, given = format_size(facts.slow_bytes or 0), format_size(facts.slow_budget_bytes)
        return f"{line}; slow memory {needed} needed, {given} given"
    return line


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def streamed(port: PortFact | Port) -> str:
    """Return how the rows of a streamed input come, to be put behind its shape and type; nothing for other ports."""
    if not port.streamed:
        return ""
    again = f", {port.turns} times over" if port.turns > 1 else ""
    return f", streamed: {count(port.rows, 'row')} of {format_size(port.row_bytes)}{again}"


def shortened(name: str, length: int = 50) -> str:
    """Return a name with its end cut off when it is long, as converters that join names make them."""
    return name if len(name) <= length else name[: length - 3] + "..."


def _fast_fits(facts: Facts) -> bool:
    if facts.fast_bytes is None or facts.fast_budget_bytes is None:
        return facts.fits
    return facts.fast_bytes <= facts.fast_budget_bytes


def _heading(facts: Facts) -> list[str]:
    title = f"{safe(facts.file)}   {facts.dtype}, {count(facts.operators, 'operator')}"
    ports = [("input", p) for p in facts.inputs] + [("output", p) for p in facts.outputs]
    rows = [(role, p.name, f"{format_shape(p.shape)} {p.dtype}{streamed(p)}") for role, p in ports]
    colour = "green" if facts.fits else "red"
    if facts.fast_budget_bytes is None:
        colour = "bold"
    return [painted(title, "bold"), *columns(rows), painted(safe(verdict(facts)), colour)]


def _shrink(facts: Facts) -> list[str]:
    rows = shrink_rows(facts)
    return [painted("what is in the way", "bold"), *columns(rows)] if rows else []


def shrink_rows(facts: Facts) -> list[tuple[str, ...]]:
    """Say which tensor to make smaller, and by how much, for the budget to be met."""
    shrink = facts.shrink
    if shrink is None or not shrink.alive:
        return []
    most = shrink.alive[0]
    if most.size_bytes > shrink.over_bytes:
        how = f"by {format_size(shrink.over_bytes)} ({shrink.over_bytes * 100 / most.size_bytes:.0f} %) or more"
    else:
        how = "which alone is not enough"
    needs = f"the least found, {format_size(shrink.over_bytes)} over, at {shortened(shrink.operator)}"
    return [
        (f"{shrink.pool} memory needs", format_size(shrink.least_bytes), needs),
        ("shrink first", format_size(most.size_bytes), f"{_alive_words(most)}, {how}"),
        *(("then", format_size(a.size_bytes), _alive_words(a)) for a in shrink.alive[1:3]),
    ]


def _alive_words(alive: AliveFact) -> str:
    return f"{shortened(alive.tensor)} ({format_shape(alive.shape)})"


def _memory(facts: Facts) -> list[str]:
    return [painted("memory", "bold"), *columns(memory_rows(facts)), *columns(trial_rows(facts))]


def memory_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """Return what the model needs in several ways: what, how much, and a remark."""
    rows: list[tuple[str, str, str]] = []
    if facts.tflite_micro_bytes is not None:
        rows.append(_row("TFLite Micro tensors", facts.tflite_micro_bytes, "its planner; kernel scratch excluded"))
    if facts.unscheduled_bytes:
        rows.append(_row("unscheduled", facts.unscheduled_bytes))
    rows.append(_row("largest tensor", facts.largest_tensor_bytes, format_shape(facts.largest_tensor_shape)))
    if facts.fast_bytes is not None:
        rows.append(_row("this plan", facts.fast_bytes, _headroom(facts.fast_bytes, facts.fast_budget_bytes)))
    if facts.has_slow and facts.slow_bytes is not None:
        rows.append(_row("slow memory", facts.slow_bytes, _budget(facts.slow_budget_bytes)))
    if facts.total_bytes is not None:
        rows.append(_row("all memory", facts.total_bytes, "fast and slow together, inputs and outputs included"))
    if facts.recompute > 1:
        rows.append(("arithmetic", f"{facts.recompute:.2f} x", "of what the model does once"))
    if facts.traffic is not None:
        read, written = (format_size(n) for n in facts.traffic)
        rows.append(("slow traffic", format_size(sum(facts.traffic)), f"{read} read, {written} written in one run"))
    return rows


def trial_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """Return the other budgets that were tried."""
    return [_trial(trial) for trial in facts.trials]


def _flash(facts: Facts) -> list[str]:
    rows = flash_rows(facts)
    return [painted("flash", "bold"), *columns(rows)] if rows else []


def flash_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """Return what the plan takes of the flash, and what it would take packed."""
    if facts.plan_bytes is None:
        return []
    remark = f"weights {format_size(facts.weight_bytes)}"
    if facts.compressor == "none":
        remark += f", overhead {format_size(facts.plan_bytes - facts.weight_bytes)}"
    else:
        remark += " before packing" if facts.compressor != "unknown" else ", packed"
    if facts.flash_budget_bytes is not None:
        remark += f", {_budget(facts.flash_budget_bytes)}"
    rows = [_row("plan", facts.plan_bytes, remark)]
    rows += [_compressed(name, size, facts.plan_bytes) for name, size in facts.compressed.items()]
    return rows


def _remarks(facts: Facts) -> list[str]:
    return columns(remark_rows(facts), indent="")


def remark_rows(facts: Facts) -> list[tuple[str, str]]:
    """Return notes of the importer, what is known of the least memory, and how the plan was proven."""
    rows = [("note", note) for note in facts.notes]
    if facts.certificate:
        rows.append(("bound", facts.certificate))
    if facts.proof:
        rows.append(("proof", facts.proof))
    return rows


def _stages(stages: tuple[StageFact, ...]) -> list[str]:
    if not stages:
        return []
    table = columns([STAGE_HEAD, *map(stage_row, stages)], right=frozenset({0}))
    return [painted("stages", "bold"), *table]


def stage_row(stage: StageFact) -> tuple[str, ...]:
    """Return one stage under `STAGE_HEAD`."""
    how = f"{stage.firings} firings, tiled" if stage.tiled else count(stage.firings, "firing")
    sizes = (stage.peak_bytes, stage.reload_bytes, stage.spill_bytes, stage.weight_bytes)
    return (
        str(stage.index),
        _operators(stage),
        how,
        *(format_size(n) if n else "-" for n in sizes),
        _bound(stage),
    )


def _bound(stage: StageFact) -> str:
    """Return the largest tensors alive at a stage's peak with their bytes; else what lies highest."""
    if not stage.alive:
        return shortened(stage.bound_by)
    return ", ".join(f"{shortened(a.tensor, 30)} {format_size(a.size_bytes)}" for a in stage.alive[:3])


def _operators(stage: StageFact) -> str:
    """Return which operators a stage runs: "0-3 conv_2d, depthwise_conv_2d"."""
    if not stage.operators:
        return "copies"
    first, last = min(stage.operators), max(stage.operators)
    numbers = str(first) if first == last else f"{first}-{last}"
    return f"{numbers} {', '.join(dict.fromkeys(stage.kinds))}"


def _row(label: str, size_bytes: int, remark: str = "") -> tuple[str, str, str]:
    return (label, format_size(size_bytes), remark)


def _headroom(needed: int, budget: int | None) -> str:
    if budget is None:
        return ""
    spare = budget - needed
    return f"{format_size(spare)} headroom" if spare >= 0 else f"{format_size(-spare)} over"


def _budget(budget: int | None) -> str:
    return "" if budget is None else f"budget {format_size(budget)}"


def _trial(trial: TrialFact) -> tuple[str, str, str]:
    if trial.fits:
        return _row("also fits at", trial.fast_bytes, f"{count(trial.stages, 'stage')}, {trial.tiled} tiled")
    return _row("does not fit at", trial.fast_bytes)


def _compressed(name: str, size_bytes: int, plan_bytes: int) -> tuple[str, str, str]:
    saved = plan_bytes - size_bytes
    change = f"{format_size(saved)} less" if saved >= 0 else f"{format_size(-saved)} more"
    return _row(f"with -c {name}", size_bytes, change)


def wrote(facts: Facts, file: str) -> str:
    """Return the last line of `compile`: the file, its size, and what compression takes of the fast memory."""
    line = f"wrote {safe(file)}   {format_size(facts.plan_bytes or 0)}"
    if facts.compressor != "none":
        line += f", {facts.compressor.upper()}"
        if facts.reserved_bytes and facts.fast_budget_bytes is not None:
            budget = format_size(facts.fast_budget_bytes)
            line += f", {format_size(facts.reserved_bytes)} of the {budget} fast memory holds decompressed weights"
    return line


def kept(facts: Facts, file: str) -> str:
    """Return the last line of a `compile` that had nothing to do."""
    return f"kept {safe(file)}   {format_size(facts.plan_bytes or 0)}, nothing has changed"


def refusal(
    message: str, code: str, details: Mapping[str, object], facts: Facts | None, **more: object
) -> dict[str, Any]:
    """Return a refusal for `--json`: the error, and the report as far as it goes."""
    error = {"code": code, "message": message, **details}
    return {"error": error} if facts is None else {**document(facts, **more), "error": error}

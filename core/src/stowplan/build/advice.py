"""What to change about a model or a budget, from the facts of its report: one sentence and a command each."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.build.facts import Facts
from stowplan.nouns import dataclass
from stowplan.units import format_shape, format_size


@dataclass(frozen=True)
class Advice:
    """Something to try: what it brings, and the words to add to the command, if it is a command."""

    text: str
    options: str = ""


def advice(facts: Facts) -> tuple[Advice, ...]:
    """Return what would help, most effective first; nothing where a model fits and nothing is worth changing."""
    return (*_to_fit(facts), *_flash(facts), *_to_save(facts))


def _to_fit(facts: Facts) -> Iterator[Advice]:
    if facts.fits:
        return
    shrink = facts.shrink
    if shrink is not None and shrink.alive:
        most = shrink.alive[0]
        yield Advice(
            f"Make the tensor {most.tensor} ({format_shape(most.shape)}) smaller: {format_size(most.size_bytes)} of it "
            f"are alive where {format_size(shrink.over_bytes)} are missing, at {shrink.operator}."
        )
    fitting = [trial.fast_bytes for trial in facts.trials if trial.fits]
    least = shrink.least_bytes if shrink is not None and shrink.pool == "fast" else None
    enough = min([*fitting, *([least] if least else [])], default=None)
    if enough is not None:
        yield Advice(f"Give it {format_size(enough)} of fast memory: with that much it fits.", f"-m {enough}")
    if not facts.has_slow:
        yield Advice("Add slow memory, such as PSRAM: whole tensors may then move there and back.", "-m FAST -m SLOW")
    if not any(port.streamed for port in facts.inputs):
        yield from _stream(facts)


def _stream(facts: Facts) -> Iterator[Advice]:
    names = {alive.tensor for alive in facts.shrink.alive} if facts.shrink else set()
    for port in facts.inputs:
        if port.name in names:
            yield Advice(
                f"Stream the input {port.name}: its rows are pushed as they arrive and never lie in memory as a whole.",
                f"--stream-input {port.name}",
            )


def _flash(facts: Facts) -> Iterator[Advice]:
    for name, size in facts.compressed.items():
        saved = (facts.plan_bytes or 0) - size
        if saved > 0:
            yield Advice(f"Pack the weights: the plan is then {format_size(saved)} smaller.", f"-c {name}")


def _to_save(facts: Facts) -> Iterator[Advice]:
    budget = facts.fast_budget_bytes
    smaller = [trial.fast_bytes for trial in facts.trials if trial.fits and budget and trial.fast_bytes < budget]
    if facts.fits and smaller:
        yield Advice(f"It fits {format_size(min(smaller))} of fast memory as well.", f"-m {min(smaller)}")
    moved = facts.traffic[0] + facts.traffic[1] if facts.traffic is not None else 0
    if facts.fits and moved:
        yield Advice(
            f"Each run moves {format_size(moved)} from and to slow memory. The curve says how much fast "
            "memory would spare how much of that.",
            "--pareto",
        )

"""The report as one HTML page that needs nothing from elsewhere: facts, costs and the memory map in, text out."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from stowplan.build.advice import advice
from stowplan.build.costs import NodeCost
from stowplan.build.facts import Facts
from stowplan.build.map_plot import first_name, svg
from stowplan.build.memory_map import MemoryMap
from stowplan.build.svg import escaped
from stowplan.cli.minimum import PARETO_NUMBERS, minimum_rows, pareto_rows
from stowplan.cli.report import (
    STAGE_HEAD,
    count,
    flash_rows,
    memory_rows,
    remark_rows,
    shrink_rows,
    stage_row,
    streamed,
    trial_rows,
    verdict,
)
from stowplan.units import format_shape, format_size
from stowplan.version import VERSION

_LONGEST = 400
_BAR_PX = 120
_READOUT_HEAD = ("tensor", "memory", "bytes", "at", "made by")
_COST_HEAD = ("", "kernel", "makes", "firings", "bytes made", "weights", "multiplications", "")


def page(facts: Facts, memory: MemoryMap | None, costs: Sequence[NodeCost], note: str = "") -> str:
    """Return the page. `memory` is None where no plan was found; `note` says which plan it is the map of."""
    script = _source("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    sections = [
        ("map", "Memory over time", _map(memory, note)),
        ("memory", "Memory and flash", _memory(facts)),
        ("budgets", "Budgets", _budgets(facts)),
        ("change", "What to change", _changes(facts)),
        ("stages", "Stages", _stages(facts)),
        ("costs", "Cost of each node", _costs(costs)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    return "\n".join([
        '<!doctype html>', '<html lang="en">', "<head>", '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(facts.file)}: stowplan report</title>", f"<style>{_source('page.css')}</style>", "</head>",
        "<body>", *_heading(facts),
        "<nav>" + "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in shown) + "</nav>", "<main>",
        *(f'<section id="{key}"><h2>{title}</h2>\n{body}</section>' for key, title, body in shown),
        "</main>", f'<footer><p class="soft">stowplan {VERSION}</p></footer>', f"<script>{script}</script>",
        "</body>", "</html>", "",
    ])  # fmt: skip


def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _text(words: str) -> str:
    return escaped(words, _LONGEST)


def _heading(facts: Facts) -> Iterator[str]:
    kind = "" if facts.fast_budget_bytes is None and facts.fits else " good" if facts.fits else " bad"
    yield f"<header><h1>{_text(facts.file)}</h1>"
    yield f'<p class="soft">{_text(facts.dtype)}, {count(facts.operators, "operator")}</p>'
    yield f'<p class="verdict{kind}">{_text(verdict(facts))}</p>'
    ports = [("input", port) for port in facts.inputs] + [("output", port) for port in facts.outputs]
    yield _table((), [(role, p.name, f"{format_shape(p.shape)} {p.dtype}{streamed(p)}") for role, p in ports])
    yield "</header>"


def _map(memory: MemoryMap | None, note: str) -> str:
    if memory is None:
        return f'<p class="soft">{_text(note)}</p>' if note else ""
    peak = memory.fast.peak(0, max(1, memory.steps)).step
    hint = (
        "Point at the map, or go to it and press the arrow keys: a firing left or right, ten up or down; Page Up and "
        "Page Down go by stages, P to the peak."
    )
    return "\n".join([
        f'<p class="soft">{_text(note)}</p>' if note else "",
        f'<p class="soft hint" id="hint">{hint}</p>',
        '<div class="wide"><div id="chart" tabindex="0" role="slider" aria-label="firing" aria-describedby="hint"',
        f'aria-valuemin="0" aria-valuemax="{max(0, memory.steps - 1)}" aria-valuenow="{peak}"',
        f'data-steps="{memory.steps}" data-peak="{peak}" data-stages="{json.dumps(memory.stages)}">',
        f'{svg(memory)}</div></div>',
        '<div id="readout"><p id="moment" role="status"></p><div class="wide"><table>',
        f'<thead>{_line("th", _READOUT_HEAD, {2})}</thead><tbody></tbody></table></div></div>',
    ])  # fmt: skip


def _memory(facts: Facts) -> str:
    rows = [*memory_rows(facts), *(("flash: " + label, size, remark) for label, size, remark in flash_rows(facts))]
    return _table((), rows, right={1}) + _table((), remark_rows(facts))


def _budgets(facts: Facts) -> str:
    rows = [("minimum, " + what, size, remark) for what, size, remark in minimum_rows(facts.minimum)]
    pareto = ""
    if facts.pareto:
        head, *points = pareto_rows(facts.pareto)
        pareto = _table(head, points, right=PARETO_NUMBERS)
    return _table((), [*_own_budget(facts), *trial_rows(facts), *rows], right={1}) + pareto


def _own_budget(facts: Facts) -> list[tuple[str, str, str]]:
    if facts.fast_bytes is None:
        return []
    slow = f"beside {format_size(facts.slow_bytes)} of slow memory" if facts.slow_bytes else "with no slow memory"
    exact = f"{facts.fast_bytes} bytes, " if facts.fast_bytes >= 1024 else ""
    return [("this plan needs", format_size(facts.fast_bytes), exact + slow)]


def _changes(facts: Facts) -> str:
    found = advice(facts)
    items = [
        f"<li>{_text(item.text)}" + (f" <code>{_text(item.options)}</code>" if item.options else "") + "</li>"
        for item in found
    ]
    return _table((), shrink_rows(facts), right={1}) + (f"<ul>{''.join(items)}</ul>" if items else "")


def _stages(facts: Facts) -> str:
    return _table(STAGE_HEAD, map(stage_row, facts.stage_table), right={0, 3, 4, 5, 6}) if facts.stage_table else ""


def _costs(costs: Sequence[NodeCost]) -> str:
    """Return the table of nodes with a bar each: of measured time, else of multiplications, else of bytes made."""
    if not costs:
        return ""
    measured = any(cost.duration_us is not None for cost in costs)
    amounts = [(cost.duration_us if measured else cost.macs) or 0 for cost in costs]
    most = max(amounts) or 1
    head = (*_COST_HEAD[:-1], "us here", "") if measured else _COST_HEAD
    rows = [
        (
            str(cost.index), cost.kind, first_name(cost.tensor), f"{cost.firings:,}", format_size(cost.output_bytes),
            format_size(cost.weight_bytes) if cost.weight_bytes else "-",
            "-" if cost.macs is None else f"{cost.macs:,}",
            *([f"{cost.duration_us or 0:.2f}"] if measured else []),
        )
        for cost in costs
    ]  # fmt: skip
    bars = [round(_BAR_PX * amount / most) for amount in amounts]
    return _table(head, rows, right={0, 3, 4, 5, 6, 7}, bars=bars)


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = (), bars: Sequence[int] = ()
) -> str:
    """Return rows as a table that scrolls by itself where a screen is narrow; nothing without rows."""
    numbers = frozenset(right)
    lines = [_line("td", row, numbers, _bar(bars[index]) if bars else "") for index, row in enumerate(rows)]
    if not lines:
        return ""
    top = f"<thead>{_line('th', head, numbers)}</thead>" if head else ""
    return f'<div class="wide"><table>{top}<tbody>{"".join(lines)}</tbody></table></div>\n'


def _line(tag: str, words: Sequence[str], numbers: Container[int], more: str = "") -> str:
    cells = (
        f'<{tag} class="{"n" if index in numbers else "name"}">{_text(word)}</{tag}>'
        for index, word in enumerate(words)
    )
    return f"<tr>{''.join(cells)}{more}</tr>"


def _bar(length_px: int) -> str:
    bar = f'<rect class="bar" width="{length_px}" height="10"/>'
    return f'<td><svg width="{_BAR_PX}" height="10" aria-hidden="true">{bar}</svg></td>'

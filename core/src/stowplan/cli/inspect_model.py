"""What `stowplan inspect` says of a model: operators, weights, quantization, and whether it converts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stowplan.cli.output import columns, painted, plain, print_json, safe
from stowplan.cli.report import count, shortened
from stowplan.flow.model import Model
from stowplan.plugins.host import host
from stowplan.plugins.kinds import Description, OperatorFact
from stowplan.units import format_shape, format_size

Ports = Sequence[tuple[str, tuple[int, ...], str]]


def show(model: Model, verbose: bool, as_text: bool, as_json: bool) -> int:
    """Print the model. Raises `ModelError` when it is damaged; operators that do not convert are no error here."""
    importer = host().importer_for(model)
    if as_text:
        from stowplan.flow.text import graph_lines

        print("\n".join(safe(line) for line in graph_lines(importer.load(model, {}))))
        return 0
    description = importer.describe(model)
    if as_json:
        facts = dict(report=1, file=model.name, size_bytes=model.size_bytes, digest=model.digest)
        print_json({**facts, "converts": not _reasons(description), **plain(description)})
        return 0
    blocks = [_heading(model, description), _operators(description), _summary(description)]
    if verbose:
        blocks.insert(2, _table(description))
    print("\n\n".join("\n".join(block) for block in blocks if block))
    return 0


def _heading(model: Model, description: Description) -> list[str]:
    parts = [f"{description.format} {description.version}".strip(), count(len(description.operators), "operator")]
    if description.subgraph_count != 1:
        parts.append(count(description.subgraph_count, "subgraph"))
    parts.append(format_size(model.size_bytes))
    ports = [("input", p) for p in description.inputs] + [("output", p) for p in description.outputs]
    rows = [(role, name, f"{format_shape(shape)} {dtype}") for role, (name, shape, dtype) in ports]
    rows += [("signature", key, "") for key in description.signatures]
    return [painted(f"{safe(model.name)}   {', '.join(parts)}", "bold"), *columns(rows)]


def _operators(description: Description) -> list[str]:
    """Kinds of operators, those with the most weights first."""
    kinds: Counter[str] = Counter(operator.kind for operator in description.operators)
    weights: Counter[str] = Counter()
    macs: Counter[str] = Counter()
    for operator in description.operators:
        weights[operator.kind] += operator.weight_bytes
        macs[operator.kind] += operator.macs
    total = max(1, sum(weights.values()))
    rows = [("", "", "weights", "", "MACs")]
    for kind in sorted(kinds, key=lambda k: (-weights[k], -macs[k], k)):
        share = f"{100 * weights[kind] / total:.1f} %" if weights[kind] else ""
        size = format_size(weights[kind]) if weights[kind] else ""
        rows.append((kind, str(kinds[kind]), size, share, f"{macs[kind]:,}" if macs[kind] else ""))
    return [painted("operators", "bold"), *columns(rows, right=frozenset({1, 2, 3, 4}))]


def _table(description: Description) -> list[str]:
    rows = [_operator(operator) for operator in description.operators]
    return [painted("in order", "bold"), *columns(rows, right=frozenset({0}))]


def _operator(operator: OperatorFact) -> tuple[str, ...]:
    shapes = ", ".join(f"{format_shape(shape)} {dtype}" for shape, dtype in operator.outputs)
    weights = format_size(operator.weight_bytes) if operator.weight_bytes else ""
    return (str(operator.index), operator.kind, shapes, weights, operator.reason or shortened(operator.name))


def _summary(description: Description) -> list[str]:
    rows = [("weights", format_size(description.weight_bytes))]
    kinds = [f"{kind} {number}" for kind, number in description.quantization.items()]
    rows.append(("tensors", ", ".join(kinds)))
    if description.largest:
        shown = (f"{format_size(n)} {shortened(name)} {format_shape(s)} {d}" for name, s, d, n in description.largest)
        rows.append(("largest", ", ".join(shown)))
    reasons = _reasons(description)
    rows.append(("converts", f"no, {count(len(reasons), 'reason')}" if reasons else "yes"))
    return columns(rows, indent="") + [f"  {safe(reason)}" for reason in reasons]


def _reasons(description: Description) -> list[str]:
    own = [f"operator {o.index} ({o.kind}): {o.reason}" for o in description.operators if o.reason]
    return [*description.reasons, *(reason for reason in own if not _told(reason, description))]


def _told(reason: str, description: Description) -> bool:
    return any(reason.partition(": ")[2] in other for other in description.reasons)

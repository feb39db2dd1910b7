"""`stowplan profile --board`: where the instructions of a plan go on a core, operator by operator, most first."""

from __future__ import annotations

import argparse
from contextlib import closing

from stowplan.cli.boards import on_board, report_document, used_lines
from stowplan.cli.output import columns, painted, print_json, safe
from stowplan.cli.plans import plan_of
from stowplan.cli.samples import sample
from stowplan.cli.working import working
from stowplan.errors import UsageError
from stowplan.flow.model import Model
from stowplan.plugins.kinds import BoardOptions, OperatorCount

BAR = 24


def run(arguments: argparse.Namespace, options: BoardOptions) -> int:
    for name in ("trace", "profiler"):
        if getattr(arguments, name, None) is not None:
            raise UsageError(f"--{name} does not go with --board: instructions are counted, nothing is timed")
    plan = plan_of(Model.read(arguments.model))
    inputs = [sample(port, seed) for seed, port in enumerate(plan.inputs)]
    with working(f"running {plan.name} on {options.board}"), closing(on_board(plan.data, options)) as compiled:
        _, report = compiled.measure(inputs, each=True)
    if arguments.json:
        print_json(dict(report=1, plan=plan.name, digest=plan.digest, **report_document(report)))
        return 0
    lines = used_lines(report, plan.fast_bytes, plan.slow_bytes)
    heading = "operators in the order of a run" if arguments.each else "operators, most instructions first"
    rows = report.operators if arguments.each else sorted(report.operators, key=lambda o: -o.instructions)
    print("\n".join([f"{painted(safe(plan.name), 'bold')}   {lines[0]}", *lines[1:], "", *_table(rows, heading)]))
    return 0


def _table(operators: tuple[OperatorCount, ...] | list[OperatorCount], heading: str) -> list[str]:
    whole = sum(operator.instructions for operator in operators) or 1
    most = max((operator.instructions for operator in operators), default=1) or 1
    rows = [("instructions", "share", "", "firings", "", "")]
    for operator in operators:
        bar = "#" * max(round(BAR * operator.instructions / most), 1)
        number = "" if operator.operator == 0xFFFF else f"operator {operator.operator}"
        rows.append((
            f"{operator.instructions:,}", f"{100 * operator.instructions / whole:.1f} %", bar, str(operator.firings),
            operator.kind, number,
        ))  # fmt: skip
    return [painted(heading, "bold"), *columns(rows, right=frozenset({0, 1, 3}))]

"""Runs Vela's compiler on one model, in a process and a folder of its own, and reads what it says of its result."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from stowplan.errors import ModelError, RuntimeFailure, UnsupportedError
from stowplan.flow.model import Model
from stowplan.nouns import dataclass, field
from stowplan.plugins.kinds import Partitioning
from stowplan_backend_ethosu.installation import folder
from stowplan_backend_ethosu.machine import Machine
from stowplan_backend_ethosu.report import Report, report_of

MOST_SECONDS = 600
MOST_REASONS = 20
_UNREADABLE = "Failed to parse TFLite file"
_CHATTER = "has a dynamic signature"
_REASON = re.compile(r"operator: (\w+)[^\n]*\n *Reason: ([^\n]+)|^ - ([^\n]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Made:
    """A model that Vela compiled, and its report."""

    data: bytes = field(repr=False)
    report: Report

    @property
    def counts(self) -> Partitioning:
        report = self.report
        return Partitioning(operators=len(report.operators), taken=report.taken, partitions=report.streams)


def compiled(model: Model, machine: Machine) -> Made:
    """Compile a model. Raises `ModelError`, `RuntimeFailure`, and `UnsupportedError` when the NPU takes none of it."""
    if model.data[4:8] != b"TFL3":
        raise ModelError(f"{model.name}: is no TFLite model, and Vela reads no other; export it as .tflite")
    with tempfile.TemporaryDirectory(prefix="stowplan-") as place:
        work = Path(place)
        parts = {"architecture": machine.architecture, "system": machine.system_text, "options": machine.options_text}
        for name, text in parts.items():
            (work / name).write_text(text, encoding="utf-8")
        (work / "model").write_bytes(model.data)
        said = _run(model, work)
        data = (work / "output").read_bytes()
        report = report_of(json.loads((work / "report").read_text(encoding="utf-8")), machine)
    if not report.taken:
        raise _nothing_taken(model, machine, report, said)
    return Made(data=data, report=report)


def _run(model: Model, work: Path) -> str:
    """Run the worker to its end and return what it printed."""
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("worker.py")), str(folder().parent), str(work)]
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, timeout=MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeFailure(f"{model.name}: Vela did not end within {MOST_SECONDS} s") from None
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.returncode == 0:
        return said
    reasons = _reasons(said)
    if _UNREADABLE in said and reasons:
        raise UnsupportedError(f"{model.name}: Vela does not take such an operator: {_summary(reasons)}", reasons)
    words = _last(said)
    if "Failed to load" in said or _UNREADABLE in said:
        raise ModelError(f"{model.name}: Vela cannot read it: {words}")
    how = _signal(-done.returncode) if done.returncode < 0 else f"exit code {done.returncode}"
    raise RuntimeFailure(
        f"{model.name}: Vela failed ({how}): {words or 'it says nothing'}; try another release of ethos-u-vela"
    )


def _nothing_taken(model: Model, machine: Machine, report: Report, said: str) -> UnsupportedError:
    reasons = _reasons(said)
    why = _summary(reasons) or "see `vela --supported-ops-report`"
    return UnsupportedError(
        f"{model.name}: {machine.accelerator} takes none of {len(report.operators)} operators: {why}. "
        "The NPU computes with integers: quantize the model to int8, or run it on the CPU",
        reasons,
    )


def _reasons(said: str) -> tuple[str, ...]:
    """Return why operators were left, each reason once; names of tensors are left out so that equal ones are equal."""
    found: dict[str, None] = {}
    for kind, reason, other in _REASON.findall(said):
        plain = re.sub(r" \([^()]*\)$", "", reason.strip())
        found[f"{kind}: {plain}" if kind else other.strip()] = None
    return tuple(found)[:MOST_REASONS]


def _summary(reasons: tuple[str, ...]) -> str:
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return reasons[0] + more if reasons else ""


def _last(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip() and _CHATTER not in line]
    return lines[-1].strip()[:300] if lines else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""Runs one command as a step of a build: quiet when it is done, everything it said when it is not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from stowplan.cli.entry import main
from stowplan.errors import OutputError, StowplanError, UsageError
from stowplan.nouns import dataclass

STDOUT = "--stdout="
CACHE = "STOWPLAN_CACHE_DIR"
DEEPEST = 8
"""How far files of arguments may name others: enough for any build tool, and no file can name itself for ever."""


@dataclass(frozen=True)
class Done:
    """How a command ended, and what there is to read: warnings, and after a failure its report and its error."""

    exit_code: int
    output: str


def run(arguments: Sequence[str]) -> Done:
    """Run `stowplan ARGUMENTS` in this process.

    `@FILE` stands for the lines of a file. `--stdout=FILE` as the first word keeps the report in that file.
    """
    try:
        words = expanded(arguments)
    except StowplanError as err:
        return Done(err.exit_code, f"Error: {err}\n")
    kept = words.pop(0)[len(STDOUT) :] if words and words[0].startswith(STDOUT) else ""
    report, complaints = StringIO(), StringIO()
    with redirect_stdout(report), redirect_stderr(complaints):
        code = main(words)
    if code:
        return Done(code, report.getvalue() + complaints.getvalue())
    return _keep(Path(kept), report.getvalue(), complaints.getvalue()) if kept else Done(code, complaints.getvalue())


@contextmanager
def own_cache() -> Iterator[None]:
    """Keep what this process can make again in a folder of its own: the build tool's cache is the only one.

    Where STOWPLAN_CACHE_DIR is set, whoever set it wants another.
    """
    if os.environ.get(CACHE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="stowplan-") as folder:
        os.environ[CACHE] = folder
        yield


def expanded(arguments: Sequence[str], depth: int = 0) -> list[str]:
    """Return arguments with the lines of a file in the place of `@FILE`. Raises `UsageError`."""
    words: list[str] = []
    for word in arguments:
        words += _lines(word[1:], depth) if word.startswith("@") else [word]
    return words


def _lines(name: str, depth: int) -> list[str]:
    if depth == DEEPEST:
        raise UsageError(f"@{name}: files of arguments name each other more than {DEEPEST} deep")
    try:
        text = Path(name).read_bytes().decode("utf-8", "surrogateescape")
    except OSError as err:
        raise UsageError(f"@{name}: the file of arguments cannot be read: {err.strerror or err}") from err
    return expanded(text.removesuffix("\n").split("\n") if text else [], depth + 1)


def _keep(path: Path, report: str, complaints: str) -> Done:
    from stowplan.cli.output import check_output, write_file

    try:
        check_output(path)
        write_file(path, report.encode("utf-8", "surrogateescape"))
    except OutputError as err:
        return Done(err.exit_code, f"{complaints}Error: {err}\n")
    return Done(0, complaints)

"""Runs what a page of the documentation shows: each line after `$ ` of its console blocks, output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_MARK = "\x01"


class Shown(NamedTuple):
    """A command and what the page says it prints; `...` stands for any text in a line, alone for any lines."""

    command: str
    output: str


def shown_commands(page: Path) -> list[Shown]:
    found: list[Shown] = []
    for block in _BLOCK.findall(page.read_text("utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Shown(command, output))
    return found


def shown_files(page: Path) -> dict[str, str]:
    """Return the files a page shows: blocks with a title."""
    return dict(_FILE.findall(page.read_text("utf-8")))


def run_shown(page: Path, folder: Path, **environment: str) -> list[str]:
    """Run a page's commands in one shell in `folder`; return what did not go as the page says."""
    shown = shown_commands(page)
    script = "".join(f"{one.command}\nprintf '{_MARK}%s{_MARK}' $?\n" for one in shown)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash"], input="exec 2>&1\n" + script, cwd=folder, stdout=subprocess.PIPE, text=True, timeout=600,
        env={**os.environ, "PATH": path, **environment},
    )  # fmt: skip
    pieces = done.stdout.split(_MARK)
    outcomes = list(zip(pieces[0::2], pieces[1::2], strict=False))
    assert len(outcomes) == len(shown), done.stdout
    return [
        f"$ {one.command}\n{printed}(exit {code}; the page says)\n{one.output}"
        for one, (printed, code) in zip(shown, outcomes, strict=True)
        if not matches(one.output, printed) or (code != "0") != ("\nError: " in "\n" + one.output)
    ]


def matches(expected: str, printed: str) -> bool:
    """Say whether output is as a page abbreviates it. A command without output on the page may print nothing."""
    pattern = ""
    for line in expected.splitlines():
        if line == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ ]*\n"
    return re.fullmatch(pattern, printed if printed.endswith("\n") or not printed else printed + "\n") is not None

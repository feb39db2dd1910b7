"""`stowplan batch`: many commands from a file in one process, so that plugins are looked up and imported once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from stowplan.cli.entry import BROKEN_PIPE, INTERRUPTED, main
from stowplan.cli.output import check_output, safe, write_file
from stowplan.errors import UsageError

REFUSED = ("batch", "build")
"""Commands with processes of their own."""
ENDING = (INTERRUPTED, BROKEN_PIPE)
"""What a command returns that was interrupted, or whose reader is gone: then the others are not begun."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="commands: one argument a line, an empty line after each command"
    )
    parser.add_argument(
        "--depfile", metavar="FILE", type=Path, help="put the rules of all depfiles that the commands write into one"
    )


def run(arguments: argparse.Namespace) -> int:
    commands = read_commands(arguments.file)
    if arguments.depfile is not None:
        check_output(arguments.depfile, [arguments.file])
    codes = []
    for number, command in enumerate(commands, 1):
        codes.append(_run(command))
        if codes[-1]:
            print(f"{safe(str(arguments.file))}: that was command {number}: {safe(' '.join(command))}", file=sys.stderr)
        if codes[-1] in ENDING:
            break
    if arguments.depfile is not None and not any(codes):
        files = [Path(file) for command in commands for file in _values(command, "--depfile")]
        write_file(arguments.depfile, b"".join(file.read_bytes() for file in files))
    return max(codes, default=0)


def read_commands(path: Path) -> list[list[str]]:
    """Return the commands of a file. Raises `UsageError` for a file or a command that does not do."""
    try:
        text = path.read_text("utf-8", "surrogateescape")
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {err.strerror or err}") from err
    if "\0" in text:
        raise UsageError(f"{path}: holds a zero byte, which no argument can; write one argument a line")
    commands = list(_paragraphs(text))
    for number, command in enumerate(commands, 1):
        if command[0] in REFUSED:
            raise UsageError(f"{path}: command {number}: {command[0]} cannot be one of many; run it on its own")
    return commands


def _paragraphs(text: str) -> Iterator[list[str]]:
    words: list[str] = []
    for line in [*text.split("\n"), ""]:  # not splitlines: an argument may hold any other kind of line's end
        if line:
            words.append(line)
        elif words:
            yield words
            words = []


def _run(command: Sequence[str]) -> int:
    """Run one command as if it were alone: what it changes in the environment is changed back."""
    before = dict(os.environ)
    try:
        return main(command)
    except SystemExit as err:  # --help
        return int(err.code or 0)
    finally:
        sys.stdout.flush()
        os.environ.clear()
        os.environ.update(before)


def _values(command: Sequence[str], option: str) -> Iterator[str]:
    for word, value in zip(command, [*command[1:], ""], strict=True):
        if word == option:
            yield value
        elif word.startswith(f"{option}="):
            yield word[len(option) + 1 :]

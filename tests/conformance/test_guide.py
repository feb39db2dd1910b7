"""The guide for plugin authors: its commands run, and its words are those of the tool."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def test_the_first_command_writes_the_folder_of_the_second_and_the_class_is_its_test(tmp_path: Path) -> None:
    first, second, *_ = blocks("")[0].splitlines()
    assert first.startswith("stowplan plugins new ")
    command = [sys.executable, "-m", *first.split()]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    written = (tmp_path / second.removeprefix("cd ") / "tests" / "test_conformance.py").read_text()
    for line in blocks("python")[0].splitlines():
        assert line in written.splitlines()


def test_check_knows_the_options_that_are_shown() -> None:
    from stowplan.cli.options import Parser
    from stowplan.cli.plugins_command import configure

    parser = Parser(prog="stowplan plugins", description="")
    configure(parser)
    shown = [line.split()[2:] for line in blocks("")[1].splitlines()]
    assert [parser.parse_args(words).action for words in shown] == ["check", "check"]

"""What a terminal sees and a pipe does not: colour, and a sign of life while work takes long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.tflite"


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Run python with output and errors on a pseudo-terminal; return what appeared there."""
    controller, terminal = pty.openpty()
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    if not environment.get("NO_COLOR"):
        variables.pop("NO_COLOR", None)
    process = subprocess.Popen([sys.executable, *arguments], stdout=terminal, stderr=terminal, env=variables)
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # Linux: the last process has closed the terminal
            break
        if not part:
            break
        seen += part
    os.close(controller)
    assert process.wait(timeout=60) == 0
    return seen.decode()


def test_a_report_is_coloured_on_a_terminal_unless_no_color_is_set(shell) -> None:
    command = ("-m", "stowplan", "analyze", str(EXAMPLE), "-m", "4K")
    assert "\x1b[32mfits 4.00 KiB" in on_a_terminal(*command)
    assert "\x1b" not in on_a_terminal(*command, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(*command, TERM="dumb")
    assert "\x1b" not in shell(*command[2:]).out


def test_work_over_a_second_shows_on_a_terminal_what_is_going_on() -> None:
    code = "import time\nfrom stowplan.cli.working import working\nwith working('compiling [x]'): time.sleep({})"
    assert "compiling [x]" in on_a_terminal("-c", code.format(1.6))
    assert on_a_terminal("-c", code.format(0.1)) == ""


def test_the_bar_fills_up_to_the_time_limit_and_without_one_only_moves() -> None:
    code = "import time\nfrom stowplan.cli.working import working\nwith working('searching', {}): time.sleep(3.5)"
    full = on_a_terminal("-c", code.format(2.0), NO_COLOR="1")
    half = on_a_terminal("-c", code.format(7.0), NO_COLOR="1")
    assert "━" * 40 in full and " 3 s" in full
    assert "━" * 40 not in half and "━" * 10 in half
    assert " 3 s" in on_a_terminal("-c", code.format(None), NO_COLOR="1")


def test_work_may_say_what_it_is_at() -> None:
    code = (
        "import sys, time\nfrom stowplan.cli.working import working\n"
        "with working('analyzing') as say:\n"
        "    say('part [1]')\n"
        "    while 'rich.progress' not in sys.modules: time.sleep(0.1)\n"  # a busy machine takes its time to import it
        "    time.sleep(1.5)\n    say('part [2]')\n    time.sleep(0.5)"
    )
    seen = on_a_terminal("-c", code)
    assert "analyzing: part [1]" in seen
    assert "analyzing: part [2]" in seen


def test_work_over_a_second_is_silent_in_a_pipe_and_rich_stays_unimported() -> None:
    code = (
        "import sys, time\nfrom stowplan.cli.working import working\n"
        "with working('x') as say: say('y'); time.sleep(1.2)\nassert 'rich' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")

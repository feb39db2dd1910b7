"""The `stowplan` command: finds the subcommand, runs it, turns what goes wrong into one line and an exit code."""

from __future__ import annotations

import errno
import gc
import os
import sys

from stowplan.errors import StowplanError, UsageError
from stowplan.version import VERSION

TYPE_CHECKING = False  # a warm `compile` cannot afford `typing`, `contextlib` and `collections`
if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "compile": ("compile_command", "fit a model into memory, prove the plan, write it"),
    "analyze": ("analyze_command", "the same report and more; writes nothing"),
    "report": ("report_command", "one page to look at: memory over time, stages, costs, what to change"),
    "inspect": ("inspect_command", "read a model or a plan back"),
    "codegen": ("codegen_command", "write C for firmware from a plan"),
    "run": ("run_command", "run a plan here, exactly as the device will"),
    "verify": ("verify_command", "compare a model's plan with other runtimes"),
    "accelerate": ("accelerate_command", "what an accelerator really takes of a model"),
    "profile": ("profile_command", "where a model's time goes, operator by operator"),
    "build": ("build_command", "every model and target of a project; only what changed"),
    "batch": ("batch_command", "many commands from a file, in one process"),
    "cache": ("cache_command", "what the cache holds, and what an output was made from"),
    "plugins": ("plugins_command", "what is installed, and whether it works; check one, begin one"),
    "doctor": ("doctor_command", "which tools are here, and how to get those that are not"),
    "completion": ("completion_command", "what makes your shell complete these commands"),
}
GARBAGE_THRESHOLD = 50_000
"""A command makes tens of thousands of nouns and hardly a cycle: by default looking for cycles takes a tenth of it."""
INTERRUPTED = 130
BROKEN_PIPE = 141
FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
"""What `print` raises when the disk behind it is full; files that we write ourselves have errors of their own."""


def run() -> None:
    """Run the command of this process and leave it, without taking every module apart first: 5 ms of a cold compile.

    What asked to be told of the end is told. A thread still at work is waited for, the long way.
    """
    code = main()
    threads = sys.modules.get("threading")
    if threads is None or threads.active_count() == 1:
        import atexit

        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
        except OSError:  # what was told of the end wrote more, and nobody reads it
            code = code or 1
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 refused, 2 usage, 3 an internal fault."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    _tolerate_any_text()
    try:
        code = _guarded(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except OSError as err:  # only standard output is left to fail here: a full disk behind it, say
        _silence_stdout()
        print(f"Error: standard output cannot be written: {err.strerror or err}", file=sys.stderr)
        return 1
    return code


def _guarded(arguments: list[str]) -> int:
    try:
        return _dispatch(arguments)
    except StowplanError as err:
        return _refuse(err, arguments)
    except MemoryError:
        return _refuse(StowplanError("this machine has not enough memory for that"), arguments)
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as err:
        if err.filename is None and err.errno in FULL:
            raise
        return _fault(err, arguments)
    except Exception as err:  # the last line of defence: users get one line, not our traceback
        return _fault(err, arguments)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0 if arguments else UsageError.exit_code
    if arguments[0] in ("-V", "--version"):
        print(f"stowplan {VERSION}")
        return 0
    if arguments[0] not in COMMANDS:
        raise UsageError(_unknown(arguments[0]))
    if arguments[0] == "compile" and _is_warm(arguments):
        return 0
    from importlib import import_module

    from stowplan.cli.options import Parser

    module, summary = COMMANDS[arguments[0]]
    command = import_module(f"stowplan.cli.{module}")
    parser = Parser(prog=f"stowplan {arguments[0]}", description=summary[0].upper() + summary[1:] + ".")
    command.configure(parser)
    parsed = parser.parse_args(arguments[1:])
    parsed.words = tuple(arguments)  # as they were typed: what a warm start recognises
    code: int = command.run(parsed)
    return code


def _is_warm(arguments: list[str]) -> bool:
    """Say whether nothing has changed since the same command succeeded; then its report is printed already."""
    from stowplan.cli.warm import answer

    return answer(arguments)


def _overview() -> str:
    rows = "\n".join(f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items())
    return (
        "usage: stowplan COMMAND ...\n\nFits neural networks into small memories.\n\n"
        f"{rows}\n\n  stowplan COMMAND --help says more; stowplan --version, the version.\n"
        "  Exit codes: 0 done, 1 refused, 2 usage, 3 an internal fault."
    )


def _unknown(word: str) -> str:
    import difflib

    near = difflib.get_close_matches(word, COMMANDS, n=1)
    kind = "option" if word.startswith("-") else "command"
    return f'no {kind} "{word}": ' + (f"did you mean {near[0]}?" if near else f"commands are {', '.join(COMMANDS)}")


def _refuse(err: StowplanError, arguments: list[str]) -> int:
    from stowplan.cli.output import print_error

    if _debugging():
        import traceback

        traceback.print_exc()
    print_error(err, as_json="--json" in arguments)
    return err.exit_code


def _fault(err: Exception, arguments: list[str]) -> int:
    from stowplan.errors import InternalFault

    what = f"{type(err).__name__}: {err}" if str(err) else type(err).__name__
    return _refuse(
        InternalFault(
            f"internal fault: {what}. Please report this with the command and the model; STOWPLAN_DEBUG=1 shows where"
        ),
        arguments,
    )


def _debugging() -> bool:
    return os.environ.get("STOWPLAN_DEBUG", "") not in ("", "0")


def _open_closed_streams() -> None:
    """Put nothing where a shell closed a stream (`>&-`): Python has None there, and its number goes to the next file.

    In this order each gets the number that it has everywhere, so that no report ends up in a plan.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (for as long as the process lives)


def _tolerate_any_text() -> None:
    """Let names that the terminal's encoding lacks come out escaped instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        except (AttributeError, ValueError):  # a stream put there by a test has no such method
            continue


def _silence_stdout() -> None:
    """Point standard output elsewhere, or the interpreter complains once more when it flushes at exit."""
    from contextlib import suppress

    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

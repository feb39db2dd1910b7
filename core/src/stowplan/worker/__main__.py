"""`python -m stowplan.worker`: one command of a build, or with `--persistent_worker` all that Bazel sends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from stowplan.errors import UsageError

PERSISTENT = "--persistent_worker"
PROTOCOL = "--protocol="
PROTOCOLS = ("proto", "json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, or serve until standard input ends; return the exit code, the same as `stowplan`'s."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    protocol = "proto"
    while arguments and arguments[0].startswith(PROTOCOL):
        protocol = arguments.pop(0)[len(PROTOCOL) :]
    if protocol not in PROTOCOLS:
        return _refuse(f"{PROTOCOL}{protocol}: protocols are {', '.join(PROTOCOLS)}")
    if PERSISTENT in arguments:
        if not hasattr(os, "fork"):
            return _refuse(f"{PERSISTENT}: needs a system that can fork; set supports_workers = False on the toolchain")
        from stowplan.worker.serve import serve

        return serve(protocol)
    from stowplan.worker.command import own_cache, run

    with own_cache():
        done = run(arguments)
    sys.stderr.write(done.output)
    return done.exit_code


def _refuse(message: str) -> int:
    print(f"Error: {message}", file=sys.stderr)
    return UsageError.exit_code


if __name__ == "__main__":
    sys.exit(main())

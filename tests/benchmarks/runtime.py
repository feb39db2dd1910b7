"""The runtime's speed: on boards in instructions, exact; on this machine against LiteRT, in turn, as ratios of medians.

    python tests/benchmarks/runtime.py [--quick] [--json]

Each half is a script of its own, which has more options: runtime_boards.py and runtime_host.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from measure import arguments

HALVES = ("boards", "host")


def main() -> int:
    options = arguments(__doc__.splitlines()[0])
    flags = [flag for flag, given in (("--quick", options.quick), ("--json", options.json)) if given]
    code, found = 0, {}
    for half in HALVES:
        script = Path(__file__).with_name(f"runtime_{half}.py")
        if not script.exists():
            continue
        done = subprocess.run([sys.executable, script, *flags], stdout=subprocess.PIPE if options.json else None)
        code = max(code, done.returncode)
        if options.json and done.stdout:
            found[half] = json.loads(done.stdout)
    if options.json:
        print(json.dumps(found))
    return code


if __name__ == "__main__":
    raise SystemExit(main())

"""The process in which checks run without pytest: says on standard output which check begins and how it ended."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import stowplan.testing as kit
from stowplan.errors import StowplanError
from stowplan.plugins.loading import one_line
from stowplan.testing.faults import Fault, Skipped


def main() -> None:
    asked = json.loads(sys.argv[1])
    # Standard output is ours alone: what a plugin prints goes to standard error.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    cls = type("Checked", (getattr(kit, asked["cls"]),), asked["settings"])
    for check in asked["checks"]:
        _say(out, check, "begins")
        _say(out, check, *_ended(cls, check))


def _ended(cls: type, check: str) -> tuple[str, str]:
    try:
        getattr(cls(), check)()
    except Skipped as err:
        return "skipped", str(err)
    except Fault as err:
        return "fault", str(err)
    except StowplanError as err:
        return "fault", f"Plugin author: {err}"
    except Exception as err:  # a plugin may fail in ways the kit did not think of
        return "fault", f"Plugin author: the check failed with {one_line(err)}"
    return "ok", ""


def _say(out: Any, check: str, state: str, why: str = "") -> None:
    out.write(json.dumps({"check": check, "state": state, "why": why}) + "\n")
    out.flush()


if __name__ == "__main__":
    main()

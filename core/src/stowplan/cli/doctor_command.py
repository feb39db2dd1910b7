"""`stowplan doctor`: which compilers, emulators, accelerators and plugins are here, and how to get what is not."""

from __future__ import annotations

import argparse

from stowplan.cli.options import add_json
from stowplan.cli.output import columns, painted, print_json, safe


def configure(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from stowplan.build.doctor import FAULT, MISSING, findings
    from stowplan.plugins.host import host
    from stowplan.version import VERSION

    found = list(findings(host()))
    faults = [finding for finding in found if finding.state == FAULT]
    missing = [finding for finding in found if finding.state == MISSING]
    if arguments.json:
        print_json(dict(report=1, version=VERSION, faults=len(faults), missing=len(missing), findings=found))
        return 1 if faults else 0
    print(f"stowplan {VERSION}")
    for area in dict.fromkeys(finding.area for finding in found):
        print(painted(area, "bold"))
        rows = [
            (f.state, f.name, f.found if f.state == "ok" else ". ".join(filter(None, (f.found, safe(f.advice)))))
            for f in found
            if f.area == area
        ]
        print("\n".join(columns(rows)))
    print(f"{len(faults)} to mend, {len(missing)} that only some commands need" if faults or missing else "all is well")
    return 1 if faults else 0

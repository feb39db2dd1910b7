"""The process in which Vela's compiler runs, which may crash: it does so for each error that it raises.

Started as a file, without site and without stowplan, since that takes longer than most models take to compile.
Arguments: the folder that holds the package `ethosu`, and one with `model`, `system`, `options`, `architecture`.
"""

import json
import os
import sys

NUMBERS = ("npuOps", "npuCycles", "totalCycles", "macCount", "originalWeights", "encodedWeights", "readOnlyPeakUsage")


def main(packages: str, work: str) -> None:
    sys.path.insert(0, packages)
    from ethosu import regor

    parts = [_read(work, name) for name in ("architecture", "model", "system", "options")]
    architecture, system, options = (parts[index].decode() for index in (0, 2, 3))
    made = regor.compile(architecture, parts[1], "TFLITE", system, options=options, verbose=False)
    report = made.perf_report
    tables = {
        name: {"header": list(table.header), "rows": [list(row) for row in table.data]}
        for name, table in made.opt_database.tables.items()
        if name in ("source", "perf", "cmdstream")
    }
    numbers = {name: getattr(report, name) for name in NUMBERS}
    memories = {str(name): memory.peakUsage for name, memory in report.memories.items()}
    with open(os.path.join(work, "output"), "wb") as file:
        file.write(made.model)
    with open(os.path.join(work, "report"), "w", encoding="utf-8", errors="backslashreplace") as text:
        json.dump({"tables": tables, "numbers": numbers, "memories": memories}, text)


def _read(work: str, name: str) -> bytes:
    with open(os.path.join(work, name), "rb") as file:
        return file.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

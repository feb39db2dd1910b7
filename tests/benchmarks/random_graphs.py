"""A thousand random networks at eight budgets: every plan is checked and proven.

With one memory, with slow memory as well (whole rows and tiles), and with streamed input and arithmetic done twice.

The kinds are those that other planners get wrong: windows of every stride, dilation, group and padding, strides larger
than the kernel, branches of unequal depth, gated bypasses, transposed convolutions, concatenations. Prints how many
plans were proven and how many budgets were refused; a wrong plan ends the run with its seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from measure import arguments

from fitting import fit_and_prove
from graphs import random_graph
from stowplan.errors import StowplanError


def main() -> None:
    options = arguments(__doc__ or "", _more)
    count, start = (12 if options.quick else options.count), time.perf_counter()
    proven = refused = 0
    for seed in range(options.first, options.first + count):
        dtype = "float32" if seed % 5 == 4 else "int8"
        try:
            good, small = fit_and_prove(random_graph(seed, dtype), budgets=8)
        except StowplanError as err:
            raise SystemExit(f"seed {seed} ({dtype}): {err}") from err
        proven, refused = proven + good, refused + small
    facts = {"graphs": count, "proven": proven, "refused": refused, "wrong": 0, "seconds": time.perf_counter() - start}
    print(json.dumps(facts) if options.json else f"{count} networks: {proven} plans proven, {refused} budgets refused")


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--first", metavar="SEED", type=int, default=10_000, help="seed of the first (10000)")
    parser.add_argument("--count", metavar="N", type=int, default=1000, help="how many (1000)")


if __name__ == "__main__":
    main()

"""`python -m stowplan`: the same as the `stowplan` command."""

import sys

from stowplan.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())

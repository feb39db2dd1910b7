"""`python -m stowplan`: the same as the `stowplan` command."""

from stowplan.cli.entry import run

if __name__ == "__main__":
    run()

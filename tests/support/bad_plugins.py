"""Ten bad plugins, each bad in its own way, in a folder like site-packages."""

from __future__ import annotations

from pathlib import Path

HOOK = "from stowplan.plugins.hooks import hook\n"
SCHEDULER = (
    HOOK
    + """
class Scheduler:
    name, summary, version = "{name}", "made for a test", "1"
    def schedule(self, graph, target, options): raise OSError("no luck")
@hook
def stowplan_schedulers(): return [Scheduler()]
"""
)

BAD = {
    "missing-module": "import nonexistent_module",
    "bad-syntax": "def broken(:",
    "leaves": "import sys; sys.exit(4)",
    "base-exception": "class Odd(BaseException): pass\nraise Odd('odd')",
    "hangs": "import time\nwhile True: time.sleep(1)",
    "prints": "print('hello, standard output')\n" + SCHEDULER.format(name="prints"),
    "hook-raises": HOOK + "@hook\ndef stowplan_backends(): raise ValueError('no\\nluck')",
    "endless": HOOK + "@hook\ndef stowplan_backends():\n    while True: yield 1",
    "odd-name": SCHEDULER.format(name="../odd"),
    "newer-contract": "STOWPLAN_CONTRACT = 9\n" + SCHEDULER.format(name="newer"),
}
"""Names and sources of their modules."""
WORKING = ("prints",)
"""Bad, but not broken: it can be imported and offers something."""
OBSERVER = HOOK + "@hook\ndef stowplan_event(name, facts): raise OSError('disk')"
"""Not one of the ten: whoever observes is told of each compilation, so none is decided before plugins are looked at."""


def install_bad(folder: Path) -> None:
    """Install all ten."""
    for name, source in BAD.items():
        module = name.replace("-", "_") + "_plugin"
        (folder / module).mkdir(parents=True)
        (folder / module / "__init__.py").write_text(source)
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[stowplan]\n{name} = {module}\n")

"""The bound on the stack that headers state, against what the compiler says of every function and who calls whom."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from stowplan.planfile.kinds import NODE_KINDS
from stowplan_backend_c.amalgam import amalgamate
from stowplan_backend_c.codegen import STACK_BYTES

COMPILER = "arm-none-eabi-gcc"
CORES = ["cortex-m0plus", "cortex-m4"]
SELFTEST_BYTES = 352
"""Room for the self test's own frames, above what a run needs."""
ENTRIES = """
stow_status use_open(stow_plan *plan, const void *data, size_t size);
stow_status use_open(stow_plan *plan, const void *data, size_t size) { return stow_open(plan, data, size); }
stow_status use_digest(const void *data, size_t size);
stow_status use_digest(const void *data, size_t size) { return stow_check_digest(data, size); }
stow_status use_bind(stow_context *c, const stow_plan *p, void *f, size_t n, void *s, size_t m);
stow_status use_bind(stow_context *c, const stow_plan *p, void *f, size_t n, void *s, size_t m)
{
    return stow_bind(c, p, f, n, s, m);
}
stow_status use_invoke(stow_context *context);
stow_status use_invoke(stow_context *context) { return stow_invoke(context); }
stow_status use_push(stow_context *context, uint32_t input, const void *rows, uint32_t count);
stow_status use_push(stow_context *context, uint32_t input, const void *rows, uint32_t count)
{
    return stow_push_rows(context, input, rows, count);
}
"""
INNER = re.compile(r"stow_\w+_(?:fetch|portable|dsp|helium|one)(?:_\w+)?$")
"""Functions that kernels call through a pointer: a set's, and those that bring elements together or compute one."""

CHOSEN = {"stow_dsp_run_part": ("stow_dsp_squares", "stow_dsp_lines")}
"""Functions within a set that call one of a few through a pointer, and which."""


class Calls:
    """The graph that the compiler writes: bytes of each function's frame, and whom it calls."""

    def __init__(self, text: str) -> None:
        self.frames: dict[str, int] = {}
        self.called: dict[str, set[str]] = {}
        for title, label in re.findall(r'node: \{ title: "([^"]+)" label: "([^"]*)"', text):
            found = re.search(r"\\n(\d+) bytes \((\w+)\)", label)
            assert found is None or found[2] == "static", f"{title} has a frame of unknown size"
            self.frames[_name(title)] = int(found[1]) if found else 0
        for source, target in re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', text):
            self.called.setdefault(_name(source), set()).add(_name(target))

    @cache  # noqa: B019 - a handful of graphs, each gone with its test
    def deepest(self, name: str, level: str) -> int:
        """Return the most bytes from here on. A pointer leads from the runtime to a kernel or a check, from a kernel to
        an inner loop, and from there nowhere."""
        below = 0
        for target in self.called.get(name, ()):
            followed = self._through(name, level) if target == "__indirect_call" else [(target, level)]
            for callee, after in followed:
                assert callee != name, f"{name} calls itself"
                below = max(below, self.deepest(callee, after))
        return self.frames.get(name, 0) + below

    def _through(self, name: str, level: str) -> list[tuple[str, str]]:
        if _plain(name) in CHOSEN:
            return [(callee, "inner") for callee in self.frames if _plain(callee) in CHOSEN[_plain(name)]]
        if level == "inner":
            return []
        if level == "kernel":
            return [(callee, "inner") for callee in self.frames if INNER.match(_plain(callee)) and callee != name]
        ending = "_check" if "open" in name or "check" in name else "_run"
        return [(callee, "kernel") for callee in self.frames if _plain(callee).endswith(ending)]


def _name(title: str) -> str:
    """Return a function's name without its file."""
    return title.rsplit(":", 1)[-1]


def _plain(name: str) -> str:
    """Return it without what the compiler appends to copies and parts."""
    return name.split(".", 1)[0]


def calls(core: str, level: str, folder: Path) -> Calls:
    (folder / "all.c").write_text(amalgamate(set(NODE_KINDS), lz4=True, range_coder=True) + ENTRIES)
    flags = ["-std=c11", level, *f"-mcpu={core}".split(), "-mthumb", "-ffp-contract=off", "-fcallgraph-info=su"]
    subprocess.run([COMPILER, *flags, "-c", "all.c", "-o", "all.o"], cwd=folder, check=True, timeout=300)
    return Calls((folder / "all.ci").read_text())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"needs {COMPILER}")
@pytest.mark.parametrize("level", ["-O2", "-Os"])
@pytest.mark.parametrize("core", CORES)
def test_no_plan_needs_more_stack_than_headers_state(core: str, level: str, tmp_path: Path) -> None:
    graph = calls(core, level, tmp_path)
    entries: Mapping[str, int] = {
        name: graph.deepest(name, "runtime")
        for name in ("use_open", "use_digest", "use_bind", "use_invoke", "use_push")
    }
    assert all(bytes_ > 0 for bytes_ in entries.values())
    assert max(entries.values()) + SELFTEST_BYTES <= STACK_BYTES, entries
    assert entries["use_invoke"] > 300  # a graph in which pointers lead nowhere would show less

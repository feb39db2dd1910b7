"""A copy of the example project with a Bazel server of its own, and what a build of it did."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BAZEL = Path(__file__).resolve().parents[2] / "integrations" / "bazel"
SECONDS = 900
NOISE = re.compile(r"^(\d+\.\d+: src/main/tools/|Loading:|Analyzing:|    currently loading:|\[\d+ / \d+\])")


@dataclass(frozen=True)
class Build:
    """How Bazel ended, what it said, and how many actions ran where: {"worker": 2, "linux-sandbox": 40}."""

    code: int
    text: str

    @property
    def processes(self) -> dict[str, int]:
        line = re.search(r"INFO: (\d+) process(?:es)?: ?(.*)\.$", self.text, re.MULTILINE)
        assert line is not None, self.text
        return {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z][a-z -]*)", line[2])}

    @property
    def ran(self) -> int:
        """Return how many actions did any work; what Bazel does by itself is no work."""
        return sum(count for kind, count in self.processes.items() if kind != "internal" and "cache hit" not in kind)

    @property
    def hits(self) -> int:
        return sum(count for kind, count in self.processes.items() if "cache hit" in kind)


class Workspace:
    """The example below `folder`. Each has an output base, so that two of them know nothing of each other."""

    def __init__(self, folder: Path, *options: str, python: str = sys.executable) -> None:
        shutil.copytree(BAZEL, folder, ignore=shutil.ignore_patterns("bazel-*"))
        self.folder = folder / "example"
        self.bin = self.folder / "bazel-bin"
        self.options = options
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("STOWPLAN_")}
        self.environment["STOWPLAN_PYTHON"] = python
        self._startup = [
            "bazel", f"--output_base={folder}/output", f"--output_user_root={folder}/root", "--host_jvm_args=-Xmx768m",
            "--max_idle_secs=300",
        ]  # fmt: skip

    def run(self, command: str, *arguments: str) -> Build:
        """Run `bazel COMMAND` and wait for its end."""
        building = command in ("build", "test", "run")
        words = [*self._startup, command, *(["--jobs=2", "--color=no", *self.options] if building else []), *arguments]
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        lines = (done.stderr + done.stdout).splitlines()
        return Build(done.returncode, "\n".join(line for line in lines if not NOISE.match(line)))

    def built(self, *arguments: str) -> Build:
        build = self.run("build", *arguments)
        assert build.code == 0, build.text
        return build

    def tested(self, *arguments: str) -> Build:
        build = self.run("test", *arguments)
        assert build.code == 0, build.text
        return build

    def log(self, *arguments: str) -> list[dict]:
        """Build, and return what is logged of each action that ran: inputs, environment, outputs with digests."""
        path = self.folder / "execution.json"
        self.built(f"--execution_log_json_file={path}", *arguments)
        text, found, at, decoder = path.read_text("utf-8"), [], 0, json.JSONDecoder()
        while at < len(text):
            entry, at = decoder.raw_decode(text, at)
            found.append(entry)
            while at < len(text) and text[at].isspace():
                at += 1
        return found

    def add(self, text: str) -> None:
        """Append targets to the BUILD file."""
        with (self.folder / "BUILD.bazel").open("a") as file:
            file.write("\n" + text)

    def close(self) -> None:
        self.run("shutdown")


def why_not() -> str:
    """Return why Bazel cannot be tested here, or nothing."""
    if shutil.which("bazel") is None:
        return "needs bazel (Debian's bazel-bootstrap will do)"
    return ""

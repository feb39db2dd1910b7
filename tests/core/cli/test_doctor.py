"""`stowplan doctor` on machines with and without what it looks for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest


def report(shell, **environment: str) -> tuple[int, dict[str, dict[str, str]]]:
    done = shell("doctor", "--json", **environment)
    document = json.loads(done.out)
    return done.code, {f"{f['area']}/{f['name']}": f for f in document["findings"]}


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="programs of the test are shell scripts")
def test_what_is_there_is_found_with_its_version_and_what_is_not_with_how_to_get_it(shell, tmp_path: Path) -> None:
    program(tmp_path, "qemu-system-arm", "#!/bin/sh\necho 'QEMU emulator version 77.1'\n")
    program(tmp_path, "cmake", "#!/bin/sh\nexit 3\n")
    program(tmp_path, "gcc-of-mine", "#!/bin/sh\necho 'gcc 99.9'\n")
    code, found = report(shell, PATH=f"{tmp_path}:/bin", CC="gcc-of-mine")
    assert found["emulators/qemu-system-arm"]["found"] == f"QEMU emulator version 77.1 ({tmp_path}/qemu-system-arm)"
    assert found["build systems/cmake"]["advice"].startswith("does not run; for docs/cmake.md")
    assert found["compiler/C compiler"]["found"].startswith("gcc 99.9")
    assert found["python/CPython"]["found"] == ".".join(map(str, sys.version_info[:3]))
    assert found["plugins/backend-c"]["state"] == "ok"
    assert found["accelerators/c"]["found"] == "cpu"
    assert code == 0


def test_a_compiler_that_is_not_there_is_a_fault_with_what_to_do(shell) -> None:
    code, found = report(shell, CC="no-such-compiler")
    assert code == 1
    assert found["compiler/C compiler"]["state"] == "fault"
    assert "correct CC or unset it" in found["compiler/C compiler"]["advice"]
    done = shell("doctor", CC="no-such-compiler")
    assert done.code == 1
    assert "1 to mend" in done.out


def test_without_plugins_it_says_what_to_install(shell) -> None:
    code, found = report(shell, STOWPLAN_PLUGINS="nothing")
    assert code == 1
    assert found["plugins/backend-c"]["advice"]
    assert found["plugins/importer"]["advice"] == "no model can be read: pip install stowplan-importer-tflite"


@pytest.mark.skipif(
    os.name != "posix" or (os.geteuid() == 0 and not Path("/proc/version").exists()), reason="needs /proc"
)
def test_a_cache_that_cannot_be_written_is_told(shell) -> None:
    _, found = report(shell, STOWPLAN_CACHE_DIR="/proc/version/cache")
    assert found["cache/folder"]["state"] == "missing"
    assert "Set STOWPLAN_CACHE_DIR" in found["cache/folder"]["advice"]

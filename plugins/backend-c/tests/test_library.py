"""The host library is built once, found again quickly, and never taken from where others can write."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.errors import PluginError, RuntimeFailure
from stowplan.native.toolchain import find_compiler
from stowplan_backend_c import CBackend
from stowplan_backend_c.library import LIBRARY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses a shell script as the compiler")


@pytest.fixture
def quick_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that writes its arguments to its output and notes each call: builds take no time."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "fakecc"
    script.write_text(
        '#!/bin/sh\necho call >> "$0.calls"\nout=\nfor a in "$@"; do [ "$p" = -o ] && out=$a; p=$a; done\n'
        'echo "$@" > "$out"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path / "cache"))
    return script


def calls(script: Path) -> int:
    log = Path(f"{script}.calls")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_the_second_call_finds_what_the_first_built(quick_compiler: Path) -> None:
    first = LIBRARY.path()
    assert LIBRARY.path() == first
    assert calls(quick_compiler) == 1
    assert "-ffp-contract=off" in first.read_text()


def test_another_compiler_or_option_is_another_library(quick_compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = LIBRARY.path()
    quick_compiler.write_text(quick_compiler.read_text() + "\n# changed\n")
    second = LIBRARY.path()
    monkeypatch.setenv("CC", f"{quick_compiler} -m64")
    third = LIBRARY.path()
    assert len({first, second, third}) == 3
    assert "-m64" in third.read_text()


def test_folder_and_library_are_private(quick_compiler: Path) -> None:
    library = LIBRARY.path()
    for path in (library, library.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [path.name for path in library.parent.iterdir()] == [library.name]


def test_a_library_that_others_may_write_to_is_not_loaded(quick_compiler: Path) -> None:
    library = LIBRARY.path()
    library.chmod(0o777)
    assert LIBRARY.path() == library
    assert calls(quick_compiler) == 2
    assert stat.S_IMODE(library.stat().st_mode) == 0o700


def test_a_folder_that_others_may_write_to_is_not_used(quick_compiler: Path) -> None:
    folder = LIBRARY.path().parent
    folder.chmod(0o777)
    assert LIBRARY.path().parent != folder


def test_a_damaged_library_is_built_again(quick_compiler: Path) -> None:
    library = LIBRARY.path()
    assert LIBRARY.rebuilt(library) == library
    assert calls(quick_compiler) == 2


def test_a_compiler_that_fails_is_one_line_with_its_first_error(
    quick_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_compiler.write_text("#!/bin/sh\necho 'note: hello' >&2\necho 'x.c:1: error: no luck' >&2\nexit 1\n")
    with pytest.raises(RuntimeFailure, match=r"fakecc could not build stow: x.c:1: error: no luck$"):
        LIBRARY.path()
    assert list((Path(os.environ["STOWPLAN_CACHE_DIR"]) / "native").iterdir()) == []


def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeFailure, match=r"no C compiler found .*pip install ziglang"):
        find_compiler()
    assert "pip install ziglang" in CBackend().available().why


def test_a_cc_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc -O2")
    with pytest.raises(RuntimeFailure, match="CC=no-such-cc -O2: there is no program no-such-cc"):
        find_compiler()
    monkeypatch.setenv("CC", "cc 'open")
    with pytest.raises(RuntimeFailure, match="cannot be split"):
        find_compiler()


def test_many_processes_at_once_end_up_with_one_sound_library(quick_compiler: Path) -> None:
    code = "from stowplan_backend_c.library import LIBRARY; print(LIBRARY.path())"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(6)]
    found = {process.communicate(timeout=120)[0].strip() for process in running}
    assert len(found) == 1
    library = Path(found.pop())
    assert library.stat().st_size > 0
    assert [path.name for path in library.parent.iterdir()] == [library.name]


def test_importing_the_plugin_imports_neither_ctypes_nor_numpy() -> None:
    code = "import sys, stowplan_backend_c; print([m for m in ('ctypes', 'numpy', 'subprocess') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_ready_made_library_is_taken_when_it_was_built_with_the_same_options(
    quick_compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "stow.so"
    made.write_bytes(b"")
    monkeypatch.setenv("STOWPLAN_NATIVE", str(tmp_path))
    with pytest.raises(PluginError, match=r"was built with other options than -std=c11 .*build the libraries of"):
        LIBRARY.path()
    made.with_suffix(".options").write_text("\n".join(LIBRARY.options()))
    assert LIBRARY.path() == made
    assert calls(quick_compiler) == 0
    with pytest.raises(PluginError, match="cannot be loaded"):
        LIBRARY.load(())
    made.unlink()
    with pytest.raises(PluginError, match="is not there"):
        LIBRARY.path()


def test_ready_made_libraries_stand_in_a_cache_key_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "stow.so"
    made.write_bytes(b"one")
    monkeypatch.setenv("STOWPLAN_NATIVE", str(tmp_path))
    first, watched = CBackend().host_identity()
    assert (first["compiler"], watched) == ("ready-made", (str(made),))
    made.write_bytes(b"two")
    assert CBackend().host_identity()[0] != first

"""The library: found without importing its package, and refused when it is not the one whose layouts are known."""

from __future__ import annotations

import ctypes
import ctypes.util
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan_backend_litert import available, layouts, library
from stowplan_backend_litert.errors import LibraryUnavailableError


def test_the_structs_have_the_sizes_of_the_library() -> None:
    library.check_platform()
    assert {kind.__name__: ctypes.sizeof(kind) for kind in layouts.SIZES} == {
        kind.__name__: size for kind, size in layouts.SIZES.items()
    }


def test_a_system_that_nobody_tried_is_refused() -> None:
    with pytest.raises(LibraryUnavailableError, match="on Linux and macOS only"):
        library.check_platform("win32")


def test_a_struct_of_another_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(layouts.SIZES, layouts.Layout, 67)
    with pytest.raises(LibraryUnavailableError, match=r"another layout on this platform \(Layout\)"):
        library.check_platform()


@pytest.mark.parametrize("found", ["2.2.0", "2.4.0.dev20261026", "3.0", ""])
def test_a_version_that_nobody_tried_is_refused_unless_asked_for(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.ANY_VERSION, raising=False)
    with pytest.raises(LibraryUnavailableError, match=r"has not been tried with this plugin; install it with: pip"):
        library.check_version(found)
    monkeypatch.setenv(library.ANY_VERSION, "1")
    library.check_version(found)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / library.FILE
    path.write_bytes(b"\x7fELF but not really")
    with pytest.raises(LibraryUnavailableError, match="cannot be loaded"):
        library.load(str(path))


def test_a_library_without_a_function_that_is_needed_is_refused() -> None:
    name = ctypes.util.find_library("c")
    with pytest.raises(LibraryUnavailableError, match="has no function LiteRtCreateEnvironment"):
        library.load(name or "libc.so.6")


def test_a_missing_library_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['ai_edge_litert'] = None\n"
        "import stowplan_backend_litert as s\n"
        "from stowplan_backend_litert import LiteRtBackend\n"
        "print(s.available(), LiteRtBackend().available())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("False Availability(ok=False, why=")
    assert "LiteRT is not installed here" in out
    assert "pip install" in out


def test_available_loads_nothing() -> None:
    code = "import sys, stowplan_backend_litert as s; print(s.available(), 'numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["True", "False"]
    assert available()


def test_running_a_model_imports_neither_numpy_nor_the_package_of_the_library(digits: Path) -> None:
    code = (
        "import sys\nfrom stowplan_backend_litert import CompiledModel, Environment\n"
        f"m = CompiledModel(Environment(), {str(digits)!r}); m.run([bytes(m.io_sizes()[0][0])])\n"
        "print([n for n in ('numpy', 'ai_edge_litert', 'flatbuffers', 'pluggy') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_listing_the_plugin_imports_no_ctypes() -> None:
    code = "import sys, stowplan_backend_litert; print('ctypes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"

"""The documentation: builds without a warning, opens without a complaint, and what it shows is what happens."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browser import browser
from shown_commands import matches, run_shown, shown_commands, shown_files

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([DOCS / "quickstart.md", *DOCS.glob("guides/*.md")])
"""The commands of the others are run where what they are about is tested."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="needs mkdocs-material")
    pytest.importorskip("mkdocstrings", reason="needs mkdocstrings-python")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)], cwd=ROOT, text=True,
        capture_output=True, timeout=300, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_every_page_opens_without_complaint_and_asks_nobody_else(site: Path, address: str) -> None:
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("*.html") if page.name != "404.html")
    assert len(pages) >= 18
    with browser() as chromium:
        for page in pages:
            chromium.open(address + page)
            assert chromium.value("document.querySelector('h1').textContent")
            text = chromium.value("document.querySelector('article').innerText")
            assert "| ---" not in text, f"{page}: a table that is none"
        assert chromium.complaints == []
        assert [url for url in chromium.asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    if "accelerat" in page.name:
        pytest.importorskip("ai_edge_litert", reason="needs ai-edge-litert")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {"STOWPLAN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    if shown_files(page):
        place = str(installed(shown_files(page), tmp_path))
        environment["PYTHONPATH"] = os.pathsep.join((place, environment["PYTHONPATH"]))
    assert shown_commands(page)
    wrong = run_shown(page, tmp_path, **environment)
    assert wrong == [], "\n\n".join(wrong)


def installed(files: dict[str, str], folder: Path) -> Path:
    """Write a page's files as a project and install it into a folder of its own."""
    project, target = folder / "project", folder / "installed"
    project.mkdir()
    for name, text in files.items():
        (project / name).write_text(text, "utf-8")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(target)]
    command = [sys.executable, "-m", "pip", "install", *options, str(project)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "No module named pip" in done.stderr:
        pytest.skip("needs pip")
    assert done.returncode == 0, done.stderr
    return target


def test_the_plugin_of_the_guide_compresses_a_plan(tmp_path: Path) -> None:
    """As far as a compressor without a decoder on the device can: its record does what its kind promises."""
    files = shown_files(DOCS / "guides" / "plugins.md")
    module = tmp_path / "stowplan_compressor_bz2.py"
    module.write_text(files[module.name], "utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        found = __import__("stowplan_compressor_bz2").stowplan_compressors()
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("stowplan_compressor_bz2", None)
    (compressor,) = found
    data = bytes(range(256)) * 9
    assert compressor.decompress(compressor.compress(data), len(data)) == data


def test_every_variable_that_the_sources_read_is_in_the_reference_and_no_other() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        from generated import SETTINGS
    finally:
        sys.path.remove(str(DOCS))
    read: set[str] = set()
    for source in [*ROOT.glob("core/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]:
        read.update(re.findall(r'"(STOWPLAN_[A-Z_]+[A-Z])"', source.read_text("utf-8")))
    assert set(SETTINGS) == read - {"STOWPLAN_REMOTE", "STOWPLAN_CONTRACT"}  # what names begin with; a plugin's own


def test_the_picture_is_the_plan_of_today(tmp_path: Path) -> None:
    model = tmp_path / "digits_int8.tflite"
    shutil.copy(ROOT / "examples" / "digits" / model.name, model)
    drawn = tmp_path / "map.svg"
    command = [sys.executable, "-m", "stowplan", "compile", str(model), "-m", "700", "-q", "--plot", str(drawn)]
    subprocess.run(command, check=True, timeout=120)
    again = "stowplan compile examples/digits/digits_int8.tflite -m 700 --plot docs/digits.svg"
    assert drawn.read_bytes() == (DOCS / "digits.svg").read_bytes(), f"draw it again: {again}"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a ... c\n", "a b c\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "b\nc\n", False),
        ("", "", True),
        ("", "a\n", False),
        ("...\n", "", True),
        ("a.c\n", "abc\n", False),
    ],
)
def test_output_is_compared_as_abbreviated(expected: str, printed: str, same: bool) -> None:
    assert matches(expected, printed) == same

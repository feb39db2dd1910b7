"""`stowplan report` in a real browser: no complaint, nothing from elsewhere, both schemes, all by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser, browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def page(stowplan, digits: Path, tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    assert stowplan("report", digits, "-m", "512+64K", "-o", path).code == 0
    return path


def moment(chromium: Browser) -> tuple[int, int, int]:
    """What the page says of its cursor: firing, bytes, tensors; the table must agree with the words."""
    words = chromium.value("document.getElementById('moment').textContent")
    firing, size, tensors = re.fullmatch(
        r"Firing (\d+) of \d+, stage \d+: ([\d,]+) B in (\d+) tensors?", words
    ).groups()
    rows = chromium.value("Array.from(document.querySelectorAll('#readout tbody td:nth-child(3)'), c => c.textContent)")
    assert len(rows) == int(tensors)
    assert sum(int(row.replace(",", "")) for row in rows) == int(size.replace(",", ""))
    return int(firing), int(size.replace(",", "")), int(tensors)


@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_without_complaint_and_asks_for_nothing_else(chromium: Browser, page: Path, dark: bool) -> None:
    chromium.complaints.clear()
    chromium.asked.clear()
    chromium.open(page, dark=dark)
    moment(chromium)
    assert chromium.complaints == []
    assert chromium.asked == [page.resolve().as_uri()]
    assert chromium.picture().startswith(b"\x89PNG")


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(chromium: Browser, page: Path, dark: bool) -> None:
    """WCAG asks for 4.5 to 1."""
    chromium.open(page, dark=dark)
    for selector in ("body", ".soft", ".verdict", "th", "a", "svg .quiet", "svg .peaktext", "svg .budgettext"):
        assert contrast(chromium, selector) >= 4.5, (selector, dark)


def contrast(chromium: Browser, selector: str) -> float:
    found = chromium.value(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}), s = getComputedStyle(e);"
        " return [e instanceof SVGElement ? s.fill : s.color, getComputedStyle(document.body).backgroundColor]; })()"
    )
    light, dark = sorted((luminance(colour) for colour in found), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_cursor_begins_at_the_peak_and_goes_where_the_keys_say(stowplan, chromium: Browser, page: Path) -> None:
    chromium.open(page)
    steps, peak = (int(chromium.value(f"document.getElementById('chart').dataset.{key}")) for key in ("steps", "peak"))
    stages = json.loads(chromium.value("document.getElementById('chart').dataset.stages"))
    assert moment(chromium)[0] == peak
    for _ in range(20):  # to the map without a mouse
        if chromium.value("document.activeElement.id") == "chart":
            break
        chromium.press("Tab")
    assert chromium.value("document.activeElement.id") == "chart"
    for key, firing in (("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("End", steps - 1), ("p", peak)):
        chromium.press(key)
        assert moment(chromium)[0] == firing, key
    if len(stages) > 1:
        chromium.press("Home")
        chromium.press("PageDown")
        assert moment(chromium)[0] == stages[1][0]


def test_a_tensor_of_the_table_is_lit_in_the_map_when_it_has_the_focus(chromium: Browser, page: Path) -> None:
    chromium.open(page)
    chromium.value("document.querySelector('#readout tbody tr').focus()")
    name = chromium.value("document.querySelector('#readout tbody td').textContent")
    assert chromium.value("document.querySelector('#chart .box.lit').getAttribute('aria-label')") == name
    chromium.value("document.activeElement.blur()")
    assert chromium.value("document.querySelectorAll('#chart .box.lit').length") == 0


def test_pointing_at_the_map_moves_the_cursor(chromium: Browser, page: Path) -> None:
    chromium.open(page)
    place = "document.querySelector('#chart g.boxes').getBoundingClientRect()"
    chromium.value("document.getElementById('chart').scrollIntoView()")
    left, top = chromium.value(f"{place}.left"), chromium.value(f"{place}.top")
    chromium.point(left + 2, top + 20)
    assert moment(chromium)[0] == 0


def test_the_peak_on_the_page_is_the_one_the_scheduler_counted(
    stowplan, chromium: Browser, digits: Path, page: Path
) -> None:
    facts = json.loads(stowplan("analyze", digits, "-m", "512+64K", "--json").out)
    chromium.open(page)
    fast = chromium.value(
        "Array.from(document.querySelectorAll('#readout tbody tr')).filter(r => r.children[1].textContent == 'fast')"
        ".reduce((sum, r) => sum + Number(r.children[2].textContent.replace(',', '')), 0)"
    )
    assert fast == facts["live_peak_bytes"]


def test_a_narrow_screen_scrolls_tables_and_not_the_page(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=400)
    assert chromium.value("document.documentElement.scrollWidth") <= 400


def test_the_map_is_drawn_with_thin_lines(chromium: Browser, page: Path) -> None:
    """Boxes are scaled; their outlines must not be."""
    chromium.open(page)
    effect = "getComputedStyle(document.querySelector('#chart .box > rect')).vectorEffect"
    assert chromium.value(effect) == "non-scaling-stroke"


def test_names_of_a_model_are_text_and_never_markup(stowplan, chromium: Browser, tmp_path: Path) -> None:
    from graphs import GraphBuilder
    from stowplan.build.facts import Facts
    from stowplan.build.memory_map import memory_map
    from stowplan.build.prove import separate_schedule
    from stowplan.cli.page import page as make_page
    from stowplan.nouns import replace

    evil = "</style></script><script>document.title='taken'</script><img src=x onerror=alert(1)>\"'&"
    b = GraphBuilder()
    graph = b.graph(b.unary(b.input(1, 4, 4, 2), "relu"))
    graph = replace(graph, tensors=tuple(replace(tensor, name=evil) for tensor in graph.tensors), name=evil)
    facts = Facts(file=evil, name=evil, dtype=evil, operators=1, inputs=(), outputs=(), notes=(evil,))
    path = tmp_path / "evil.html"
    path.write_text(make_page(facts, memory_map(graph, separate_schedule(graph)), (), evil), "utf-8")
    chromium.complaints.clear()
    chromium.open(path)
    assert chromium.value("document.title").endswith("stowplan report")
    assert chromium.value("document.querySelectorAll('img').length") == 0
    assert chromium.value("document.querySelector('h1').textContent") == evil
    assert chromium.complaints == []

"""What the plots share: text that is safe in XML, ticks at round numbers, colours that read on light and dark paper."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

from stowplan.units import format_size

FONT_PX = 12
STYLE = """
text{font:12px ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#24292f}
.title{font-weight:600;font-size:15px}.quiet{fill:#57606a}.in{fill:#101418;font-size:11px;pointer-events:none}
.paper{fill:#ffffff}.plot{fill:#f6f8fa}.grid{stroke:#d0d7de;stroke-width:1}.frame{fill:none;stroke:#8c959f}
.odd{fill:#d8dee4}.even{fill:#eaeef2}.border{stroke:#8c959f;stroke-dasharray:2 3}
.peak{stroke:#cf222e;stroke-width:1.5}.peaktext{fill:#cf222e}
.budget{stroke:#8250df;stroke-width:1.5;stroke-dasharray:7 4}
.budgettext{fill:#8250df}.curve{fill:none;stroke:#0969da;stroke-width:2}.dot{fill:#0969da}
.box{stroke:#24292f;stroke-opacity:.35}.box>*{vector-effect:non-scaling-stroke}.box>*:hover{fill-opacity:.55}
.kept{fill:#8c959f;fill-opacity:.45}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.in{fill:#101418}.paper{fill:#0d1117}
.plot{fill:#161b22}.grid{stroke:#30363d}.frame{stroke:#6e7681}.odd{fill:#2d333b}.even{fill:#21262d}
.border{stroke:#6e7681}.peak{stroke:#ff7b72}.peaktext{fill:#ff7b72}.budget{stroke:#d2a8ff}.budgettext{fill:#d2a8ff}
.curve{stroke:#58a6ff}.dot{fill:#58a6ff}.box{stroke:#0d1117}}
"""
"""Both schemes; the first is what viewers without media queries show. Boxes keep their colours in both."""


def escaped(text: str, length: int = 80) -> str:
    """Return text for an XML element or attribute, shortened; names come from models and may hold anything."""
    shown = text if len(text) <= length else text[: length - 3] + "..."
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def document(width: int, height: int, title: str, body: Sequence[str]) -> str:
    """Return a whole file: no scripts, nothing from elsewhere."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escaped(title)}</title><style>{STYLE.strip()}</style>'
        f'<rect class="paper" width="{width}" height="{height}"/>'
    )
    return "\n".join([head, *body, "</svg>", ""])


def label(x: float, y: float, text: str, kind: str = "", anchor: str = "start", length: int = 80) -> str:
    """Return a line of text at a point of its base line."""
    attributes = (f' class="{kind}"' if kind else "") + ("" if anchor == "start" else f' text-anchor="{anchor}"')
    return f'<text x="{short(x)}" y="{short(y)}"{attributes}>{escaped(text, length)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{short(x1)}" y1="{short(y1)}" x2="{short(x2)}" y2="{short(y2)}"/>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}"/>'


def short(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def width_of(text: str, font_px: float = FONT_PX) -> float:
    """Return about how wide text is drawn; an estimate on the wide side."""
    return len(text) * font_px * 0.6


def colour(index: int) -> str:
    """Return the colour of the index-th tensor: neighbours far apart in hue, all light enough for dark text."""
    hue = (index * 0.61803398875 + 0.58) % 1.0
    light = (0.68, 0.76, 0.61)[index % 3]
    red, green, blue = colorsys.hls_to_rgb(hue, light, 0.58)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def round_ticks(most: int, count: int, binary: bool) -> list[int]:
    """Return about `count` multiples of a round number from 0 to `most`: powers of two for bytes, else 1, 2, 5."""
    step = 1
    factors = (2,) if binary else (2, 2.5, 2)
    turn = 0
    while most / step > count:
        step = int(step * factors[turn % len(factors)])
        turn += 1
    return list(range(0, most + 1, step))


def size_label(size_bytes: int) -> str:
    """Return a size for an axis, without needless decimals."""
    return format_size(size_bytes).replace(".00 ", " ")

"""Names in generated C: what may begin every symbol, and what may stand in a comment."""

from __future__ import annotations

import re

from stowplan.errors import UsageError

MAX_NAME = 64


def checked_name(name: str) -> str:
    """Return a name that can begin every symbol of a generated source, or raise `UsageError`."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII) or len(name) > MAX_NAME:
        raise UsageError(
            f"--name {name}: is no C identifier of at most {MAX_NAME} letters, digits and underscores; "
            f"try --name {safe_name(name)}"
        )
    if re.match(r"stow(_|$)", name.lower()):
        raise UsageError(f"--name {name}: would clash with the runtime's own names; try --name {safe_name(name)}")
    return name


def safe_name(text: str) -> str:
    """Return a C identifier that resembles a model's name."""
    stem = re.sub(r"\.(tflite|onnx|stow)$", "", text, flags=re.IGNORECASE)
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")[: MAX_NAME - len("model_")].rstrip("_")
    if not name:
        return "model"
    return f"model_{name}" if name[0].isdigit() or re.match(r"stow(_|$)", name) else name


def comment(text: str) -> str:
    """Return text that can stand in a C comment or string: nothing in it ends or begins either."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+=/()\[\]-]", "_", text)[:200].strip()

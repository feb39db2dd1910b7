"""What LiteRT's tests share: an environment, the shipped model, and model files made on the spot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from stowplan_backend_litert import CompiledModel, Environment, compiled

ROOT = Path(__file__).parents[3]
MODELS = ROOT.parent / "shared" / "models"


@pytest.fixture(scope="session")
def digits() -> Path:
    return ROOT / "examples" / "digits" / "digits_int8.tflite"


@pytest.fixture
def env() -> Iterator[Environment]:
    with Environment() as made:
        yield made


@pytest.fixture(params=["piece by piece", "in one call"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run models the long way or, from their first run on, through the compiled function that they get later."""
    chosen: str = request.param
    if chosen == "in one call":
        refresh = CompiledModel._refresh

        def at_once(model: CompiledModel) -> None:
            refresh(model)
            model._hasten()

        monkeypatch.setattr(compiled, "WORTH_IT", 1)
        monkeypatch.setattr(CompiledModel, "_refresh", at_once)
    return chosen


@pytest.fixture
def shared_model() -> Callable[[str], Path]:
    def find(name: str) -> Path:
        if not MODELS.is_dir():
            pytest.skip("needs ../shared/models")
        return MODELS / f"{name}.tflite"

    return find


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    """Return a function that puts bytes into a model file."""

    def to_file(data: bytes, name: str = "model.tflite") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return to_file

"""A compiled model that is called like a function and tells telemetry how long each call took."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from stowplan.build.telemetry import Telemetry

if TYPE_CHECKING:
    from stowplan.plugins.kinds import Compiled, Metrics, Port


class Loaded:
    """`model(*inputs)` gives outputs, all as bytes in the order of the ports. Not for two threads at once."""

    def __init__(self, compiled: Compiled, key: str, telemetry: Telemetry) -> None:
        self._compiled = compiled
        self._key = key
        self._telemetry = telemetry

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self._compiled.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self._compiled.outputs

    def __call__(self, *inputs: bytes) -> list[bytes]:
        return self.run(inputs)

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        return self.run_with_metrics(inputs)[0]

    def run_with_metrics(self, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]:
        """Run once. Raises `RuntimeFailure` for a wrong number or size of inputs."""
        with self._telemetry.span("execution", key=self._key):
            return self._compiled.run_with_metrics(inputs)

    def close(self) -> None:
        self._compiled.close()

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

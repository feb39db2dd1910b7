"""A model compiled for an Ethos-U as `stowplan accelerate` and `stowplan profile` see it: a report, and no run."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.errors import RuntimeFailure, UnsupportedError
from stowplan.flow.model import Model
from stowplan.plugins.kinds import Acceleration, LoadOptions, Metrics, Port, Share
from stowplan_backend_ethosu.compiling import Made, compiled
from stowplan_backend_ethosu.machine import machine


class EthosuModel:
    """What Vela made of a model. Its code runs on a board, so it has an `estimate` in place of runs."""

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()

    def __init__(self, model: Model, made: Made, acceleration: Acceleration) -> None:
        self.name = model.name
        self.made = made
        self.acceleration = acceleration

    @property
    def fully_accelerated(self) -> bool:
        return self.acceleration.fully

    @property
    def estimate(self) -> Metrics:
        report = self.made.report
        return Metrics(duration_ns=report.duration_ns(report.cycles), counters=report.counters)

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        raise self._elsewhere()

    def run_with_metrics(self, inputs: Sequence[bytes]) -> tuple[list[bytes], Metrics]:
        raise self._elsewhere()

    def close(self) -> None:
        """Do nothing: it holds no more than bytes."""

    def _elsewhere(self) -> RuntimeFailure:
        used = self.acceleration.used
        return RuntimeFailure(
            f"{self.name}: code for {used} does not run here; stowplan accelerate --aot {used} -o FILE makes the "
            "model for the board"
        )


def load_model(model: Model, options: LoadOptions) -> EthosuModel:
    """Compile for the first of the accelerators that takes any of the model. Raises what the last one said."""
    shares: list[Share] = []
    machines = [machine(name) for name in options.accelerators]
    refused: UnsupportedError | None = None
    for index, (name, wanted) in enumerate(zip(options.accelerators, machines, strict=True)):
        try:
            made = compiled(model, wanted)
        except UnsupportedError as err:
            refused = err
            shares.append(Share(accelerator=name, present=None, tried=True, why="; ".join(err.reasons[:3])))
            continue
        counts = made.counts
        shares.append(Share(accelerator=name, present=None, tried=True, taken=counts.taken,
                            partitions=counts.partitions, device=f"{wanted.system}, {wanted.memory}",
                            why=_left(made)))  # fmt: skip
        shares += [Share(accelerator=later, present=None, tried=False) for later in options.accelerators[index + 1 :]]
        return EthosuModel(model, made, Acceleration(
            asked=options.accelerators, used=name, operators=counts.operators, taken=counts.taken,
            fully=counts.taken == counts.operators, shares=tuple(shares),
        ))  # fmt: skip
    assert refused is not None  # there is at least one accelerator, and each was refused
    raise refused


def _left(made: Made) -> str:
    left = [operator.kind for operator in made.report.operators if not operator.taken]
    return f"left to the CPU: {', '.join(dict.fromkeys(left))}" if left else ""

"""What the kit says of profilers whose estimates are wrong: Vela's own, spoiled one way at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest

from stowplan.nouns import replace
from stowplan.testing import Fault, ProfilerConformance
from stowplan_backend_ethosu import EthosuBackend, EthosuProfiler
from stowplan_backend_ethosu.profiler import EthosuProfile

DIGITS = str(Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_int8.tflite")
pytestmark = pytest.mark.skipif(not EthosuBackend().available().ok, reason="Vela is not installed")


class Forgetful(EthosuProfile):
    def reset(self) -> None:
        self._report = replace(self._report, operators=())


class Unmarked(EthosuProfile):
    def events(self, limit: int) -> Any:
        return [replace(event, estimated=False) for event in super().events(limit)]


class Microseconds(EthosuProfile):
    def by_kind(self) -> Any:
        return [replace(total, duration_ns=total.duration_ns // 1000) for total in super().by_kind()]


class Backwards(EthosuProfile):
    def by_operator(self) -> Any:
        return super().by_operator()[::-1]


def kit(profile: type[EthosuProfile], supports: bool | None = True) -> ProfilerConformance:
    class Spoiled(ProfilerConformance):
        plugin = "backend-ethosu"
        model = DIGITS
        supports_estimates = supports

    class Profiler(EthosuProfiler):
        def attach(self, compiled: Any) -> Any:
            return profile.of(compiled)

    found = Spoiled()
    found.__dict__["record"] = Profiler()
    return found


@pytest.mark.parametrize(("profile", "check", "message"), [
    (Forgetful, "test_estimates_are_there_at_once_and_stay", "reset() changes estimates. They are not recorded"),
    (Unmarked, "test_estimates_are_there_at_once_and_stay", "or an event is not marked estimated"),
    (Microseconds, "test_gives_nanoseconds", "where 1 runs took"),
    (Backwards, "test_totals_come_slowest_first_and_operators_in_order", "by_operator() is not in the order of a run"),
])  # fmt: skip
def test_each_mistake_is_found(profile: type[EthosuProfile], check: str, message: str) -> None:
    getattr(kit(EthosuProfile), check)()
    with pytest.raises(Fault) as err:
        getattr(kit(profile), check)()
    assert message in str(err.value)


def test_the_capability_is_held_to_what_the_model_says() -> None:
    assert kit(EthosuProfile, None).runner().accelerators()
    with pytest.raises(Fault, match=r"the loaded model has an estimate\. supports_estimates is False"):
        kit(EthosuProfile, False).test_gives_nanoseconds()


@pytest.mark.parametrize("check", [
    "test_reset_forgets", "test_a_recorded_run_computes_the_same", "test_two_recordings_do_not_share",
    "test_is_paused_until_resumed_and_after_a_pause",
])  # fmt: skip
def test_what_needs_runs_is_skipped(check: str) -> None:
    with pytest.raises(SkipTest, match="has an estimate in place of runs"):
        getattr(kit(EthosuProfile), check)()


def test_a_model_that_runs_here_has_no_estimate_to_insist_on() -> None:
    class Host(ProfilerConformance):
        plugin = "profiler-host"
        backend = "c"
        supports_estimates = True

    with pytest.raises(Fault, match=r"has no estimate\. supports_estimates is True"):
        Host().test_gives_nanoseconds()

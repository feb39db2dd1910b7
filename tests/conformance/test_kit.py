"""The kit's own promises: one way to waive, a recorder, fixtures, and samples that really differ."""

from __future__ import annotations

import pytest

from stowplan.flow.graph import Graph
from stowplan.plugins.host import Host
from stowplan.testing import GRAPHS, Fault, GraphBuilder, SchedulerConformance, plan_of, record_hooks, skip
from stowplan.testing.fixtures import hook_calls, make_plan, small_graph  # noqa: F401
from stowplan.testing.soundness import unsoundness
from stowplan.testing.waivers import complaints


class Sound(SchedulerConformance):
    plugin = "scheduler-acme"
    supports_streamed_inputs = False

    @pytest.mark.xfail(reason="it keeps no row free until version 2")
    def test_keeps_what_is_reserved_for_weights_free(self) -> None:
        super().test_keeps_what_is_reserved_for_weights_free()

    def test_of_my_own(self) -> None:
        pass


def test_a_waiver_with_a_reason_and_further_tests_are_fine() -> None:
    assert list(complaints(Sound)) == []


class Silent(SchedulerConformance):
    def test_states_true_peaks(self) -> None:
        pass


class NoReason(SchedulerConformance):
    @pytest.mark.xfail
    def test_states_true_peaks(self) -> None:
        super().test_states_true_peaks()


class Skipped(SchedulerConformance):
    @pytest.mark.skip(reason="no time")
    def test_states_true_peaks(self) -> None:
        super().test_states_true_peaks()


class Nothing(SchedulerConformance):
    test_states_true_peaks = None  # type: ignore[assignment]


class WholeClass(SchedulerConformance):
    pytestmark = pytest.mark.xfail(reason="all of it")


class UnknownFlag(SchedulerConformance):
    supports_time_travel = True


class OtherMachinery(SchedulerConformance):
    def verified(self, call: str, graph: Graph, schedule: object) -> None:
        pass


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Silent, "Silent.test_states_true_peaks replaces a check of the kit. To waive it"),
        (NoReason, "NoReason.test_states_true_peaks replaces a check"),
        (Skipped, "Skipped.test_states_true_peaks replaces a check"),
        (Nothing, "Nothing.test_states_true_peaks replaces a check"),
        (WholeClass, "WholeClass is marked as a whole"),
        (UnknownFlag, "is no capability that the kit asks about. Those are: supports_streamed_inputs."),
        (OtherMachinery, "OtherMachinery.verified replaces a part of the kit"),
    ],
)
def test_any_other_way_to_leave_a_check_out_is_found(cls: type, message: str) -> None:
    with pytest.raises(Fault) as caught:
        cls().test_no_check_is_waived_without_a_reason()
    assert message in str(caught.value)


def test_a_plugin_that_is_not_installed_is_told_how_to_declare_it() -> None:
    with pytest.raises(Fault, match=r"no installed distribution has the entry point .scheduler-acme.*entry-points"):
        Sound().test_is_found_by_its_entry_point()


def test_hooks_are_recorded_with_who_answered_and_what_they_were_given(planted) -> None:
    source = "from stowplan.plugins.hooks import hook\n@hook\ndef stowplan_event(name, facts): pass\n"
    planted.write("acme_observer/__init__.py", source)
    planted.write("acme_observer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme-observer\nVersion: 1.0\n")
    planted.write("acme_observer-1.0.dist-info/entry_points.txt", "[stowplan]\nobserver-acme = acme_observer\n")
    host = Host({"STOWPLAN_PLUGINS": "observer-acme"})
    with record_hooks() as calls:
        host.event("compiled", {"size_bytes": 7})
    host.event("later", {})
    (call,) = calls.of("stowplan_event")
    assert call.plugins == ("acme_observer",)
    assert call.arguments == {"name": "compiled", "facts": {"size_bytes": 7}}


def test_the_graphs_are_sound_and_differ(small_graph: Graph, make_plan) -> None:  # noqa: F811
    assert list(unsoundness(small_graph)) == []
    assert make_plan(small_graph) == plan_of(small_graph)


def test_no_two_graphs_are_one() -> None:
    assert len({make().digest for make in GRAPHS.values()}) == len(GRAPHS)


def test_a_graph_that_breaks_a_rule_is_found_out() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 4, 2)
    y = b.unary(x, "no_such_kind")
    found = list(unsoundness(b.graph(y, y + 7)))
    assert any("names tensor 8 of 2" in wrong for wrong in found)
    assert any("is no canonical operator" in wrong for wrong in found)


def test_skipping_is_what_pytest_calls_skipping() -> None:
    skip("shown as skipped, not as passed")

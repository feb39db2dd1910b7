"""Mistakes that authors make, planted one at a time into a sound plugin: the kit finds each and says what it is."""

# ruff: noqa: E501, ISC004 (lines of planted source stand beside those that they replace)

from __future__ import annotations

from typing import NamedTuple

import pytest

from stowplan.plugins.host import Host
from stowplan.testing import Fault, run
from stowplan.testing.run import check_plugin

RETURN_GRAPH = "    last = len(layers)\n    return Graph("


class Mistake(NamedTuple):
    """What is changed in the template of a kind, the check that has to find it, and words of what it says."""

    kind: str
    changes: tuple[tuple[str, str], ...]
    check: str
    message: str
    top: str = ""


MISTAKES = {
    "wrong signature": Mistake(
        "scheduler",
        (("def schedule(self, graph: Graph, target: Target, options: ScheduleOptions)", "def schedule(self, graph, goal)"),),
        "has_the_signatures_of_its_kind",
        "scheduler schedule(graph, goal) -> 'Schedule' cannot be called as schedule(graph, target, options)",
    ),
    "asynchronous method": Mistake(
        "compressor",
        (("    def compress(", "    async def compress("),),
        "has_the_signatures_of_its_kind",
        "compressor compress is asynchronous",
    ),
    "shared state": Mistake(
        "compressor",
        (("    packed, literals = bytearray(), bytearray()\n    for value", "    packed, literals = KEPT, bytearray()\n    for value"),
         ("LONGEST_RUN = 130", "LONGEST_RUN = 130\nKEPT = bytearray()")),
        "same_bytes_same_packed_form_whatever_came_before",
        "gives other bytes the second time. Keep no state between calls",
    ),
    "mutates its input": Mistake(
        "scheduler",
        (("    lives = lifetimes(graph)\n    floor", "    lives = lifetimes(graph)\n    graph.operators[0].attributes['seen'] = 1\n    floor"),),
        "schedules_every_graph_of_the_kit_soundly",
        "schedule(relu) changed its input graph. Return a new Schedule",
    ),
    "imports torch at top": Mistake(
        "scheduler", (), "imports_nothing_heavy", "also imports torch. Every command imports it", "import torch"
    ),
    "imports numpy in its hook": Mistake(
        "scheduler",
        (("    return [", "    import numpy\n\n    return ["),),
        "imports_nothing_heavy",
        "also imports numpy.",
    ),
    "lies about the size it unpacks": Mistake(
        "compressor",
        (("    if len(found) != size_bytes or position != len(data):", "    if False:"),),
        "refuses_a_size_that_is_not_the_true_one",
        "Raise ValueError: the plan's sizes may be damaged",
    ),
    "lies about the memory it needs": Mistake(
        "scheduler",
        (("pool_bytes=(height, 0)", "pool_bytes=(height - 16, 0)"),),
        "schedules_every_graph_of_the_kit_soundly",
        "the schedule is wrong (outside)",
    ),
    "lies about the size of a port": Mistake(
        "backend",
        (("self.outputs: tuple[Port, ...] = view.outputs", "self.outputs = tuple(__import__('stowplan.nouns').nouns.replace("
          "port, size_bytes=port.size_bytes + 1) for port in view.outputs)"),),
        "ports_are_those_of_the_plan",
        "is true",
    ),
    "raises on garbage": Mistake(
        "importer",
        (("    except (ValueError, RecursionError) as err:", "    except RecursionError as err:"),),
        "refuses_garbage_and_names_the_file",
        "raised JSONDecodeError: Expecting value: line 1 column 1 (char 0). Raise ModelError or UnsupportedError",
    ),
    "hangs": Mistake(
        "compressor",
        (("            count -= run", "            count -= 0"),),
        "round_trips_every_length_from_0",
        "did not return within 0.5 s. Bound your loops",
    ),
    "hangs and catches everything": Mistake(
        "scheduler",
        (("    lives = lifetimes(graph)\n    floor", "    while True:\n        try:\n            __import__('time').sleep(0.01)\n"
          "        except Exception:\n            pass\n    floor"),),
        "schedules_every_graph_of_the_kit_soundly",
        "schedule(relu) did not return within 0.5 s",
    ),
    "places two tensors in one place": Mistake(
        "scheduler",
        (("                offset = end", "                offset += 0"),),
        "schedules_every_graph_of_the_kit_soundly",
        "Such a plan would give wrong answers",
    ),
    "depends on the order of a set": Mistake(
        "importer",
        ((RETURN_GRAPH, "    layers = tuple(sorted(layers, key=hash))\n" + RETURN_GRAPH),),
        "answers_the_same_in_a_fresh_process",
        "in a fresh process",
    ),
    "computes something else": Mistake(
        "backend",
        (("table[byte ^ 0x80]", "table[byte ^ 0x81]"),),
        "results_match_the_reference",
        "bytes of output 0 differ from the reference",
    ),
    "depends on the run before": Mistake(
        "backend",
        (("        for number, data in zip(ports, inputs, strict=False):", "        self._ran = getattr(self, '_ran', 0) + 1\n"
          "        for number, data in zip(ports, inputs[: 1 if self._ran < 2 else 0], strict=False):"),),
        "runs_do_not_depend_on_each_other",
        "depends on the run before it",
    ),
    "claims what it cannot compile": Mistake(
        "backend",
        (("        if operator.kind not in (*TABLES, \"reshape\", \"copy\"):", "        if False:"),),
        "compiles_what_it_takes_and_declines_the_rest",
        "Let both agree",
    ),
    "takes damaged plans": Mistake(
        "backend",
        (("        self._view = view = read_plan(plan)", "        try:\n            self._view = view = read_plan(plan)\n"
          "        except PlanError:\n            return"),),
        "refuses_damaged_plans",
        "compile(no bytes) took it. Check the plan's digest",
    ),
    "shares a dictionary with every graph": Mistake(
        "importer",
        (("        constants={},", "        constants=SHARED,"), ("INPUT = \"input\"", "INPUT = \"input\"\nSHARED: dict = {}")),
        "gives_each_caller_a_graph_of_its_own",
        "returns the same dictionary again",
    ),
    "reads the file instead of the bytes": Mistake(
        "importer",
        (("json.loads(model.data)", "json.loads(model.path.read_bytes())"),),
        "reads_the_bytes_it_is_given_and_not_the_file",
        "which does not exist) raised FileNotFoundError",
    ),
    "makes a graph that is none": Mistake(
        "importer",
        (("inputs=(i,), outputs=(i + 1,)", "inputs=(i + 1,), outputs=(i + 1,)"),),
        "reads_its_models_into_sound_graphs",
        "reads tensor 1 before anybody has made it",
    ),
    "sniffs everything": Mistake(
        "importer",
        (("""return data[:1] == b"{" and b'"NAME"' in data[:100]""", "return True"),),
        "sniffs_anything_without_raising_and_claims_no_other_format",
        "sniff(no bytes at all) says True",
    ),
    "counts microseconds": Mistake(
        "profiler",
        (("self._total_ns += ended - began", "self._total_ns += (ended - began) // 1000"),),
        "gives_nanoseconds",
        "Give nanoseconds",
    ),
    "records while paused": Mistake(
        "profiler",
        (("if not self._recording or self._inside:", "if self._inside:"),),
        "is_paused_until_resumed_and_after_a_pause",
        "it records before resume(). attach() returns a paused recording.",
    ),
    "changes the process": Mistake(
        "profiler",
        (),
        "leaves_the_process_alone",
        "changes os.environ, standard output (it prints). A plugin is a guest",
        "import os\nos.environ['ACME_THREADS'] = os.environ.get('ACME_THREADS', '') + '1'\nprint('hello')",
    ),
    "has no summary": Mistake(
        "profiler", (('summary: str = "times whole runs of any backend"', 'summary: str = ""'),), "has_a_summary", "Write one line"
    ),
    "has a version that moves": Mistake(
        "scheduler",
        (('version: str = "1"', "version = property(lambda self: str(__import__('time').perf_counter_ns()))"),),
        "states_its_version",
        "It is in cache keys",
    ),
    "was written for another contract": Mistake(
        "profiler",
        (("STOWPLAN_CONTRACT = 1", "STOWPLAN_CONTRACT = 9"),),
        "is_found_by_its_entry_point",
        "it was written for contract 9 of stowplan, this one has 1: upgrade stowplan",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_found_and_told_to_the_author(planted, mistake: Mistake) -> None:
    planted.write("torch/__init__.py", "weights = 1")
    entry = planted.plugin(mistake.kind, *mistake.changes, top=mistake.top)
    asked = planted.kit(entry, seconds=0.5 if "0.5 s" in mistake.message else 20.0)
    with pytest.raises(Fault) as caught:
        getattr(asked, f"test_{mistake.check}")()
    assert str(caught.value).startswith("Plugin author: ")
    assert mistake.message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["importer", "scheduler", "compressor", "backend", "profiler"])
def test_the_template_itself_has_none_of_them(planted, kind: str) -> None:
    asked = planted.kit(planted.plugin(kind))
    for mistake in MISTAKES.values():
        if mistake.kind == kind:
            getattr(asked, f"test_{mistake.check}")()


def verdicts(entry: str, seconds: float) -> dict[str, tuple[str, str]]:
    (plugin,) = (plugin for plugin in Host({}).plugins if plugin.entry == entry)
    return {verdict.check: (verdict.state, verdict.why) for verdict in check_plugin(plugin, (), seconds)}


@pytest.mark.slow
def test_a_hang_that_nothing_interrupts_and_a_crash_end_one_check_each(planted, monkeypatch) -> None:
    monkeypatch.setattr(run, "GRACE_SECONDS", 4.0)
    hang = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\nwhile size_bytes != 3: pass"
    crash = "import os\nif len(data) == 70_001: os.kill(os.getpid(), 9)"
    entry = planted.plugin(
        "compressor",
        ("    found, position = bytearray(), 0", "\n".join(["    pass", *hang.split("\n"), "found, position = bytearray(), 0"])
         .replace("\n", "\n    ")),
        ("    packed, literals = bytearray(), bytearray()\n", "    " + crash.replace("\n", "\n    ")
         + "\n    packed, literals = bytearray(), bytearray()\n"),
    )  # fmt: skip
    found = verdicts(entry, 0.5)
    assert found["has a summary"] == ("ok", "")
    state, why = found["answers the same in a fresh process"]
    assert (state, why) == (
        "fault",
        "Plugin author: the process ended in the middle (signal 9). Never leave it, and never crash it.",
    )
    assert found["refuses damaged data and never crashes"][0] == "fault"
    assert len(found) == 14


@pytest.mark.slow
def test_a_hang_that_nothing_interrupts_is_ended_from_outside(planted, monkeypatch) -> None:
    monkeypatch.setattr(run, "GRACE_SECONDS", 4.0)
    hang = "    import signal\n    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n    while size_bytes: pass\n"
    entry = planted.plugin(
        "compressor", ("    found, position = bytearray(), 0", f"{hang}    found, position = bytearray(), 0")
    )
    found = verdicts(entry, 0.5)
    hung = "Plugin author: it hangs where nothing can interrupt it; its process was ended."
    assert found["round trips every length from 0"] == ("fault", hung)
    assert found["does not blow up what it cannot shrink"] == ("ok", "")

"""The plugin host with real plugins in a real site folder: what it offers, refuses, skips and reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

HOOK = "from stowplan.plugins.hooks import hook\n"
IMPORTER = (
    HOOK
    + """
class Importer:
    name, summary, suffixes = "{name}", "made for a test", ("{suffix}",)
    def sniff(self, data):
        {sniff}
    def load(self, model, input_shapes): ...
    def describe(self, model): ...

@hook
def stowplan_importers():
    return [Importer()]
"""
)


def importer(name: str, suffix: str = ".acme", sniff: str = "return False") -> str:
    return IMPORTER.format(name=name, suffix=suffix, sniff=sniff)


def rows(outcome) -> dict[str, dict[str, str]]:
    """Return `plugins list --json` by name."""
    return {row["name"]: row for row in json.loads(outcome.out)["plugins"]}


def test_an_installed_plugin_is_offered_by_name_with_its_provider(site, scheduler_source) -> None:
    site.install("acme-scheduler", scheduler_source(), version="1.2")
    row = rows(site.stowplan("plugins", "--json"))["acme"]
    assert row.pop("load_us") > 0
    assert row == {
        "kind": "scheduler", "name": "acme", "provider": "acme-scheduler", "version": "1.2", "state": "ok",
        "contract": 1, "summary": "made for a test",
    }  # fmt: skip
    done = site.ask("print(h.schedulers()['acme'].version, h.provider_version('scheduler', 'acme'))")
    assert (done.out, done.err) == ("7 acme-scheduler 1.2\n", "")


def test_names_come_sorted_whatever_the_order_of_installation(site, scheduler_source) -> None:
    for name in ("zeta", "alpha", "mid"):
        site.install(f"{name}-scheduler", scheduler_source(name))
    names = json.loads(site.ask("import json; print(json.dumps(list(h.schedulers())))").out)
    assert names == sorted(names)
    assert {"zeta", "alpha", "mid"} <= set(names)


def test_two_plugins_with_one_name_are_an_error_that_names_both(site, scheduler_source) -> None:
    site.install("first-plugin", scheduler_source(), version="1.0")
    site.install("second-plugin", scheduler_source(), version="2.0")
    done = site.ask("h.schedulers()")
    assert 'PluginError: two plugins offer the scheduler "acme": first-plugin 1.0 and second-plugin 2.0.' in done.err
    listed = json.loads(site.stowplan("plugins", "--json").out)["plugins"]
    clashes = [row for row in listed if row["name"] == "acme"]
    assert [(row["state"], row["provider"]) for row in clashes] == [
        ("clash", "first-plugin"),
        ("clash", "second-plugin"),
    ]
    assert "also offered by second-plugin 2.0" in clashes[0]["summary"]


def test_the_same_entry_point_twice_is_one_plugin(site, scheduler_source) -> None:
    site.install("acme-scheduler", scheduler_source())
    site.declare("acme-bundle", "acme-scheduler = acme_scheduler")
    assert site.ask("print(h.schedulers()['acme'].name)").out == "acme\n"


@pytest.mark.parametrize("command", [["plugins"], ["--version"], ["inspect", "x.tflite"], ["run", "x.stow"]])
def test_a_plugin_that_raises_at_import_leaves_every_command_as_it_was_but_for_one_line(site, command) -> None:
    before = site.stowplan(*command)
    site.install("bad-plugin", "raise RuntimeError('no\\nluck')", version="0.3")
    for _ in range(2):  # cold, and from the index
        after = site.stowplan(*command)
        extra = after.err.removesuffix(before.err)
        assert after.code == before.code
        assert extra.count("\n") == (1 if command != ["--version"] and "x." not in command[-1] else 0)


def test_the_line_says_which_plugin_why_and_what_to_do(site) -> None:
    site.install("bad-plugin", "raise RuntimeError('no\\nluck')", version="0.3")
    expected = (
        "Warning: plugin bad-plugin (bad-plugin 0.3) is skipped: RuntimeError: no luck. Reinstall it, or silence this "
        "with STOWPLAN_PLUGINS_BLOCK=bad-plugin\n"
    )
    assert site.stowplan("plugins").err == expected
    assert site.stowplan("plugins").err == expected
    assert site.stowplan("plugins", STOWPLAN_PLUGINS_BLOCK="bad-plugin").err == ""
    row = rows(site.stowplan("plugins", "--json"))["bad-plugin"]
    assert (row["state"], row["summary"]) == ("broken", "RuntimeError: no luck")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nonexistent_module", "ModuleNotFoundError: No module named 'nonexistent_module'"),
        ("def broken(:", "SyntaxError"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        ("x = 1", "it implements no hook"),
        (HOOK + "@hook\ndef stowplan_importer():\n    return []", "did you mean stowplan_importers?"),
        ("def stowplan_importers():\n    return []", "is not marked with @hook"),
        (HOOK + "@hook\ndef stowplan_backends(x):\n    return []", "PluginValidationError"),
        (HOOK + "@hook\nasync def stowplan_backends():\n    return []", "asynchronous"),
        (HOOK + "@hook\nasync def stowplan_backends():\n    yield 1", "asynchronous"),
        (HOOK + "@hook\ndef stowplan_backends():\n    yield 1 / 0", "ZeroDivisionError"),
        (HOOK + "@hook\ndef stowplan_backends():\n    while True: yield 1", "more than 256"),
        (HOOK + "@hook\ndef stowplan_backends():\n    pass", "returned NoneType"),
        (HOOK + "@hook\ndef stowplan_backends():\n    return 'abc'", "returned str"),
        (HOOK + "@hook\ndef stowplan_backends():\n    return [1]", "no usable name"),
        (HOOK + "class R:\n    name = 'r'\n@hook\ndef stowplan_backends():\n    return [R()]", "has no available()"),
        (
            HOOK + "class R:\n    @property\n    def name(self): raise OSError('disk')\n"
            "@hook\ndef stowplan_backends():\n    return [R()]",
            "OSError: disk",
        ),
        (importer("i", suffix="tflite"), "write it like .tflite"),
        (importer("../i"), "no usable name"),
    ],
)
def test_a_faulty_plugin_is_skipped_with_the_reason(site, source: str, reason: str) -> None:
    site.install("bad-plugin", source)
    done = site.stowplan("plugins", "--json")
    assert done.err.count("\n") == 1, done.err
    assert "bad-plugin" in done.err
    assert rows(done)["bad-plugin"]["state"] == "broken"
    assert reason in rows(done)["bad-plugin"]["summary"]


def test_damaged_entry_points_are_a_broken_plugin_and_foreign_ones_are_not_read(site) -> None:
    site.declare("bad-plugin", "this is no entry")
    site.declare("other-package", "x = y")
    (site.folder / "other_package-1.0.dist-info" / "entry_points.txt").write_text("[console_scripts]\nbroken\n")
    done = site.stowplan("plugins", "--json")
    assert rows(done)["bad-plugin"]["summary"] == "its entry_points.txt is damaged"
    assert done.err.count("\n") == 1


def test_asking_for_a_broken_plugin_says_that_it_is_there_and_why_it_does_not_work(site) -> None:
    site.install("scheduler-acme", "import nonexistent_module")
    done = site.ask("h.schedulers()['acme']")
    assert 'scheduler "acme" is installed (scheduler-acme 1.0) but broken: ModuleNotFoundError' in done.err


def test_an_unknown_name_is_answered_with_those_there_are(site, scheduler_source) -> None:
    site.install("acme-scheduler", scheduler_source("acme-stream"))
    done = site.ask("h.schedulers()['acme-strem']")
    assert 'no scheduler "acme-strem": installed are' in done.err
    assert "Did you mean acme-stream?" in done.err


def test_only_the_plugins_asked_for_are_imported(site, scheduler_source, tmp_path: Path) -> None:
    trace = tmp_path / "imported"
    mark = f"open({str(trace)!r}, 'a').write(__name__ + '\\n')\n"
    site.install("one-plugin", mark + scheduler_source("one"))
    site.install("two-plugin", mark + scheduler_source("two"))
    listed = rows(site.stowplan("plugins", "--json", STOWPLAN_PLUGINS="one-plugin"))
    assert trace.read_text() == "one_plugin\n"
    assert (listed["one"]["state"], listed["two-plugin"]["state"]) == ("ok", "blocked")


def test_an_empty_list_leaves_the_bundled_plugins_alone(site, scheduler_source, bundled) -> None:
    site.install("acme-scheduler", scheduler_source())
    names = json.loads(site.ask("import json; print(json.dumps(list(h.schedulers())))", STOWPLAN_PLUGINS="").out)
    assert names == ["greedy", "stream"]


def test_a_third_party_cannot_pass_for_a_bundled_plugin(site, scheduler_source) -> None:
    site.install("evil-package", scheduler_source("evil"), entry="backend-c", module="evil_module")
    assert "evil" not in site.ask("print(list(h.schedulers()))", STOWPLAN_PLUGINS="").out


def test_a_blocked_plugin_is_listed_and_named_when_it_is_asked_for(site, scheduler_source) -> None:
    site.install("scheduler-acme", scheduler_source())
    done = site.ask("h.schedulers()['acme']", STOWPLAN_PLUGINS_BLOCK="other, scheduler_acme")
    assert "but blocked: left out by STOWPLAN_PLUGINS" in done.err


def test_an_importer_is_chosen_by_suffix_and_by_content_where_two_share_it(site) -> None:
    site.install("a-plugin", importer("a", sniff="return data[:1] == b'a'"))
    site.install("b-plugin", importer("b", sniff="return data[:1] == b'b'"))
    ask = (
        "from pathlib import Path\nfrom stowplan.flow.model import Model\n"
        "for data in (b'a', b'b', b'c'):\n"
        "    print(h.importer_for(Model(path=Path('m.acme'), data=data, digest='')).name)"
    )
    done = site.ask(ask)
    assert done.out == "a\nb\n"
    assert "m.acme: several importers read it: a (a-plugin 1.0), b (b-plugin 1.0)." in done.err


@pytest.mark.parametrize(
    ("file", "data", "message"),
    [
        ("m.acm", "x", "no importer for m.acm: known suffixes are .acme. Did you mean m.acme?"),
        (
            "m.xyz",
            "a",
            "no importer for m.xyz: known suffixes are .acme. Its content looks like a: rename it to m.acme.",
        ),
        ("m", "x", "no importer for m: known suffixes are .acme."),
    ],
)
def test_a_model_nobody_reads_is_answered_with_the_suffixes_and_a_guess(site, file, data, message) -> None:
    site.install("a-plugin", importer("a", sniff="return data[:1] == b'a'"))
    (site.work / file).write_text(data)
    done = site.stowplan("inspect", file, STOWPLAN_PLUGINS="a-plugin")
    assert done == (1, "", f"Error: {message}\n")


def test_without_any_importer_the_answer_is_what_to_install(site) -> None:
    (site.work / "m.acme").write_text("x")
    done = site.stowplan("inspect", "m.acme", STOWPLAN_PLUGINS="nothing")
    assert done.err == (
        "Error: no importer for m.acme: none is installed. Install one: pip install stowplan-importer-tflite\n"
    )


def test_an_importer_whose_sniff_raises_is_passed_over_with_a_line(site) -> None:
    site.install("a-plugin", importer("a", sniff="raise ValueError('odd')"))
    (site.work / "m.xyz").write_text("x")
    done = site.stowplan("inspect", "m.xyz", STOWPLAN_PLUGINS="a-plugin")
    assert done.code == 1
    assert "Warning: a-plugin 1.0 failed to look at the model and is passed over: ValueError: odd" in done.err


def test_observers_are_told_and_a_failing_one_harms_nobody(site) -> None:
    told = HOOK + "@hook\ndef stowplan_event(name, facts):\n    print(name, facts)"
    site.install("a-observer", HOOK + "@hook\ndef stowplan_event(name, facts):\n    raise OSError('disk')")
    site.install("b-observer", told)
    done = site.ask("h.event('compiled', {'size_bytes': 7})")
    assert done.out == "compiled {'size_bytes': 7}\n"
    assert done.err == ("Warning: a-observer 1.0 failed to observe compiled and is passed over: OSError: disk\n")


def test_an_observer_may_take_fewer_arguments(site) -> None:
    site.install("a-observer", HOOK + "@hook\ndef stowplan_event(name):\n    print(name)")
    assert site.ask("h.event('compiled', {})").out == "compiled\n"


def test_a_plugin_in_the_working_folder_is_not_found(site, scheduler_source) -> None:
    site.folder, folder = site.work, site.folder
    site.install("cwd-plugin", scheduler_source("cwd"))
    site.folder = folder
    assert "cwd" not in rows(site.stowplan("plugins", "--json"))

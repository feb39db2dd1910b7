"""What plugins cannot do to the commands, and what `plugins list` says of their health."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bad_plugins import BAD, HOOK, OBSERVER, SCHEDULER, WORKING, install_bad
from stowplan.plugins import deprecated
from stowplan.plugins.deprecated import Deprecation, overdue, used
from stowplan.version import VERSION

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
PATIENCE = {"STOWPLAN_PLUGINS_SECONDS": "2"}
COMMANDS = (
    ("--version",), ("--help",),
    ("compile", DIGITS / "digits_int8.tflite", "-m", "2K", "-o", "d.stow", "--no-cache"),
    ("inspect", "d.stow"), ("run", "d.stow", "--input", DIGITS / "sample.npy"), ("codegen", "d.stow", "-o", "d.c"),
    ("verify", DIGITS / "digits_int8.tflite", "--help"), ("inspect", DIGITS / "digits_int8.tflite"),
    ("completion", "fish"),
)  # fmt: skip


def rows(outcome) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(outcome.out)["plugins"]}


@pytest.mark.slow
def test_with_ten_bad_plugins_every_command_does_what_it_did(site, bundled) -> None:
    before = [site.stowplan(*command) for command in COMMANDS]
    install_bad(site.folder)
    site.install("observer-plugin", OBSERVER)
    assert len(BAD) == 10
    site.stowplan("plugins", "list", **PATIENCE)  # the first look waits for the one that hangs
    for command, was in zip(COMMANDS, before, strict=True):
        now = site.stowplan(*command, **PATIENCE)
        assert (now.code, untimed(now.out)) == (was.code, untimed(was.out)), command
        assert all(line.startswith("Warning: ") for line in now.err.removesuffix(was.err).splitlines()), now.err
    listed = rows(site.stowplan("plugins", "list", "--json"))
    broken = {name for name, row in listed.items() if row["state"] == "broken"}
    assert broken == set(BAD) - set(WORKING)
    assert listed["hangs"]["summary"] == "its import did not end within 2 s"
    doctor = site.stowplan("doctor", "--json", **PATIENCE)
    assert doctor.code == 1
    assert {f["name"] for f in json.loads(doctor.out)["findings"] if f["state"] == "fault"} == broken


def untimed(text: str) -> str:
    """Leave out lines with durations, and the name of the bad plugin's scheduler among those that are offered."""
    lines = [line for line in text.splitlines() if " ms" not in line and " us" not in line]
    return "\n".join(lines).replace("greedy prints stream", "greedy stream")


@pytest.mark.slow
def test_with_ten_bad_plugins_a_warm_start_imports_none_of_them(site, bundled) -> None:
    install_bad(site.folder)
    site.ask("h.plugins", **PATIENCE)
    done = site.ask("list(h.schedulers())\nprint(*sys.modules)")
    assert not [name for name in done.out.split() if name.endswith("_plugin")]
    assert not {"pluggy", "importlib.metadata", "signal", "threading"} & set(done.out.split())


def test_what_a_plugin_prints_stays_out_of_documents(site) -> None:
    site.install("loud-plugin", "print('{')\n" + SCHEDULER.format(name="loud"))
    done = site.stowplan("plugins", "list", "--json")
    assert rows(done)["loud"]["state"] == "ok"
    assert done.err == "{\n"


def test_patience_that_is_no_time_is_a_usage_error(site) -> None:
    site.install("one-plugin", SCHEDULER.format(name="one"))
    done = site.stowplan("plugins", STOWPLAN_PLUGINS_SECONDS="soon")
    assert done.code == 2
    assert done.err == "Error: STOWPLAN_PLUGINS_SECONDS=soon: write seconds, more than 0 and at most 86400\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("STOWPLAN_CONTRACT = 2", "it was written for contract 2 of stowplan, this one has 1: upgrade stowplan"),
        ("STOWPLAN_CONTRACT = 0", "it was written for contract 0 of stowplan, this one needs 1: upgrade the plugin"),
        ("STOWPLAN_CONTRACT = '1'", "STOWPLAN_CONTRACT is '1'; write the number of the contract, 1"),
    ],
)
def test_a_plugin_of_another_contract_is_broken_and_told_who_has_to_move(site, line: str, reason: str) -> None:
    site.install("one-plugin", f"{line}\n" + SCHEDULER.format(name="one"))
    assert rows(site.stowplan("plugins", "--json"))["one-plugin"]["summary"] == reason


def test_the_table_shows_how_long_each_plugin_took(site) -> None:
    site.install("slow-plugin", "import time; time.sleep(0.3)\n" + SCHEDULER.format(name="slow"))
    site.stowplan("plugins")
    (line,) = (line for line in site.stowplan("plugins").out.splitlines() if " slow " in line)
    assert float(line.split(" ms")[0].split()[-1]) >= 300


def test_what_is_deprecated_is_found_by_hook_and_by_attribute(site, monkeypatch) -> None:
    table = (
        Deprecation(what="scheduler.plan", since="0.2", removed_in="0.4", instead="rename it to schedule"),
        Deprecation(what="stowplan_event", since="0.2", removed_in="0.4", instead="use stowplan_events"),
        Deprecation(what="importer.read", since="0.2", removed_in="0.4", instead="rename it to load"),
    )
    monkeypatch.setattr(deprecated, "DEPRECATIONS", table)
    from types import ModuleType, SimpleNamespace

    module = ModuleType("acme")
    exec(HOOK + "@hook\ndef stowplan_event(name, facts): pass", module.__dict__)
    assert used(module, [("scheduler", SimpleNamespace(plan=1, read=1))]) == (
        "scheduler.plan is deprecated since 0.2 and goes in 0.4: rename it to schedule",
        "stowplan_event is deprecated since 0.2 and goes in 0.4: use stowplan_events",
    )
    assert overdue("0.3.9") == ()
    assert overdue("0.4.0") == ("scheduler.plan", "stowplan_event", "importer.read")


def test_nothing_deprecated_outlives_the_version_it_goes_in() -> None:
    assert overdue(VERSION) == ()


def test_check_takes_only_what_it_uses_and_knows_what_is_installed(site) -> None:
    site.install("acme-plugin", SCHEDULER.format(name="acme"))
    for words, message in (
        (("check", "acme-plugn"), 'no plugin "acme-plugn": did you mean acme-plugin?'),
        (("check",), "plugins check needs the name of a plugin (see stowplan plugins --help)"),
        (("list", "acme"), "plugins list takes no name (see stowplan plugins --help)"),
        (("list", "--model", "x"), "--model: only plugins check takes it"),
        (("check", "acme-plugin", "--model", "absent"), "--model absent: no such file"),
        (("check", "acme-plugin", "--seconds", "0"), "--seconds 0: write seconds, more than 0 and at most 86400"),
    ):
        done = site.stowplan("plugins", *words)
        assert (done.code, done.out) == (2, ""), words
        assert done.err == f"Error: {message}\n"


@pytest.mark.slow
def test_check_without_pytest_ends_with_1_and_says_what_is_wrong(site, bundled) -> None:
    site.install("acme-plugin", SCHEDULER.format(name="acme"))
    done = site.stowplan("plugins", "check", "acme-plugin", "--json")
    document = json.loads(done.out)
    assert done.code == 1
    assert document["fault"] > 0
    why = {check["check"]: check["why"] for check in document["checks"] if check["state"] == "fault"}
    assert why["schedules every graph of the kit soundly"] == (
        "Plugin author: scheduler schedule(relu) raised OSError: no luck. Raise DoesNotFit or UnsupportedError or "
        "UsageError with what is wrong and how to fix it."
    )
    site.install("bad-plugin", "import nonexistent_module")
    done = site.stowplan("plugins", "check", "bad-plugin")
    assert done.code == 1
    assert "Plugin author: the plugin bad-plugin is broken: ModuleNotFoundError" in done.out

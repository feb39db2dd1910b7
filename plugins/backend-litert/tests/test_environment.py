"""Environments: where accelerators are looked for, what is there, and how long they live."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stowplan_backend_litert import CompiledModel, Environment, environment, platform_support
from stowplan_backend_litert.errors import ClosedError, OptionError


def test_the_cpu_is_always_there(env: Environment) -> None:
    assert env.present("cpu")
    assert "cpu" in {accelerator.kind for accelerator in env.accelerators()}


def test_an_environment_looks_in_the_folder_that_it_is_given(tmp_path: Path) -> None:
    with environment(str(tmp_path)) as env:
        assert env.runtime_dir == str(tmp_path)
        assert not env.present("gpu")
    with environment() as env:
        assert (Path(env.runtime_dir) / "libLiteRt.so").exists() or sys.platform != "linux"


def test_a_folder_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="is no folder; accelerators are looked for there"):
        Environment("/no/such/folder")


def test_platform_support_says_which_buffers_there_are(env: Environment) -> None:
    fixed = platform_support()
    assert fixed["metal"] == (sys.platform == "darwin")
    assert fixed["ahwb"] is False
    asked = platform_support(env)
    assert set(asked) > set(fixed)
    assert {"gpu_fp16", "cl_gl_interop"} <= set(asked)


def test_a_closed_environment_makes_no_model_and_open_ones_go_on(digits: Path) -> None:
    env = Environment()
    model = CompiledModel(env, digits)
    env.close()
    env.close()
    with pytest.raises(ClosedError, match="this environment was closed; make another one"):
        CompiledModel(env, digits)
    assert len(model.run([bytes(model.io_sizes()[0][0])])) == 1
    model.close()


def test_nothing_is_printed_while_a_model_is_compiled_and_run(digits: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Environment() as env, CompiledModel(env, digits) as model:
        env.accelerators()
        model.run([bytes(model.io_sizes()[0][0])])
    assert capfd.readouterr() == ("", "")


def test_what_others_print_meanwhile_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    from stowplan_backend_litert.quiet import captured

    with captured() as output:
        os.write(2, b"INFO: from a library\nfrom somebody else\nERROR: [a.cc:1] it broke\n")
        os.write(1, b"INFO: Failed to load OpenCL library with dlopen: no\nINFO: a program's own line\n")
    assert capfd.readouterr() == ("INFO: a program's own line\n", "from somebody else\n")
    assert output.errors() == ["it broke"]


def test_an_exception_s_last_line_is_what_went_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    from stowplan_backend_litert.quiet import captured

    with captured() as output:
        os.write(2, b"ERROR: [p.cc:7] Exception in compilation: Exception from a.cpp:1:\nException from b.cpp:2:\n")
        os.write(2, b"the shape is open.\n\n\nERROR: [c.cc:1] Plugin errs: some\nINFO: [x.cc:1] bye\nforeign\n")
    assert output.errors() == ["the shape is open."]
    assert capfd.readouterr().err == "foreign\n"

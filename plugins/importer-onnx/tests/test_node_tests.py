"""ONNX's own tests of every operator, run by its own runner: each passes, or is refused with a reason."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

from onnx_backend import StowplanBackend

LEAST = 1000
"""How many have to pass; what an older onnx package does not have yet counts against it."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_official_tests_pass_or_are_refused_and_none_fails() -> None:
    from onnx.backend.test.runner import Runner

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Runner(StowplanBackend, None)
        items = {name: item for kind, of_kind in runner._test_items.items() if kind != "RealModel"
                 for name, item in of_kind.items() if name.endswith("_cpu")}  # fmt: skip
        outcomes: Counter[str] = Counter()
        failures: list[str] = []
        for name, item in sorted(items.items()):
            refusals = len(StowplanBackend.refusals)
            try:
                item.func(None)
                outcomes["refused" if len(StowplanBackend.refusals) > refusals else "passed"] += 1
            except Exception as err:
                failures.append(f"{name}: {type(err).__name__}: {str(err)[:300]}")
    print(f"{outcomes['passed']} passed, {len(failures)} failed, {outcomes['refused']} refused")
    assert not failures
    assert outcomes["passed"] >= LEAST

"""Fixtures for plugin authors' tests: put `pytest_plugins = ["stowplan.testing.fixtures"]` into conftest.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from stowplan.flow.graph import Graph
from stowplan.testing.graphs import GRAPHS
from stowplan.testing.recorder import HookCalls, record_hooks
from stowplan.testing.samples import plan_of


@pytest.fixture(params=sorted(GRAPHS))
def small_graph(request: pytest.FixtureRequest) -> Graph:
    """Each of the kit's graphs in turn."""
    return GRAPHS[request.param]()


@pytest.fixture
def make_plan() -> Callable[[Graph], bytes]:
    """Return what makes the plan file of a graph, every tensor in memory of its own."""
    return plan_of


@pytest.fixture
def hook_calls() -> Iterator[HookCalls]:
    """Record the hooks that are called during the test."""
    with record_hooks() as calls:
        yield calls

"""How little memory a model can do with: three kinds of minimum, each a plan that ran, beside its lower bound."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.build.facts import Minimum, MinimumFact
from stowplan.build.least import Asker
from stowplan.errors import PlanError, PluginError, UnsupportedError, UsageError
from stowplan.flow.plan import Plan
from stowplan.flow.target import FAST

Progress = Callable[[str], None]
"""Told what is being done, in a few words."""


def find_minimum(asker: Asker, progress: Progress) -> tuple[Minimum, Plan]:
    """Return the three minima, and the plan of the smallest single pool.

    Raises `InternalFault` when one of the plans fails its checker or its proof.
    """
    graph = asker.session.graph
    progress("smallest single memory")
    one_pool = asker.least(slow=False, streamed_inputs=())
    minimum = Minimum(
        one_pool=_proven(asker, one_pool),
        fast=_fast(asker, progress),
        streamed_input=_streamed(asker, graph.entries, progress),
    )
    return minimum, one_pool


def _fast(asker: Asker, progress: Progress) -> MinimumFact:
    progress("smallest fast memory beside slow memory")
    return _proven(asker, asker.least(slow=True, streamed_inputs=()))


def _streamed(asker: Asker, inputs: tuple[int, ...], progress: Progress) -> MinimumFact:
    """Return the minimum with every input streamed; a scheduler or backend that cannot stream is no fault."""
    progress("smallest memory with streamed input")
    try:
        plan = asker.least(slow=False, streamed_inputs=inputs)
    except (UsageError, UnsupportedError, PluginError) as err:
        return MinimumFact(bytes=None, lower_bound_bytes=None, recompute=1.0, proven=False, why=str(err))
    try:
        return _proven(asker, plan)
    except (PlanError, UnsupportedError) as err:
        return _fact(asker, plan, proven=False, why=str(err))


def _proven(asker: Asker, plan: Plan) -> MinimumFact:
    asker.prove(plan)
    return _fact(asker, plan, proven=True)


def _fact(asker: Asker, plan: Plan, *, proven: bool, why: str = "") -> MinimumFact:
    schedule = plan.schedule
    return MinimumFact(
        bytes=schedule.pool_bytes[FAST],
        lower_bound_bytes=schedule.lower_bound_bytes,
        recompute=asker.recompute(plan),
        proven=proven,
        certificate=schedule.certificate,
        why=why,
    )

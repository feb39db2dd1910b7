"""What `analyze` finds out beyond a plan: other budgets, slow traffic in a real run, what compression would save."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.build.causes import compile_explaining, with_causes
from stowplan.build.facts import Facts, TrialFact
from stowplan.build.least import Asker
from stowplan.build.minimum import find_minimum
from stowplan.build.pareto import find_pareto
from stowplan.build.pipeline import CompileRequest, Session
from stowplan.errors import DoesNotFit, StowplanError
from stowplan.flow.plan import Plan
from stowplan.flow.target import FAST, Target
from stowplan.nouns import dataclass, replace
from stowplan.planfile.writer import write_plan
from stowplan.plugins.host import Host

COMPRESSOR = "lz4"
_WORTH_SHOWING = 0.95
_TRIALS = 3


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What to find out beyond one budget."""

    minimum: bool = False
    pareto: bool = False


@dataclass(frozen=True)
class Analysis:
    """The facts, and the plan a map is drawn of: the one at the budget, else the smallest, else none."""

    facts: Facts
    plan: Plan | None


def analyze_model(
    request: CompileRequest,
    questions: Questions | None = None,
    progress: Callable[[str], None] = lambda _: None,
    plugins: Host | None = None,
) -> Analysis:
    """Return the full facts of a model at a budget; `fits` is the verdict. Writes nothing.

    Raises as `compile_model`, but for `DoesNotFit`: that is a result here.
    """
    asked = questions or Questions()
    session = Session(request, plugins)
    facts, plan = _at_budget(session)
    asker = Asker(session, request.time_limit_s)
    if asked.minimum:
        minimum, smallest = find_minimum(asker, progress)
        facts = replace(facts, minimum=minimum)
        plan = smallest if plan is None or not request.pools else plan
    if asked.pareto:
        facts = replace(facts, pareto=find_pareto(asker, progress))
    return Analysis(facts, plan)


def _at_budget(session: Session) -> tuple[Facts, Plan | None]:
    request, plan = session.request, None
    try:
        result = compile_explaining(session)
        plan, facts = result.plan, with_causes(result.facts, result.plan)
        if result.runs and request.pools:
            run = result.runs[0]
            facts = replace(facts, traffic=(run.slow_read_bytes or 0, run.slow_written_bytes or 0))
        if request.compressor == "none":
            facts = replace(facts, compressed=_compressed(session, len(result.data)))
    except DoesNotFit as err:
        assert err.facts is not None
        facts = replace(err.facts, fits=False, cause=err.cause)
    if request.pools:
        facts = replace(facts, trials=tuple(_trials(session, facts)))
    return facts, plan


def _compressed(session: Session, plain_bytes: int) -> dict[str, int]:
    """Return the size of the compressed plan where it fits the same budget and is worth having."""
    if COMPRESSOR not in session.host.compressors():
        return {}
    try:
        size = len(write_plan(session.plan(session.request.target, COMPRESSOR)))
    except StowplanError:
        return {}
    return {COMPRESSOR: size} if size < plain_bytes * _WORTH_SHOWING else {}


def _trials(session: Session, facts: Facts) -> Iterator[TrialFact]:
    """Try up to three more fast budgets, halving from one that fits or doubling from one that does not, to the turn."""
    budget = session.request.target.fast.size_bytes
    for _ in range(_TRIALS):
        assert budget is not None
        budget = budget // 2 if facts.fits else budget * 2
        if budget < 16:
            return
        trial = _try(session, budget)
        yield trial
        if trial.fits != facts.fits:
            return


def _try(session: Session, fast_bytes: int) -> TrialFact:
    target = session.request.target
    pools = (replace(target.pools[FAST], size_bytes=fast_bytes), *target.pools[1:])
    try:
        schedule = session.plan(
            Target(pools=pools, flash_bytes=target.flash_bytes), session.request.compressor
        ).schedule
    except DoesNotFit:
        return TrialFact(fast_bytes=fast_bytes, fits=False)
    tiled = sum(region.tiled for region in schedule.regions)
    return TrialFact(fast_bytes=fast_bytes, fits=True, stages=len(schedule.regions), tiled=tiled)

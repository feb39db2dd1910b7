"""Runs the jobs of a project: first those with nothing to do, then the others side by side in processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

from stowplan.build.jobs import Outcome, Terms, Workshop
from stowplan.build.project import Job
from stowplan.cache.store import Store
from stowplan.nouns import replace

MakeShop = Callable[[Terms], Workshop]
_shop: Workshop | None = None


class Executor(Protocol):
    """Something that runs jobs elsewhere: processes here, or machines of a cluster."""

    def submit(self, job: Job) -> Future[Outcome]: ...
    def close(self, at_once: bool) -> None: ...


def run_all(
    jobs: Sequence[Job],
    shop: Workshop,
    start: Callable[[], Executor | None],
    *,
    keep_going: bool = False,
    told: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Return one outcome per job, in the order of the jobs; `told` hears of each as it ends.

    After a failure no further job is begun unless `keep_going`; jobs not begun have the status `skipped`. `start` gives
    the executor for jobs that need work; None runs them here.
    """
    outcomes: dict[str, Outcome] = {}

    def end(outcome: Outcome) -> None:
        outcomes[outcome.name] = outcome
        told(outcome)

    waiting = []
    for job in jobs:
        found = shop.unchanged(job)
        if found is None:
            waiting.append(job)
        else:
            end(found)
    if waiting:
        executor = start() if len(waiting) > 1 else None
        if executor is None:
            _one_by_one(waiting, shop, keep_going, end)
        else:
            _side_by_side(waiting, executor, keep_going, end)
    shop.finish()
    return [outcomes.get(job.name) or skipped(job) for job in jobs]


def skipped(job: Job) -> Outcome:
    return Outcome(name=job.name, status="skipped", output=str(job.output), message="another job failed before")


class Processes:
    """Processes of this machine, each with a workshop of its own."""

    def __init__(self, workers: int, make: MakeShop, terms: Terms) -> None:
        import multiprocessing

        # Never forked: threads of uploads and progress bars do not survive that.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_open_shop, initargs=(make, terms))

    def submit(self, job: Job) -> Future[Outcome]:
        return self._pool.submit(_run_in_shop, job)

    def close(self, at_once: bool) -> None:
        self._pool.shutdown(wait=True, cancel_futures=at_once)


def worker_count(asked: int | None) -> int:
    """Return how many processes to use: as asked, or one for each processor we may use."""
    if asked is not None:
        return asked
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def local_shop(terms: Terms) -> Workshop:
    """Return a workshop with this user's cache; what commands and their worker processes use."""
    from stowplan.cli.caching import note, open_cache

    store = Store(read_only=terms.read_only, report=note)
    return Workshop(terms, store, None if terms.no_cache else open_cache(store))


def _open_shop(make: MakeShop, terms: Terms) -> None:
    global _shop
    _shop = make(terms)


def _run_in_shop(job: Job) -> Outcome:
    assert _shop is not None, "the initializer ran"
    outcome = _shop.run(job)
    _shop.finish()
    return outcome


def _one_by_one(jobs: Iterable[Job], shop: Workshop, keep_going: bool, end: Callable[[Outcome], None]) -> None:
    for job in jobs:
        outcome = shop.run(job)
        end(outcome)
        if outcome.status == "failed" and not keep_going:
            return


def _side_by_side(jobs: Sequence[Job], executor: Executor, keep_going: bool, end: Callable[[Outcome], None]) -> None:
    running = {executor.submit(job): job for job in jobs}
    failed = False
    try:
        while running and not (failed and not keep_going):
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                outcome = _result(future, running.pop(future))
                end(outcome)
                failed = failed or outcome.status == "failed"
    finally:
        for future in running:
            future.cancel()
        executor.close(at_once=failed)
    for future, job in running.items():  # those that were under way when another one failed
        if not future.cancelled():
            end(_result(future, job))


def _result(future: Future[Outcome], job: Job) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        return replace(
            skipped(job), status="failed", code="run", exit_code=1, message="a worker process was killed; run it again"
        )
    except Exception as err:  # the cluster's, or what could not be sent to a process
        message = f"could not be run: {type(err).__name__}: {' '.join(str(err).split())[:300]}"
        return replace(skipped(job), status="failed", code="run", exit_code=1, message=message)

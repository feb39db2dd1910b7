"""`stowplan build`: every model for every target of the project file; only what changed, side by side, and why."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stowplan.build.jobs import Outcome, Terms
from stowplan.build.matrix import Executor, Processes, local_shop, run_all, worker_count
from stowplan.build.project import Job, Project, find_project, read_project
from stowplan.cache.files import Identity, identity
from stowplan.cli.caching import add_cache, check_choice, choose_folder, read_only
from stowplan.cli.options import add_json
from stowplan.cli.output import check_outputs, columns, print_json, safe
from stowplan.errors import OutputError, StowplanError, UsageError

WORDS = {
    "built": "built",
    "restored": "reused",
    "verified": "verified",
    "unchanged": "unchanged",
    "failed": "failed",
    "waiting": "to do",
}
WATCH_SECONDS = 0.3
Seen = dict[str, Identity | None]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("only", metavar="MODEL[@TARGET]", nargs="*", help="only these; all of the project without")
    parser.add_argument("--project", metavar="FILE", type=Path, help="stowplan.toml or pyproject.toml (found here)")
    parser.add_argument("-j", "--jobs", metavar="N", type=int, help="processes (one for each processor)")
    parser.add_argument("-k", "--keep-going", action="store_true", help="go on with other plans after a failure")
    parser.add_argument("-n", "--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--explain", action="store_true", help="say for each plan why it was built")
    parser.add_argument("--watch", action="store_true", help="stay, and build whenever an input changes")
    parser.add_argument("--depfile", metavar="FILE", type=Path, help="write all inputs as rules for make or ninja")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write what took how long, to open in Perfetto")
    parser.add_argument("--executor", metavar="dask://HOST:PORT", help="build on the machines of a Dask cluster")
    add_json(parser)
    add_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    choose_folder(arguments)
    path = arguments.project or find_project(Path.cwd())
    if not arguments.watch:
        return _once(arguments, path)[0]
    return _watch(arguments, path)


def _check(arguments: argparse.Namespace) -> None:
    check_choice(arguments, "build")
    if arguments.verify and (arguments.dry_run or arguments.watch):
        raise UsageError("--verify: goes with neither --dry-run nor --watch")
    if arguments.jobs is not None and not 1 <= arguments.jobs <= 1024:
        raise UsageError(f"-j {arguments.jobs}: write a number of processes from 1 to 1024")
    if arguments.watch and (arguments.json or arguments.dry_run):
        raise UsageError("--watch: goes with neither --json nor --dry-run")
    check_outputs(_extras(arguments))


def _extras(arguments: argparse.Namespace) -> list[Path]:
    return [file for file in (arguments.trace, arguments.depfile) if file is not None]


def _check_extras(arguments: argparse.Namespace, project: Project) -> None:
    """Raise `OutputError` where a trace or rules would be written over an input or a plan of the project."""
    extras = _extras(arguments)
    check_outputs(extras, [project.path, *(job.request.model_path for job in project.jobs)])
    plans = {job.output.resolve() for job in project.jobs}
    for extra in extras:
        if extra.resolve() in plans:
            raise OutputError(f"{extra}: is a plan of the project; choose another output")


def _once(arguments: argparse.Namespace, path: Path) -> tuple[int, Seen]:
    """Build once; return the exit code, and the files that decide whether it has to be done again, as they were."""
    seen: Seen = {str(path): identity(path)}
    project = read_project(path)
    jobs = chosen(project, arguments.only)
    _check_extras(arguments, project)
    # Before anything is read: what changes from now on, during the build as well, is a change.
    seen |= {str(job.request.model_path): identity(job.request.model_path) for job in jobs}
    terms = Terms(
        recache=arguments.recache,
        verify=arguments.verify,
        dry_run=arguments.dry_run,
        no_cache=arguments.no_cache,
        read_only=read_only(arguments),
        traced=arguments.trace is not None,
    )
    start = time.monotonic()
    shop = local_shop(terms)
    with _progress(len(jobs)) as told:
        outcomes = run_all(
            jobs, shop, lambda: _executor(arguments, terms, len(jobs)), keep_going=arguments.keep_going, told=told
        )
    _write_extras(arguments, project, outcomes)
    _say(arguments, outcomes, time.monotonic() - start)
    more = {name for outcome in outcomes for name in outcome.inputs}
    seen = {**{name: identity(name) for name in more}, **shop.identities.watched, **seen}
    return max((outcome.exit_code for outcome in outcomes), default=0), seen


def chosen(project: Project, only: Sequence[str]) -> tuple[Job, ...]:
    """Return the jobs that were named, or all. Raises `UsageError` for a name that none has."""
    for name in only:
        if not any(name in (job.name, job.model) for job in project.jobs):
            known = ", ".join(dict.fromkeys(job.model for job in project.jobs))
            raise UsageError(f"{name}: no such model in {project.path}; there are {known}")
    return tuple(job for job in project.jobs if not only or job.name in only or job.model in only)


def _executor(arguments: argparse.Namespace, terms: Terms, count: int) -> Executor | None:
    if arguments.executor:
        from stowplan.build.cluster import Cluster

        return Cluster(arguments.executor, terms)
    workers = min(worker_count(arguments.jobs), count)
    return None if workers < 2 or terms.dry_run else Processes(workers, local_shop, terms)


def _write_extras(arguments: argparse.Namespace, project: Project, outcomes: Sequence[Outcome]) -> None:
    if arguments.trace is not None:
        from stowplan.build.telemetry import write_trace

        write_trace(arguments.trace, [event for outcome in outcomes for event in outcome.events])
    if arguments.depfile is not None:
        from stowplan.build.depfile import rule
        from stowplan.cli.output import write_file

        rules = [rule(Path(o.output), [*o.inputs, project.path]) for o in outcomes if o.inputs]
        write_file(arguments.depfile, "".join(rules).encode("utf-8", "surrogateescape"))


def _say(arguments: argparse.Namespace, outcomes: Sequence[Outcome], seconds: float) -> None:
    """Print what was done; failures and warnings on standard error."""
    if arguments.json:
        print_json(_document(outcomes, seconds))
        return
    rows = [row for outcome in outcomes if (row := _row(outcome, arguments.explain))]
    sys.stdout.write("".join(f"{line}\n" for line in columns(rows, indent="")))
    for outcome in outcomes:
        for line in outcome.diagnostics:
            print(f"Warning: {safe(f'{outcome.name}: {line}')}", file=sys.stderr)
    print(summary(outcomes, seconds))
    sys.stdout.flush()
    for outcome in outcomes:
        if outcome.status == "failed":
            print(f"Error: {safe(f'{outcome.name}: {outcome.message}')}", file=sys.stderr)


def _row(outcome: Outcome, explain: bool) -> tuple[str, ...] | None:
    """Return the line of one plan; plans with nothing to tell have none unless each is to be explained."""
    if outcome.status == "unchanged":
        return ("unchanged", outcome.name, "no input changed") if explain else None
    if outcome.status in ("failed", "skipped"):
        return (WORDS.get(outcome.status, "skipped"), outcome.name, outcome.message)
    word = WORDS[outcome.status] + (f" ({outcome.layer})" if outcome.layer else "")
    reason = outcome.reasons[0] if outcome.reasons else ""
    more = f" (and {len(outcome.reasons) - 1} more)" if len(outcome.reasons) > 1 and not explain else ""
    reasons = "; ".join(outcome.reasons) if explain else reason + more
    return (outcome.message or word, outcome.name, reasons)


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the last line: how many plans were built, reused, unchanged, and what that saved."""
    counts = Counter(outcome.status for outcome in outcomes)
    order = ("built", "restored", "verified", "unchanged", "waiting", "failed", "skipped")
    parts = [f"{counts[status]} {WORDS.get(status, status)}" for status in order if counts[status]]
    saved = sum(outcome.saved_ns for outcome in outcomes) / 1e9
    more = f", {saved:.1f} s of work saved" if saved >= 0.1 else ""
    return f"{', '.join(parts) or 'nothing to do'} in {seconds:.2f} s{more}"


def _document(outcomes: Sequence[Outcome], seconds: float) -> dict[str, object]:
    hidden = {"events", "inputs"}
    plans = [{k: v for k, v in vars(outcome).items() if k not in hidden} for outcome in outcomes]
    counts = Counter(outcome.status for outcome in outcomes)
    return {"report": 1, "seconds": round(seconds, 6), "counts": dict(counts), "plans": plans}


@contextmanager
def _progress(count: int) -> Iterator[Callable[[Outcome], None]]:
    """Show a bar on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty() or count < 2:
        yield lambda outcome: None
        return
    from rich.console import Console  # heavy, and only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    form = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*form, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("building", total=count)
        yield lambda outcome: progress.update(task, advance=1, description=safe(outcome.name))


def _watch(arguments: argparse.Namespace, path: Path) -> int:
    """Build again whenever an input changes, until interrupted; a mistake in the project file ends only one round."""
    seen: Seen = {}
    try:
        while True:
            before = identity(path)
            try:
                seen = _once(arguments, path)[1]
            except StowplanError as err:
                print(f"Error: {safe(str(err))}", file=sys.stderr)
                seen = {**seen, str(path): before}
            sys.stdout.flush()
            while all(identity(name) == found for name, found in seen.items()):
                time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return 0  # how it is meant to end

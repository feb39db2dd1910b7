"""Runs jobs on the machines of a Dask cluster: models go out, plans come back, and the team's cache is shared."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stowplan.build.jobs import Outcome, Terms
from stowplan.build.project import Job
from stowplan.cli.output import check_output, write_file
from stowplan.errors import StowplanError, UsageError
from stowplan.flow.model import Model
from stowplan.nouns import replace

SCHEME = "dask://"
CONNECT_SECONDS = 10
SHARED = ("STOWPLAN_REMOTE_CACHE", "STOWPLAN_REMOTE_MODE", "STOWPLAN_REMOTE_TIMEOUT")
"""What a machine is told of the team's cache; credentials are its own, and never sent."""


class Cluster:
    """An executor like the processes of this machine; needs the package `distributed`.

    Raises `UsageError` when that is missing, `StowplanError` when the scheduler cannot be reached.
    """

    def __init__(self, address: str, terms: Terms) -> None:
        if not address.startswith(SCHEME) or not address[len(SCHEME) :].rpartition(":")[2].isdigit():
            raise UsageError(f"--executor {address}: write dask://HOST:PORT")
        try:
            from distributed import Client
        except ImportError:
            raise UsageError("--executor: needs the package distributed: pip install 'stowplan[dask]'") from None
        try:
            connect: Any = Client  # distributed has no types
            self._client: Any = connect(
                f"tcp://{address[len(SCHEME) :]}", timeout=CONNECT_SECONDS, set_as_default=False
            )
        except (OSError, TimeoutError) as err:
            raise StowplanError(f"--executor {address}: no scheduler answers there: {err}") from err
        self._terms = terms
        self._threads = ThreadPoolExecutor(max_workers=64)

    def submit(self, job: Job) -> Future[Outcome]:
        return self._threads.submit(self._run, job)

    def close(self, at_once: bool) -> None:
        self._threads.shutdown(wait=True, cancel_futures=at_once)
        self._client.close()

    def _run(self, job: Job) -> Outcome:
        """Send a model and its job, wait for the plan, and write it here."""
        model = Model.read(job.request.model_path)
        shared = {name: os.environ[name] for name in SHARED if name in os.environ}
        future = self._client.submit(run_here, job, model.name, model.data, self._terms, shared, pure=False)
        outcome: Outcome
        outcome, data = future.result()
        if data is None:
            return replace(outcome, output=str(job.output))
        job.output.parent.mkdir(parents=True, exist_ok=True)
        check_output(job.output, [job.request.model_path])
        write_file(job.output, data)
        return replace(outcome, output=str(job.output), inputs=(str(job.request.model_path),))


def run_here(job: Job, name: str, data: bytes, terms: Terms, shared: Mapping[str, str]) -> tuple[Outcome, bytes | None]:
    """Run a job on a machine of the cluster, with that machine's own cache, and return the plan's bytes."""
    from stowplan.build.matrix import local_shop

    os.environ.update(shared)
    with tempfile.TemporaryDirectory(prefix="stowplan-") as folder:
        model, output = Path(folder, os.path.basename(name)), Path(folder, "out", "plan.stow")
        model.write_bytes(data)
        shop = local_shop(terms)
        request = replace(job.request, model_path=model)
        outcome = shop.run(replace(job, request=request, output=output))
        shop.finish()
        return outcome, output.read_bytes() if output.is_file() else None

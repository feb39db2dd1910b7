"""A real BuildGrid for as long as a test needs it: storage and action cache, or with PostgreSQL and a bot execution."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOT = Path(__file__).parent / "remote_bot.py"
START_SECONDS = 90

STORAGE = """
description: storage and cache for a test
server:
  - !channel
    address: "{address}"
    insecure-mode: true
authorization:
  method: none
{connections}
storages:
  - !disk-storage &storage
    path: {root}/cas
caches:
  - !lru-action-cache &actions
    storage: *storage
    max-cached-refs: 4096
    allow-updates: true
    cache-failed-actions: false
{schedulers}
instances:
  - name: ""
    services:
      - !action-cache
        cache: *actions
      - !cas
        storage: *storage
      - !bytestream
        storage: *storage
{services}
monitoring:
  enabled: false
thread-pool-size: 30
"""
CONNECTIONS = """connections:
  - !sql-connection &sql
    connection-string: {database}
    pool-size: 5
    pool-timeout: 30
    pool-recycle: 3600
    max-overflow: 10
"""
SCHEDULERS = """schedulers:
  - !sql-scheduler &scheduler
    sql: *sql
    storage: *storage
    action-cache: *actions
    property-set:
      !dynamic-property-set
      match-property-keys: [OSFamily]
      wildcard-property-keys: [Pool]
    bot-session-keepalive-timeout: 120
    assigners:
      - !priority-age-assigner
        count: 1
        interval: 0.1
        priority-assignment-percentage: 100
"""
SERVICES = """      - !execution
        scheduler: *scheduler
        operation-stream-keepalive-timeout: 120
"""


def buildgrid_python() -> Path:
    """Return the interpreter that has BuildGrid, or skip: it needs Python 3.13, whatever runs the tests."""
    named = os.environ.get("STOWPLAN_BUILDGRID_PYTHON")
    python = Path(named) if named else ROOT / ".venv" / "buildgrid" / "bin" / "python"
    if not python.is_file():
        pytest.skip("needs BuildGrid 0.9 in .venv/buildgrid, which .ci/run makes where there is a Python 3.13")
    return python


@contextmanager
def storage_server(root: Path) -> Iterator[str]:
    """Run storage and action cache below a folder; yield the address."""
    python = buildgrid_python()
    with ExitStack() as stack:
        yield stack.enter_context(_buildgrid(root, python, connections="", schedulers="", services=""))


@contextmanager
def execution_server(root: Path) -> Iterator[tuple[str, Path]]:
    """Run a BuildGrid that executes, PostgreSQL behind it and a bot; yield the address and the bot's log."""
    python = buildgrid_python()
    with ExitStack() as stack:
        port = stack.enter_context(_postgres(root / "postgres"))
        database = f"postgresql+psycopg://bgd@127.0.0.1:{port}/bgd"
        subprocess.run([python.with_name("bgd"), "migrate", "apply", database], check=True, capture_output=True)
        parts = dict(connections=CONNECTIONS.format(database=database), schedulers=SCHEDULERS, services=SERVICES)
        address = stack.enter_context(_buildgrid(root, python, **parts))
        log = root / "bot.log"
        stack.enter_context(_running([python, BOT, address, root / "work"], log))
        yield address, log


@contextmanager
def _buildgrid(root: Path, python: Path, **parts: str) -> Iterator[str]:
    root.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    address = f"127.0.0.1:{port}"
    (root / "grid.yml").write_text(STORAGE.format(address=address, root=root, **parts))
    with _running([python.with_name("bgd"), "server", "start", root / "grid.yml"], root / "grid.log") as process:
        _wait_for(port, process, root / "grid.log")
        yield address


@contextmanager
def _postgres(folder: Path) -> Iterator[int]:
    """Run PostgreSQL with an empty database `bgd` of a user `bgd`; yield its port."""
    folders = sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        pytest.skip("needs PostgreSQL (Debian's postgresql)")
    bin_folder = folders[-1]
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    short = Path(subprocess.check_output(["mktemp", "-d", "/tmp/stowplan-pg-XXXXXX"], text=True).strip())
    if user:
        shutil.chown(short, user)
    port = _free_port()
    try:
        initialise = [
            bin_folder / "initdb",
            "-D",
            short / "data",
            "-U",
            "bgd",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        subprocess.run(initialise, check=True, capture_output=True, user=user, cwd="/")
        serve = [bin_folder / "postgres", "-D", short / "data", "-p", port, "-k", short, "-c", "fsync=off"]
        with _running([*serve, "-c", "listen_addresses=127.0.0.1"], short.with_suffix(".log"), user) as process:
            _wait_for(port, process, short.with_suffix(".log"))
            create = [bin_folder / "createdb", "-h", "127.0.0.1", "-p", port, "-U", "bgd", "bgd"]
            _until_it_works([str(word) for word in create])
            yield port
    finally:
        shutil.rmtree(short, ignore_errors=True)
        short.with_suffix(".log").unlink(missing_ok=True)


@contextmanager
def _running(command: list[object], log: Path, user: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    words = [str(word) for word in command]
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, user=user, cwd="/")
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_it_works(command: list[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(command, capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, f"{command[0]} does not work"
        time.sleep(0.3)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"nothing answers at port {port}: {log.read_text('utf-8', 'replace')[-2000:]}")

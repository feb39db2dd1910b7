"""A real nginx that serves a team's cache from a folder, for as long as a test needs it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NGINX = """
daemon off; worker_processes 1; pid {root}/pid; error_log {root}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log {root}/access.log; client_max_body_size 100m;
  client_body_temp_path {root}/body; proxy_temp_path {root}/p; fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u;
  scgi_temp_path {root}/s;
  server {{
    listen 127.0.0.1:{port}; root {root}/data;
    location / {{ dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""


@contextmanager
def nginx_server(root: Path) -> Iterator[str]:
    """Run nginx below a folder and yield its address; skip where it is not installed."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("needs nginx (nginx-light will do)")
    (root / "data").mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Started by root, its workers would be somebody who may not enter a test's folders.
    user = "user root;" if os.name == "posix" and os.getuid() == 0 else ""
    (root / "conf").write_text(user + NGINX.format(root=root, port=port))
    process = subprocess.Popen([program, "-c", str(root / "conf"), "-p", str(root)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail("nginx does not answer")

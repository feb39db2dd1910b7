"""Source distributions: without what editable installs put among the sources, and the same bytes every time."""

from __future__ import annotations

import io
import os
import re
import tarfile
import zlib
from pathlib import Path
from typing import Any

from stowplan.errors import StowplanError, UsageError
from stowplan_setuptools.ending import stop

EPOCH = 315532800
"""1980-01-01, the earliest time a wheel can hold: of all files in an archive unless SOURCE_DATE_EPOCH is another."""
GZIP_WINDOW = 31
"""How zlib is asked for the largest window with a header and check of gzip around; the header has no time."""


def manifest(base: Any) -> dict[str, Any]:
    """Return what `egg_info` gets: its list of sources has no file that a build made."""

    def find_sources(self: Any) -> None:
        base.find_sources(self)
        made = {os.path.normpath(path) for path in self.get_finalized_command("build_stowplan").in_place_files()}
        kept = [path for path in self.filelist.files if os.path.normpath(path) not in made]
        if len(kept) != len(self.filelist.files):
            self.filelist.files = kept
            listed = "".join(f"{path.replace(os.sep, '/')}\n" for path in kept)
            Path(self.egg_info, "SOURCES.txt").write_text(listed, "utf-8")

    return {"find_sources": find_sources}


def archive(base: Any) -> dict[str, Any]:
    """Return what `sdist` gets: its gzipped archive does not depend on when, where and by whom it was made."""

    def make_archive(self: Any, *arguments: Any, **named: Any) -> str:
        path: str = base.make_archive(self, *arguments, **named)
        if path.endswith(".tar.gz"):
            try:
                settle(Path(path), epoch())
            except StowplanError as err:
                stop(err)
        return path

    return {"make_archive": make_archive}


def epoch() -> int:
    """Return the time that all files of an archive get, in seconds since 1970. Raises `UsageError`."""
    text = os.environ.get("SOURCE_DATE_EPOCH") or str(EPOCH)
    if not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII):
        raise UsageError(f"SOURCE_DATE_EPOCH {text[:40]}: is no number of seconds; unset it or write one")
    return int(text)


def settle(path: Path, time_s: int) -> None:
    """Write a gzipped archive anew: members by name, with one time and no owner."""
    settled = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=settled, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = time_s, 0, 0, "", ""
            member.pax_headers = {
                key: text for key, text in member.pax_headers.items() if key not in ("mtime", "atime")
            }
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    # In one piece and by zlib itself: what `gzip` makes of the same bytes differs between versions of Python.
    packer = zlib.compressobj(9, zlib.DEFLATED, GZIP_WINDOW)
    path.write_bytes(packer.compress(settled.getvalue()) + packer.flush())

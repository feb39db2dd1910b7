"""Leaves the note by which the same command, given again, knows that nothing has changed (`cli/warm.py` reads it)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from stowplan.cache.files import begin_anew, identity, is_settled, make_private
from stowplan.cache.key import digest
from stowplan.cli import elsewhere, warm
from stowplan.plugins.discovery import search_path

MOST_NOTES = 4000


def leave_note(
    arguments: Sequence[str],
    *,
    document: Mapping[str, Any],
    saved_ns: int,
    files: Mapping[Path, str],
    output: tuple[Path, str],
    tools: Collection[str],
    texts: Sequence[str],
) -> bool:
    """Write the note of a command that succeeded; say whether there is one now.

    `files` and `output` come with the SHA-256 they had then: a file that is another one by now gets no note. There is
    none either where a tool changed a moment ago: its next version could look the same from outside. `texts` are what
    the command says when nothing is to be done, when the output was restored, and on standard error.
    """
    folder = warm.warm_folder(arguments)
    listing = _tools([*search_path(), *os.environ.get("PATH", "").split(os.pathsep), *tools])
    if not folder or listing is None:
        return False
    try:
        lines = [_file(path, known) for path, known in files.items()]
        lines.append(b"output " + _file(*output))
        make_private(Path(folder))
        name = sha256(listing).hexdigest()
        if not os.path.exists(os.path.join(folder, f"tools-{name}")):
            begin_anew(Path(folder), MOST_NOTES)
            warm.write_note(folder, f"tools-{name}", listing)
        said = [text.encode("utf-8", "surrogateescape") for text in texts]
        text = b" ".join(b"%d" % len(part) for part in said) + b"\n" + b"".join(said)
        head = [b"key %s %d" % (digest(document).encode(), saved_ns), b"tools " + name.encode()]
        _write(folder, warm.note_name(arguments), [*head, *lines], text)
        anywhere = warm.shared_name(arguments)
        if anywhere:
            about = [b"document " + _plain(document), b"modules " + elsewhere.modules(tools)]
            _write(folder, anywhere, [*head, *about, *_portable(files, output)], text)
    except (OSError, ValueError):
        return False
    return True


def _write(folder: str, name: str, head: list[bytes], text: bytes) -> None:
    warm.write_note(folder, name, warm.sealed(b"\n".join(head) + b"\n\n" + text))


def _plain(document: Mapping[str, Any]) -> bytes:
    """Return a key document as `cache/subjects.py` writes it."""
    return json.dumps(document, sort_keys=True).encode("ascii")


def _portable(files: Mapping[Path, str], output: tuple[Path, str]) -> list[bytes]:
    """Return the lines of files by the paths that were typed."""
    lines = [
        elsewhere.file_line(os.fsencode(path), path.stat().st_size, known.encode())
        for path, known in (*files.items(), output)
    ]
    return [*lines[:-1], b"output " + lines[-1]]


def _tools(paths: Iterable[str]) -> bytes | None:
    """Return the list of tools with what tells their versions apart, or None when that cannot be trusted yet."""
    now, lines = time.time_ns(), []
    for path in dict.fromkeys(filter(None, paths)):
        found = identity(path)
        if (found is not None and not is_settled(found, now)) or "\n" in path:
            return None
        lines.append(b"%d %d %d %d " % (found or (0, 0, 0, 0)) + os.fsencode(path))
    return b"\n".join(lines)


def _file(path: Path, digest: str) -> bytes:
    """Return the line of a file. Its times are taken first: content may only be newer. Raises `ValueError`."""
    now, status, name = time.time_ns(), path.stat(), os.fsencode(path.absolute())
    if sha256(path.read_bytes()).hexdigest() != digest or b"\n" in name:
        raise ValueError(f"{path} is not what it was")
    return warm.file_line(name, status, digest.encode(), now)

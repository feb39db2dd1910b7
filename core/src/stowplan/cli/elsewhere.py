"""Notes that hold in any folder: another checkout, with the same cache and tools, has the same command answered.

Beside its note for one folder a `compile` leaves another whose paths are as they were typed. Times say nothing of other
files, so content decides; tools are compared as ever. Light, like `cli/warm.py`, which asks here when it has no note.
"""

from __future__ import annotations

import os
import sys

from stowplan.sha import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "anywhere-"
FIRST_BUILD = b'"nothing is known of an earlier build"'
SUBJECTS = "subjects"
IMPORTABLE = ("py", "pyc", "pyd", "so")


def portable_path() -> list[str] | None:
    """Return where Python looks, the working folder as "."; None where something is looked for in relation to it.

    `python -m` puts the working folder first; plugins are not looked for there.
    """
    compiler = os.environ.get("CC", "")
    if any("/" in word and not os.path.isabs(word) for word in compiler.split()):
        return None
    here = os.getcwd()
    first = "." if sys.path and sys.path[0] in ("", here) else "".join(sys.path[:1])
    return [first, *sys.path[1:]]


def file_line(name: bytes, size_bytes: int, digest: bytes) -> bytes:
    """Return a line of a note for a file wherever it is: its size and digest count, no times."""
    return b"file 0 %d 0 0 0 %s %s" % (size_bytes, digest, name)


def modules(tools: Iterable[str]) -> bytes:
    """Return the names under which tools are imported: what the working folder must not have, or it would win."""
    known = set(tools)
    tops = {os.path.basename(path).partition(".")[0] for path in known if os.path.dirname(path) not in known}
    return b" ".join(sorted(os.fsencode(top) for top in tops if top.isidentifier()))


def is_unshadowed(names: bytes) -> bool:
    """Say whether nothing in the working folder would be imported instead of a tool."""
    if not sys.path or sys.path[0] not in ("", os.getcwd()):
        return True
    tops = set(os.fsdecode(names).split(" "))
    for name in os.listdir():
        stem, _, suffix = name.partition(".")
        if stem in tops and (not suffix or suffix.endswith(IMPORTABLE)):
            return False
    return True


def subject(store: str, output: bytes, document: bytes) -> tuple[str, bytes] | None:
    """Return name and bytes of what is to be remembered of an output; no bytes when that is known already.

    None means that the long way has to be taken: the output was made from something else before, and what changed is
    for `cache/subjects.py` to say, or its name is one that JSON would escape.
    """
    path = os.path.abspath(os.fsdecode(output))
    if not (path.isascii() and path.isprintable()) or '"' in path or "\\" in path:
        return None
    name = sha256(path.encode()).hexdigest()
    start = b'{"document": ' + document + b', "name": "' + path.encode() + b'", "reasons": ['
    try:
        with open(os.path.join(store, SUBJECTS, name), "rb") as file:
            known = file.read().partition(b"\n")[2]
    except FileNotFoundError:
        body = start + FIRST_BUILD + b"]}"
        return name, sha256(body).hexdigest().encode() + b"\n" + body
    return (name, b"") if known.startswith(start) else None

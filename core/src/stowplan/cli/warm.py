"""Decides that nothing has changed, before anything else is imported: neither plugins nor argparse, json or typing.

A successful `compile` leaves a note of what it read and wrote and what it said. The same command again, with the same
tools (their files' sizes, times and inodes), model and output, says it again and is done. Files whose times are too new
to be trusted, or moved, are compared by content; an output that is gone or another one is restored from the cache. A
second note answers the same command in another folder (`cli/elsewhere.py`).
Whatever is odd about the note means: no answer, take the long way.
"""

from __future__ import annotations

import os
import sys
import time

from stowplan.cache.directory import cache_location
from stowplan.cache.surroundings import surroundings
from stowplan.sha import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEAD = b"stowplan-warm 1 "
FOLDER = os.path.join("store", "v1", "warm")
TOO_NEW_NS = 2_000_000_000
UNANSWERED = frozenset({"--no-cache", "--recache", "--verify", "--explain", "--help", "-h"})
WRITING = ("--trace", "--depfile", "--plot", "--codegen")
STYLES = (b"\x1b[1m", b"\x1b[32m", b"\x1b[31m", b"\x1b[0m")


def answer(arguments: Sequence[str]) -> bool:
    """Print what the same command said before, if nothing has changed since; say whether that was so."""
    folder = warm_folder(arguments)
    if not folder or not is_answerable(arguments):
        return False
    return _answered(folder, note_name(arguments), arguments) or _answered(folder, shared_name(arguments), arguments)


def _answered(folder: str, name: str, arguments: Sequence[str]) -> bool:
    try:
        note = _read(os.path.join(folder, name)) if name else None
        return note is not None and _replay(note, folder, arguments)
    except (OSError, ValueError, LookupError):
        return False


def warm_folder(arguments: Sequence[str]) -> str:
    """Return where notes are kept; empty when there is no place for them."""
    chosen = ""
    for index, word in enumerate(arguments):
        if word == "--cache-dir":
            chosen = arguments[index + 1] if index + 1 < len(arguments) else ""
        elif word.startswith("--cache-dir="):
            chosen = word[len("--cache-dir=") :]
    root = os.path.abspath(chosen) if chosen else cache_location()
    return os.path.join(root, FOLDER) if root else ""


def is_answerable(arguments: Sequence[str]) -> bool:
    """Say whether these arguments ask for no more than the output and the report."""
    return not any(word in UNANSWERED or word.startswith(WRITING) for word in arguments)


def note_name(arguments: Sequence[str]) -> str:
    """Return the name of the note for a command in this folder, interpreter and environment."""
    return _named([os.getcwd(), *sys.path], arguments)


def shared_name(arguments: Sequence[str]) -> str:
    """Return the name of the note for a command in whatever folder; empty where there is none."""
    from stowplan.cli import elsewhere  # only where this folder has no note that holds

    path = elsewhere.portable_path()
    return "" if path is None else elsewhere.PREFIX + _named(path, arguments)


def _named(path: Sequence[str], arguments: Sequence[str]) -> str:
    words = [*surroundings(path), "", *arguments]
    return sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def paint(text: bytes, wanted: bool) -> bytes:
    """Return text with its colours, or without."""
    for style in () if wanted else STYLES:
        text = text.replace(style, b"")
    return text


def wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write_note(folder: str, name: str, note: bytes) -> None:
    """Write a note or a list of tools, whole or not at all; a power cut may take it, its digest would tell."""
    path = os.path.join(folder, name)
    temporary = f"{path}.{os.getpid()}-{time.monotonic_ns()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        os.write(descriptor, note)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


def sealed(body: bytes) -> bytes:
    return HEAD + sha256(body).hexdigest().encode() + b"\n" + body


def file_line(path: bytes, status: os.stat_result, digest: bytes, now_ns: int) -> bytes:
    """Return a line of a note: whether the times can be trusted, what they are, the content's digest, the path."""
    settled = max(status.st_mtime_ns, status.st_ctime_ns) + TOO_NEW_NS < now_ns
    return b"file %d %s %s %s" % (settled, stamp(status), digest, path)


def stamp(status: os.stat_result) -> bytes:
    return b"%d %d %d %d" % (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _replay(note: bytes, folder: str, arguments: Sequence[str]) -> bool:
    head, _, text = note.partition(b"\n\n")
    store, files, fields = os.path.dirname(folder), [], {}
    for line in head.split(b"\n"):
        word, _, rest = line.partition(b" ")
        if word == b"file":
            files.append(line)
        else:
            fields[word] = rest
    if not _same_tools(folder, fields[b"tools"]):
        return False
    now = [_checked(line) for line in files]
    output = _checked(fields[b"output"])
    made_from = _made_from(store, fields)
    if not all(now) or made_from is None:
        return False
    key, _, saved = fields[b"key"].partition(b" ")
    unchanged = bool(output)
    output = output or _restored(store, fields[b"output"], key)
    if not output:
        return False
    kept, wrote, complaints = _parts(text)
    sys.stdout.flush()
    _print(sys.stderr, complaints)
    _print(sys.stdout, paint(kept if unchanged else wrote, wants_colour()))
    lines = b"\n".join([b"key " + fields[b"key"], b"tools " + fields[b"tools"], *now, b"output " + output])
    if lines != head:
        _try(lambda: write_note(folder, note_name(arguments), sealed(lines + b"\n\n" + text)))
    _try(lambda: _remember(store, *made_from))
    _try(lambda: _count(folder, key, saved))
    return True


def _made_from(store: str, fields: Mapping[bytes, bytes]) -> tuple[str, bytes] | None:
    """Return what is to be remembered of the output of a note for any folder; None when such a note does not do."""
    if b"document" not in fields:
        return "", b""
    from stowplan.cli import elsewhere

    if not elsewhere.is_unshadowed(fields[b"modules"]):
        return None
    return elsewhere.subject(store, fields[b"output"].split(b" ", 7)[7], fields[b"document"])


def _remember(store: str, name: str, subject: bytes) -> None:
    if subject:
        write_note(os.path.join(store, "subjects"), name, subject)


def _checked(line: bytes) -> bytes:
    """Return the line of a file as it is now; empty when the content is another or the file is gone."""
    _, settled, size, mtime, ctime, inode, digest, path = line.split(b" ", 7)
    now = time.time_ns()
    try:
        status = os.stat(path)
        if settled == b"1" and stamp(status) == b"%s %s %s %s" % (size, mtime, ctime, inode):
            return line
        if status.st_size != int(size):
            return b""
        with open(path, "rb") as file:
            same = sha256(file.read()).hexdigest().encode() == digest
    except OSError:
        return b""
    return file_line(path, status, digest, now) if same else b""


def _restored(store: str, line: bytes, key: bytes) -> bytes:
    """Write an output again from the cache and return its line; empty when that cannot be done here.

    The key's record must still name these bytes: `--recache` may have replaced them, and `cache clear` forgotten them.
    """
    digest, path = line.split(b" ", 7)[6:]
    name = digest.decode("ascii")
    if len(name) != 64 or (os.path.lexists(path) and not os.path.isfile(path)):
        return b""
    answer_to = key.decode("ascii")
    with open(os.path.join(store, "records", answer_to[:2], answer_to), "rb") as file:
        if digest not in file.read():
            return b""
    with open(os.path.join(store, "objects", name[:2], name), "rb") as file:
        data = file.read()
    if sha256(data).hexdigest() != name:
        return b""
    temporary = path + b".%d-%d" % (os.getpid(), time.monotonic_ns())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, "wb") as target:
            target.write(data)
            target.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    return file_line(path, os.stat(path), digest, time.time_ns())


def _same_tools(folder: str, name: bytes) -> bool:
    """Say whether every file in the list of tools is what it was."""
    with open(os.path.join(folder, "tools-" + name.decode("ascii")), "rb") as file:
        listing = file.read()
    if sha256(listing).hexdigest().encode() != name:
        return False
    for line in listing.split(b"\n"):
        size, mtime, ctime, inode, path = line.split(b" ", 4)
        try:
            found = stamp(os.stat(path))
        except OSError:
            found = b"0 0 0 0"
        if found != b"%s %s %s %s" % (size, mtime, ctime, inode):
            return False
    return True


def _read(path: str) -> bytes | None:
    with open(path, "rb") as file:
        head, _, body = file.read().partition(b"\n")
    return body if head == HEAD + sha256(body).hexdigest().encode() else None


def _parts(text: bytes) -> list[bytes]:
    """Return what is said when nothing was done, when the output was restored, and on standard error."""
    lengths, _, rest = text.partition(b"\n")
    parts = []
    for length in lengths.split(b" "):
        parts.append(rest[: int(length)])
        rest = rest[int(length) :]
    return parts


def _print(stream: object, data: bytes) -> None:
    """Write through the text layer: its encoding is the terminal's, and tests put their own streams there."""
    if data:
        stream.write(data.decode("utf-8", "surrogateescape"))  # type: ignore[attr-defined]


def _count(folder: str, key: bytes, saved: bytes) -> None:
    line = b"warm %s %d 0 %s\n" % (key, time.time_ns(), saved)
    descriptor = os.open(
        os.path.join(os.path.dirname(folder), "journal"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
    )
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def _try(work: object) -> None:
    try:
        work()  # type: ignore[operator]
    except OSError:  # a read-only or full cache; what was asked for is done
        return

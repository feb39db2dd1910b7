"""How commands print and write: safe text, aligned columns, JSON, and files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any

from stowplan.errors import OutputError, StowplanError
from stowplan.nouns import field_names


def safe(text: str) -> str:
    """Return text with control characters escaped: names come from models, and must not steer a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def print_error(err: StowplanError, as_json: bool, message: str = "") -> None:
    """Print a refusal: one line on standard error, or an object on standard output. `message` replaces the error's."""
    if as_json:
        print_json({"error": {"code": err.code, "message": str(err), **err.details()}})
        return
    sys.stdout.flush()  # the report comes first where both go to one place
    print(f"Error: {safe(message or str(err))}", file=sys.stderr)


def print_json(document: Mapping[str, Any]) -> None:
    import json  # which a report in words does not need

    print(json.dumps(plain(document), indent=2, allow_nan=False))


def columns(rows: Iterable[Sequence[str]], indent: str = "  ", right: frozenset[int] = frozenset()) -> list[str]:
    """Return rows as aligned lines, three blanks between columns; columns in `right` end on one line."""
    table = [[safe(cell) for cell in row] for row in rows]
    count = max(map(len, table), default=0)
    widths = [max(len(row[i]) for row in table if i < len(row)) for i in range(count)]
    lines = []
    for row in table:
        cells = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        lines.append((indent + "   ".join(cells)).rstrip())
    return lines


def beside(source: Path, suffix: str) -> Path:
    """Return the output that a command writes unless told another: the input's name with this suffix."""
    if not source.name:  # "." is what an empty name becomes
        raise OutputError(f"{source}: is a directory; name a file in it")
    return source.with_suffix(suffix)


def check_output(path: Path, inputs: Sequence[Path] = ()) -> None:
    """Raise `OutputError` when `path` cannot become a file, before any work is done for it."""
    if "\0" in str(path):
        raise OutputError(f"{safe(str(path))}: is no file name")
    try:
        if path.is_dir():
            raise OutputError(f"{path}: is a directory; name a file in it")
        if not path.parent.is_dir():
            raise OutputError(f"{path}: the folder {path.parent} does not exist")
        # Replacing a device, /dev/null say, would take it away from everybody.
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise OutputError(f"{path}: is not a regular file")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise OutputError(f"{path}: the folder {path.parent} is not writable")
        if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
            raise OutputError(f"{path}: is the file that is read; choose another output")
    except OSError as err:
        raise OutputError(f"{path}: cannot be written: {err.strerror or err}") from err


def make_folder(path: Path) -> None:
    """Make a folder and those above it. Raises `OutputError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise OutputError(f"{path}: cannot become a folder: {err.strerror or err}") from err


def write_file(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all. Raises `OutputError`.

    One that has these bytes already is left alone, its times too: build tools go by them.
    """
    if _has(path, data):
        return
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as err:
        raise OutputError(f"{path}: cannot be written: {err.strerror or err}") from err


def _has(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def check_outputs(paths: Sequence[Path], inputs: Sequence[Path] = ()) -> None:
    """Raise `OutputError` when one of `paths` cannot become a file, or when two of them are the same one."""
    for index, path in enumerate(paths):
        check_output(path, inputs)
        if any(path.resolve() == other.resolve() for other in paths[:index]):
            raise OutputError(f"{path}: two outputs cannot be one file; choose another for one of them")


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write several files. Raises `OutputError` before the first one when any of them cannot be written."""
    for path in files:
        check_output(path)
    for path, data in files.items():
        write_file(path, data)


def plain(value: object) -> Any:
    """Return facts as JSON has them: records become objects, bytes hexadecimal, tuples lists.

    Written out because `dataclasses.asdict` rebuilds a mapping by its own type, which breaks a Counter.
    """
    names = field_names(value)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not isfinite(value):
        return None  # JSON has no word for it
    return value


class Coloured(StringIO):
    """Standard output into a text that keeps its colours, for those who decide later whether they are wanted."""

    def isatty(self) -> bool:
        return True


def painted(text: str, style: str) -> str:
    """Return text in a colour or bold when standard output is a terminal that wants it, else as it is."""
    codes = {"bold": "1", "green": "32", "red": "31"}
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    wanted = wanted or isinstance(sys.stdout, Coloured)
    return f"\x1b[{codes[style]}m{text}\x1b[0m" if wanted else text

"""One cached result: the key document it answers, its files and what is replayed beside them; its record on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stowplan.cache import key as keys
from stowplan.cache.files import is_digest, sha256
from stowplan.cache.key import Document
from stowplan.nouns import dataclass, field

RECORD = 1
"""Version of the record's form."""
_HEAD = b"stowplan-record 1 "


class Damaged(Exception):
    """Something stored cannot be trusted; the text says what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`files` are the result's bytes by plain name; `meta` is plain data: facts of the report, diagnostics, durations.

    `layer` says which cache an entry came from; it is no part of it.
    """

    document: Document
    files: Mapping[str, bytes] = field(repr=False)
    meta: Mapping[str, Any]
    layer: str = ""

    @property
    def key(self) -> str:
        return keys.digest(self.document)

    @property
    def size_bytes(self) -> int:
        return sum(len(data) for data in self.files.values())


@dataclass(frozen=True, kw_only=True)
class Record:
    """An entry without the bytes of its files: `files` maps a name to (SHA-256, size in bytes)."""

    document: Document
    files: Mapping[str, tuple[str, int]]
    meta: Mapping[str, Any]

    @property
    def key(self) -> str:
        return keys.digest(self.document)

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.files.values())


def record_of(entry: Entry) -> Record:
    files = {name: (sha256(data), len(data)) for name, data in entry.files.items()}
    return Record(document=entry.document, files=files, meta=entry.meta)


def encode(record: Record) -> bytes:
    """Return a record as bytes: a line with the digest of the rest, then the rest as canonical JSON."""
    body = {"record": RECORD, "document": record.document, "files": record.files, "meta": record.meta}
    data = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    return _HEAD + sha256(data).encode() + b"\n" + data


def decode(data: bytes, key: str) -> Record:
    """Return the record for a key. Raises `Damaged` for anything that is not exactly what `encode` wrote for it."""
    record = decode_any(data)
    if record.key != key:
        raise Damaged("it belongs to another key")
    return record


def decode_any(data: bytes) -> Record:
    """Return a record whatever key it is for. Raises `Damaged`."""
    head, _, body = data.partition(b"\n")
    if not data:
        raise Damaged("it is empty")
    if not head.startswith(_HEAD) or head[len(_HEAD) :].decode("ascii", "replace") != sha256(body):
        raise Damaged(f"the digest of its {len(data)} bytes is wrong")
    try:
        fields = json.loads(body)
        files = {str(name): (str(digest), int(size)) for name, (digest, size) in fields["files"].items()}
        record = Record(document=dict(fields["document"]), files=files, meta=dict(fields["meta"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise Damaged("it is no record") from err
    for name, (digest, _) in files.items():
        if not is_digest(digest) or not is_plain_name(name):
            raise Damaged(f"it names the file {name!r} with the digest {digest[:80]!r}")
    return record


def is_plain_name(name: str) -> bool:
    """Say whether a name is a file's own: no folder, no way up, nothing that a shell or a terminal would act on."""
    return 0 < len(name) <= 200 and name.isprintable() and not set(name) & set("/\\:\0") and name.strip(". ") != ""

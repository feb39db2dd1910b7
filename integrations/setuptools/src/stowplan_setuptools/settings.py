"""What `-C stowplan.NAME=VALUE` may say: the options of the project file, and how the cache is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Any

from stowplan.build.jobs import Terms
from stowplan.build.schema import problems, project_schema
from stowplan.cli.caching import read_only_by_environment
from stowplan.errors import UsageError
from stowplan.nouns import dataclass, field
from stowplan_setuptools.ending import stop

PREFIX = "stowplan."
TRUTHS = {"true": True, "1": True, "false": False, "0": False}
CACHES: Mapping[str, Mapping[str, bool]] = {
    "use": {}, "off": {"no_cache": True}, "recache": {"recache": True}, "verify": {"verify": True},
    "read-only": {"read_only": True},
}  # fmt: skip
SETUPTOOLS = (
    "--build-option", "--global-option", "--quiet", "--verbose", "editable-mode", "editable_mode", "quiet", "verbose",
)  # fmt: skip
"""What setuptools itself takes; it ignores every other key, so a slip of the keyboard would change nothing."""
Given = Mapping[str, "str | Sequence[str] | None"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Options that win over the project file's, and the terms the models are built on."""

    options: Mapping[str, Any] = field(default_factory=dict)
    cache: str = "use"

    @property
    def terms(self) -> Terms:
        return Terms(**{"read_only": read_only_by_environment(), **CACHES[self.cache]})


_current: ContextVar[Settings | None] = ContextVar("stowplan_settings", default=None)


def current() -> Settings:
    """Return the settings of the build that is under way, the defaults where no backend of ours passed any."""
    return _current.get() or Settings()


@contextmanager
def applied(given: Given | None) -> Iterator[None]:
    """Let `current` return what was given on the command line while the block runs; a mistake ends the build."""
    try:
        settings = parsed(given or {})
    except UsageError as err:
        stop(err)
    token = _current.set(settings)
    try:
        yield
    finally:
        _current.reset(token)


def parsed(given: Given) -> Settings:
    """Return the settings of a frontend's `-C` options. Raises `UsageError` for a key or value that is none."""
    options: dict[str, Any] = {}
    cache = "use"
    rules: Mapping[str, Mapping[str, Any]] = project_schema()["$defs"]["options"]["properties"]
    known = [f"{PREFIX}{name}" for name in (*rules, "cache")]
    for key, values in given.items():
        if key in SETUPTOOLS:
            continue
        if key not in known:
            near = get_close_matches(key, [*known, *SETUPTOOLS], n=1)
            advice = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise UsageError(f"-C {key[:60]}: is unknown; {advice}")
        name, value = key.removeprefix(PREFIX), _last(values)
        if name == "cache":
            cache = _cache(value)
        else:
            options[name] = _option(key, value, rules[name])
    return Settings(options=options, cache=cache)


def _last(values: str | Sequence[str] | None) -> str:
    """Return the text of a setting; of one that is given twice, which `build` makes a list, the last."""
    if values is None or isinstance(values, str):
        return values or ""
    return values[-1] if values else ""


def _option(key: str, value: str, rule: Mapping[str, Any]) -> object:
    found: object = value
    if rule["type"] == "boolean":
        found = TRUTHS.get(value.lower(), value)
    elif rule["type"] == "number":
        with suppress(ValueError):
            found = float(value)
    wrong = problems(found, rule)
    if wrong:
        raise UsageError(f"-C {key}={value[:60]}: {wrong[0].partition(': ')[2]}")
    return found


def _cache(value: str) -> str:
    if value not in CACHES:
        raise UsageError(f"-C {PREFIX}cache={value[:60]}: write one of {', '.join(CACHES)}")
    return value

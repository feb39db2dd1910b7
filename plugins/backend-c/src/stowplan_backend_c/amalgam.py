"""Joins the C runtime into one text: every header once, only the kernels in use, all of it static."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from stowplan.errors import InternalFault

RUNTIME = Path(__file__).parent / "runtime"

_INCLUDE = re.compile(r'\s*#\s*include\s+(?:"(?P<own>[^"]+)"|<(?P<system>[^>]+)>)')
_CONDITION = re.compile(r"\s*#\s*(?P<word>ifdef|ifndef|if|elif|else|endif)\b(?P<test>.*)")
_NAMES_ONLY = re.compile(r"\s*!?STOW_(?:WITH_\w+|COUNTERS)(?:\s*(?:\|\||&&)\s*!?STOW_(?:WITH_\w+|COUNTERS))*\s*")


KERNELS = ("auto", "portable", "dsp", "helium", "neon", "x86")
"""Kernel sets by name; `auto` has all of them in the source, and the compiler takes what its target has."""
_SETS = {
    "dsp": "STOW_WITH_SET_DSP",
    "helium": "STOW_WITH_SET_HELIUM",
    "neon": "STOW_WITH_SET_NEON",
    "x86": "STOW_WITH_SET_SSE2",
}


def amalgamate(
    kinds: Collection[str],
    lz4: bool,
    specialized: bool = False,
    kernels: str = "auto",
    cases: Mapping[str, bool] | None = None,
    range_coder: bool = False,
) -> str:
    """Return the runtime with the kernels of these node kinds (names as in `planfile/kinds.py`).

    With `specialized`, what follows must define `stow_specialized`. `cases` says what of the kernels is needed, see
    `cases.py`; by default all of it is.
    """
    from stowplan.planfile.kinds import NODE_KINDS

    settings = {f"STOW_WITH_{name.upper()}": name in kinds for name in NODE_KINDS}
    settings |= {
        "STOW_WITH_LZ4": lz4,
        "STOW_WITH_RANGE": range_coder,
        "STOW_WITH_DIGEST": True,
        "STOW_COUNTERS": False,
        "STOW_WITH_PREPARED": False,
    }
    settings["STOW_WITH_SPECIALIZED"] = specialized
    settings |= cases or {}
    if kernels != "auto":
        settings |= {setting: name == kernels for name, setting in _SETS.items()}
    seen: set[str] = set()
    parts = [_expanded(path.name, seen) for path in sorted(RUNTIME.glob("*.c"))]
    defines = "".join(f"#define {name} {int(value)}\n" for name, value in settings.items() if _differs(name, value))
    text = re.sub(r"^static inline\b", "STOW_INLINE", "".join(parts), flags=re.MULTILINE)
    return _LINKAGE + defines + pruned(text, settings)


def _differs(name: str, value: bool) -> bool:
    """Say whether a setting is other than what headers take for granted."""
    return name in _SETS.values() or value is (name == "STOW_WITH_SPECIALIZED")


_LINKAGE = """\
/* Which functions of the runtime a plan needs varies: that some go unused is no reason for a warning. */
#if defined(__GNUC__)
#define STOW_API static __attribute__((unused))
#define STOW_INLINE static inline __attribute__((unused))
#define STOW_ALONE __attribute__((flatten, noinline, unused))
#else
#define STOW_API static
#define STOW_INLINE static inline
#define STOW_ALONE
#endif
"""


def _expanded(name: str, seen: set[str]) -> str:
    """Return a file with the headers it includes in place, each only where it is first met."""
    lines = []
    for line in (RUNTIME / name).read_text("utf-8").splitlines(keepends=True):
        match = _INCLUDE.match(line) if "#" in line else None  # most lines are no directives: twice as fast
        if match is None:
            lines.append(line)
        elif match["system"] and match["system"] not in seen:
            seen.add(match["system"])
            lines.append(line)
        elif match["own"] and match["own"] not in seen:
            seen.add(match["own"])
            lines.append(_expanded(match["own"], seen))
    return f"\n/* ---- {name} ---- */\n\n" + "".join(lines)


def pruned(text: str, settings: Mapping[str, bool]) -> str:
    """Return C source without what the settings leave out; conditions on anything else stay as they are.

    Understands `#if` and `#elif` with names of settings joined by || and &&, with or without !, and `#else`.
    """
    kept: list[str] = []
    stack: list[bool | None] = []  # for each open condition: does its branch stay; None: not ours to decide
    taken: list[bool] = []  # whether one of its branches stays, this one or an earlier one
    for line in text.splitlines(keepends=True):
        match = _CONDITION.match(line) if "#" in line else None
        alive = False not in stack
        if match is None:
            if alive:
                kept.append(line)
            continue
        if match["word"] in ("if", "ifdef", "ifndef"):
            stack.append(_decide(match["word"], match["test"], settings) if alive else None)
            taken.append(stack[-1] is True)
            if alive and stack[-1] is None:
                kept.append(line)
            continue
        if not stack:
            raise InternalFault(f"the runtime's sources have an #{match['word']} without its #if")
        if stack[-1] is None:
            if alive:
                kept.append(line)
        elif match["word"] == "elif":
            decided = _decide("if", match["test"], settings)
            if decided is None:
                raise InternalFault("the runtime's sources have an #elif on something else after an #if on a setting")
            stack[-1] = decided and not taken[-1]
            taken[-1] = taken[-1] or decided
        elif match["word"] == "else":
            stack[-1] = not taken[-1]
        if match["word"] == "endif":
            stack.pop()
            taken.pop()
    return "".join(kept)


def _decide(word: str, test: str, settings: Mapping[str, bool]) -> bool | None:
    test = re.sub(r"/\*.*?\*/", "", test).strip()
    if word != "if" or not _NAMES_ONLY.fullmatch(test):
        return None
    if not set(re.findall(r"STOW_\w+", test)) <= settings.keys():
        return None
    return any(all(_holds(name.strip(), settings) for name in part.split("&&")) for part in test.split("||"))


def _holds(name: str, settings: Mapping[str, bool]) -> bool:
    return not settings[name[1:]] if name.startswith("!") else settings[name]

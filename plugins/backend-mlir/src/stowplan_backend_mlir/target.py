"""What `--on` and `--aot` name: this machine's processor, with options behind colons, and all of it for keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stowplan.errors import UsageError
from stowplan.nouns import dataclass
from stowplan_backend_mlir.installation import llvm_revision, processor, versions

OPTIONS = ("opt", "emit", "name")
FORMS = ("object", "llvm", "bytecode", "header")
DEFAULT_OPT = 2


@dataclass(frozen=True, kw_only=True)
class Target:
    """How code is to be made: LLVM's level of optimization, what is written, and what its function is called."""

    opt_level: int = DEFAULT_OPT
    form: str = "object"
    name: str = "model"

    @property
    def facts(self) -> dict[str, str]:
        """For keys: everything as text. Only an object file depends on this machine's processor."""
        from stowplan_backend_mlir.plan import CompilationPlan

        facts = {"llvm": llvm_revision(), **versions(), "plan": CompilationPlan().identity, "emit": self.form}
        if self.form == "object":
            facts.update(processor=processor(), opt=str(self.opt_level))
        return facts if self.form == "bytecode" else {**facts, "name": self.name}


def target(words: str) -> Target:
    """Return the target that a name stands for. Raises `UsageError` for a part that means nothing."""
    kind, *parts = words.split(":")
    if kind != "cpu":
        raise UsageError(f"{kind[:40]}: backend mlir makes code for this machine's processor; write --on or --aot cpu")
    given: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in OPTIONS or not equals or not value:
            raise UsageError(f"cpu:{part[:60]}: write OPTION=VALUE, where OPTION is {', '.join(OPTIONS)}")
        if key in given:
            raise UsageError(f"cpu:{part[:60]}: {key} is there twice")
        given[key] = value
    return Target(opt_level=_level(given), form=_form(given), name=_identifier(given))


def _level(given: Mapping[str, str]) -> int:
    text = given.get("opt", str(DEFAULT_OPT))
    if text not in ("0", "1", "2", "3"):
        raise UsageError(f"opt={text[:40]}: write 0, 1, 2 or 3")
    return int(text)


def _form(given: Mapping[str, str]) -> str:
    form = given.get("emit", FORMS[0])
    if form not in FORMS:
        raise UsageError(f"emit={form[:40]}: write {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    return form


def _identifier(given: Mapping[str, str]) -> str:
    name = given.get("name", "model")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name):
        raise UsageError(f"name={name[:60]}: write a C identifier of at most 63 characters")
    return name

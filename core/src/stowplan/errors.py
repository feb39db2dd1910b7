"""What happened, where, and how to fix it: every error a user of stowplan can meet.

Exit codes are part of the contract of the command line: 0 done, 1 refused, 2 usage, 3 an internal fault.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the command line imports this first, and a warm start cannot afford `typing`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stowplan.build.facts import Facts


class StowplanError(Exception):
    """Base of all errors that stowplan raises on purpose; its text is one readable line (or a short list).

    `exit_code` is what the command line returns, `code` a stable word for `--json` and for tests.
    """

    exit_code = 1
    code = "refused"

    def details(self) -> Mapping[str, object]:
        """Return machine-readable facts beside the message, for `--json`."""
        return {}


class UsageError(StowplanError):
    """The command line or a call's arguments do not make sense (exit 2)."""

    exit_code = 2
    code = "usage"


class ModelError(StowplanError):
    """A model file cannot be read: missing, damaged, too large or not a model."""

    code = "bad-model"


class UnsupportedError(StowplanError):
    """A model is sound, but uses something stowplan does not support; `reasons` names all of it at once."""

    code = "unsupported"

    def __init__(self, message: str, reasons: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)

    def details(self) -> Mapping[str, object]:
        return {"reasons": list(self.reasons)}


class DoesNotFit(StowplanError):
    """No plan meets the budget; `cause` says which stage, which operator and how many bytes are missing."""

    code = "does-not-fit"

    def __init__(self, cause: str, *, needed_bytes: int | None = None, budget_bytes: int | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.needed_bytes = needed_bytes
        self.budget_bytes = budget_bytes
        self.facts: Facts | None = None  # what the report can say all the same; the pipeline fills it in

    @property
    def refusal(self) -> str:
        """What a user is told who wanted a plan, by every command."""
        return f"no plan written: {self}"

    def details(self) -> Mapping[str, object]:
        return {"needed_bytes": self.needed_bytes, "budget_bytes": self.budget_bytes}


class PlanError(StowplanError):
    """A plan file cannot be used: damaged, truncated, of an unknown version, or not a plan."""

    code = "bad-plan"


class OutputError(StowplanError):
    """A file cannot be written where the user asked for it."""

    code = "output"


class PluginError(StowplanError):
    """A plugin is missing, broken, or two of them claim the same name."""

    code = "plugin"


class RuntimeFailure(StowplanError):
    """Running a plan failed for a reason outside the plan: wrong inputs, no compiler, no memory."""

    code = "run"


class InternalFault(StowplanError):
    """stowplan itself is wrong: a plan failed its checker or its proof. Always worth a report (exit 3)."""

    exit_code = 3
    code = "internal"

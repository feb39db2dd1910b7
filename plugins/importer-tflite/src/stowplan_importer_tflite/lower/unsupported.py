"""What to say of an operator that has no lowering: what it is, and where a model without it may come from."""

from __future__ import annotations

CUSTOM = "CUSTOM:"
COMPILED = {
    "edgetpu-custom-op": "an Edge TPU",
    "ethos-u": "an Ethos-U",
    "DISPATCH_OP": "one vendor's NPU",
}
"""Custom operators that hold a program instead of a computation."""


def reason(kind: str) -> str:
    """Return why an operator does not convert, for people who want the model to."""
    code = kind.removeprefix(CUSTOM)
    if code == kind:
        return "not a supported operator"
    if code in COMPILED:
        return f"not a supported operator: a program for {COMPILED[code]}; take the model from before it was compiled"
    if code.startswith("Flex"):
        return "not a supported operator: one of TensorFlow itself; convert the model again without SELECT_TF_OPS"
    return "not a supported operator: a custom one, which only its author's runtime knows"

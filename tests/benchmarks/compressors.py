"""Compressors of weights beside each other: size of the packed blocks, instructions of a run on a Cortex-M4, host time.

Instructions are those of a whole run, weights unpacked, against the same model with its weights in flash; the column is
empty where that needs more memory than the board has. Host time is the C decoder's, in turn.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import Any

from measure import MODELS, STANDARD, arguments, show

from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import StowplanError
from stowplan.planfile.layout import DECODERS

FAST_BYTES, SLOW_BYTES = 300 << 10, 1 << 20


def compiled(name: str, compressor: str) -> Any:
    pools = (("fast", FAST_BYTES), ("slow", SLOW_BYTES))
    return compile_model(CompileRequest(model_path=MODELS / STANDARD[name], pools=pools, compressor=compressor))


def instructions(plan: bytes) -> int | None:
    """Return the instructions of a run on an emulated Cortex-M4, None where the board or its emulator says no."""
    from stowplan.plugins.host import host
    from stowplan.plugins.kinds import BoardOptions

    backend: Any = host().backends()["qemu"]
    try:
        board = backend.compile_on(plan, BoardOptions(board="cortex-m4"))
        _, report = board.measure([bytes(port.size_bytes) for port in board.inputs])
    except StowplanError:
        return None
    return int(report.instructions)


def decode_ns(blocks: dict[str, list[tuple[bytes, int]]], rounds: int) -> dict[str, float]:
    """Return the median time of unpacking all blocks, per compressor, in turn."""
    from stowplan_backend_c.binding import runtime

    target = ctypes.create_string_buffer(max(size for rows in blocks.values() for _, size in rows))
    seen: dict[str, list[int]] = {name: [] for name in blocks}
    for _ in range(rounds):
        for name, rows in blocks.items():
            decode = getattr(runtime().library, f"stow_{name}_decode")
            start = time.perf_counter_ns()
            for packed, size in rows:
                assert decode(packed, len(packed), ctypes.addressof(target), size)
            seen[name].append(time.perf_counter_ns() - start)
    return {name: statistics.median(times) for name, times in seen.items()}


def main() -> None:
    options = arguments(__doc__ or "")
    if not MODELS.is_dir():
        raise SystemExit(f"the models are not at {MODELS}")
    rows: list[list[object]] = []
    facts: dict[str, object] = {}
    for model in ("kws", "resnet8") if options.quick else tuple(STANDARD):
        plans = {name: compiled(model, name) for name in ("none", *DECODERS)}
        blocks = {name: [(block.packed, block.unpacked_bytes) for block in plans[name].plan.blocks if block]
                  for name in DECODERS}  # fmt: skip
        whole = sum(size for _, size in blocks["lz4"])
        counts = {name: instructions(result.data) for name, result in plans.items()}
        times = decode_ns(blocks, 5 if options.quick else 21)
        facts[model] = found = {}
        for name in DECODERS:
            base, more = counts["none"], counts[name]
            found[name] = row = {
                "packed_ratio": sum(len(packed) for packed, _ in blocks[name]) / whole,
                "instructions_a_byte": None if base is None or more is None else (more - base) / whole,
                "run_ratio": None if base is None or more is None else more / base,
                "host_ns_a_byte": times[name] / whole,
            }
            cells = ["" if value is None else f"{value:.3f}" for value in row.values()]
            rows.append([f"{model}, {name}", whole, *cells])
    headings = ["", "bytes", "packed/bytes", "M4 instructions a byte", "M4 run x none", "host ns a byte"]
    show(options, headings, rows, facts)


if __name__ == "__main__":
    main()

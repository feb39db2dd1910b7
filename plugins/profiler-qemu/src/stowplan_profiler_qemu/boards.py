"""The boards: which emulated machine stands for a core, how code for it is compiled, and where its memories lie."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.nouns import dataclass

KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Board:
    """One core. `flash` and `ram` are base and size of what the emulated machine has; a product has less of it.

    `headers` are options for compiling only: where the C library's headers are; nothing of the library is linked.
    """

    name: str
    core: str
    emulator: str
    machine: tuple[str, ...]
    compiler: str
    flags: tuple[str, ...]
    flash: tuple[int, int]
    ram: tuple[int, int]
    headers: tuple[str, ...] = ()


def _arm(name: str, core: str, machine: str, *flags: str, flash: tuple[int, int], ram: tuple[int, int]) -> Board:
    return Board(
        name=name, core=core, emulator="qemu-system-arm", machine=("-M", machine), compiler="arm-none-eabi-gcc",
        flags=("-mthumb", "-mno-unaligned-access", *flags), flash=flash, ram=ram,
    )  # fmt: skip


_LOW, _HIGH = (0, 4 * MIB), (0x20000000, 4 * MIB)
BOARDS: Mapping[str, Board] = {
    board.name: board
    for board in (
        _arm("cortex-m0plus", "Cortex-M0+", "mps2-an385", "-mcpu=cortex-m0plus", flash=_LOW, ram=_HIGH),
        _arm("cortex-m3", "Cortex-M3", "mps2-an385", "-mcpu=cortex-m3", flash=_LOW, ram=_HIGH),
        _arm("cortex-m4", "Cortex-M4F", "mps2-an386", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard",
             flash=_LOW, ram=_HIGH),
        _arm("cortex-m7", "Cortex-M7F", "mps2-an500", "-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard",
             flash=_LOW, ram=_HIGH),
        _arm("cortex-m33", "Cortex-M33F", "mps2-an505", "-mcpu=cortex-m33", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard",
             flash=(0x10000000, 4 * MIB), ram=(0x38000000, 4 * MIB)),
        _arm("cortex-m55", "Cortex-M55 with Helium", "mps3-an547", "-mcpu=cortex-m55", "-mfloat-abi=hard",
             flash=(0, 512 * KIB), ram=(0x21000000, 2 * MIB)),
        Board(name="rv32", core="RV32IMAC", emulator="qemu-system-riscv32", machine=("-M", "virt", "-bios", "none"),
              compiler="riscv64-unknown-elf-gcc",
              flags=("-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany", "-mstrict-align"),
              headers=("-march=rv32imac_zicsr", "--specs=picolibc.specs"),
              flash=(0x80000000, 16 * MIB), ram=(0x82000000, 16 * MIB)),
    )
}  # fmt: skip

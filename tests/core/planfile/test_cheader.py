"""The C header of the plan file follows the one table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stowplan.planfile import layout
from stowplan.planfile.cheader import header
from stowplan.planfile.kinds import NODE_KINDS

RUNTIME = Path(__file__).parents[3] / "plugins/backend-c/src/stowplan_backend_c/runtime"


def test_the_committed_header_is_what_the_table_says() -> None:
    assert (RUNTIME / "stow_layout.h").read_text() == header(), (
        "run python -m stowplan.planfile.cheader > stow_layout.h"
    )


def test_the_module_prints_the_header() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "stowplan.planfile.cheader"], capture_output=True, text=True, check=True
    )
    assert run.stdout == header()


def test_every_kind_has_a_code_of_its_own_that_fits_a_byte() -> None:
    codes = [kind.code for kind in NODE_KINDS.values()]
    assert len(set(codes)) == len(codes)
    assert all(0 < code < 256 for code in codes)
    assert all(name == kind.name for name, kind in NODE_KINDS.items())


def test_every_word_is_of_a_type_that_writers_know() -> None:
    assert {param.type for kind in NODE_KINDS.values() for param in kind.params} <= {"i32", "f32", "const"}


def test_records_have_no_holes_so_that_c_lays_them_out_alike() -> None:
    for record in layout.RECORDS:
        sizes = {"u8": 1, "u16": 2, "u32": 4, "i32": 4, "f32": 4}
        for field in record.fields:
            size = sizes.get(field.type, 1)
            assert record.offset_of(field.name) % size == 0, f"{record.name}.{field.name} is not aligned"

"""Tensors in .npy and .bin files, against numpy as the oracle."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.cli.arrays import labelled, read_tensor, to_file, values
from stowplan.errors import RuntimeFailure, UsageError
from stowplan.plugins.kinds import Port

DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def port(shape: tuple[int, ...], dtype: str = "int8", name: str = "x") -> Port:
    return Port(name=name, shape=shape, dtype=dtype, size_bytes=int(np.prod(shape)) * np.dtype(dtype).itemsize)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (1, 4, 4, 3)])
def test_what_numpy_saves_is_read_and_what_we_write_numpy_loads(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    array = (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(dtype)
    path = tmp_path / "x.npy"
    path.write_bytes(npy(array))
    data = read_tensor(path, port(shape, dtype))
    assert data == array.tobytes()
    assert values(port(shape, dtype), data) == array.ravel().tolist()
    again = np.load(io.BytesIO(to_file(path, port(shape, dtype), data)), allow_pickle=False)
    assert again.dtype == array.dtype
    assert np.array_equal(again, array)


def test_a_raw_file_is_the_bytes_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(range(6)))
    assert read_tensor(path, port((2, 3))) == bytes(range(6))
    assert to_file(path, port((2, 3)), b"abcdef") == b"abcdef"


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3), np.float32), "holds float32, input x is int8"),
        (np.zeros((3, 2), np.int8), "holds 3x2, input x is 2x3"),
        (np.zeros((1, 2, 3), np.int8), "reshape it first"),
        (np.asfortranarray(np.zeros((2, 3), np.int8)), "column by column"),
        (np.zeros((2, 3), ">i2"), "elements of type >i2"),
        (np.zeros((2, 3), [("a", "i1")]), "elements of type a structure"),
        (np.zeros((2, 3), "S4"), "elements of type"),
    ],
)
def test_an_array_that_is_not_the_input_is_refused_with_what_it_is(tmp_path: Path, array, message: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(array))
    with pytest.raises(RuntimeFailure, match=message) as caught:
        read_tensor(path, port((2, 3)))
    assert "\n" not in str(caught.value)


def test_pickled_objects_are_refused_unopened(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    file = io.BytesIO()
    np.save(file, np.array([{}, {}], dtype=object), allow_pickle=True)
    path.write_bytes(file.getvalue())
    with pytest.raises(RuntimeFailure):
        read_tensor(path, port((2,)))


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("x.bin", b"12345", RuntimeFailure), ("x.bin", b"1234567", RuntimeFailure), ("x.bin", b"", RuntimeFailure),
        ("x.npy", b"", RuntimeFailure), ("x.npy", b"\x93NUMPY", RuntimeFailure), ("x.npy", b"123456", RuntimeFailure),
        ("x.npz", b"PK", UsageError), ("x", b"123456", UsageError),
    ],
)  # fmt: skip
def test_files_of_the_wrong_length_or_kind_are_refused(tmp_path: Path, name: str, data: bytes, error: type) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(error):
        read_tensor(tmp_path / name, port((2, 3)))


def test_a_file_that_is_far_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RuntimeFailure, match="more than"):
        read_tensor(path, port((2, 3)))


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "d.npy").mkdir()
    for name in ("absent.npy", "d.npy"):
        with pytest.raises(RuntimeFailure):
            read_tensor(tmp_path / name, port((2, 3)))


GOOD = npy(np.arange(6, dtype=np.int8).reshape(2, 3))


@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 200)
)
def test_a_damaged_file_is_refused_or_read_but_never_crashes(tmp_path_factory, changes, cut: int) -> None:
    data = bytearray(GOOD)
    for position, value in changes:
        data[position] = value
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    path.write_bytes(data[:cut] if cut < 100 else data)
    with contextlib.suppress(RuntimeFailure):
        assert len(read_tensor(path, port((2, 3)))) == 6


def test_deeply_nested_headers_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    header = ("(" * 30000).encode()
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(RuntimeFailure, match="damaged"):
        read_tensor(path, port((2, 3)))


def test_ports_without_a_name_or_with_the_same_one_are_told_apart() -> None:
    ports = labelled([port((1,), name=""), port((1,), name="x"), port((1,), name="x")], "input")
    assert [p.name for p in ports] == ["input0", "x", "x#2"]

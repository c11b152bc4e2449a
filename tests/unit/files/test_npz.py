"""Archives that others made: what is wrong with a member is told before anything is unpacked."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.files.npz import read_npz
from accelsim.files.reading import read_text


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


def header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (63 - (len(text) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def archive(path: Path, content: bytes, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("x.npy", content)
    return path


def changed(path: Path, change: Callable[[bytearray], None]) -> Path:
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)
    return path


def encrypted(content: bytearray) -> None:
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1


def compression(method: int) -> Callable[[bytearray], None]:
    def change(content: bytearray) -> None:
        content[8] = content[content.index(b"PK\x01\x02") + 10] = method

    return change


def damaged(content: bytearray) -> None:
    content[200] ^= 0xFF


def test_what_numpy_writes_is_read(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b c": np.asfortranarray(np.ones((2, 3), np.int8)), "none": np.zeros((0, 3)), "one": np.array(True),
    }  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = read_npz(tmp_path / "a.npz", "arrays", UsageError)
        assert list(found) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype


X = npy(np.arange(40, dtype=np.float32))
BAD = {
    "strings": (lambda path: archive(path, npy(np.array(["a"]))), "array 'x' holds <U1 values; expected numbers"),
    "bytes": (lambda path: archive(path, npy(np.array([b"a"]))), r"array 'x' holds \|S1 values"),
    "datetime": (lambda path: archive(path, npy(np.zeros(2, "M8[s]"))), "array 'x' holds datetime64"),
    "complex": (lambda path: archive(path, npy(np.zeros(2, complex))), "array 'x' holds complex128 values"),
    "struct": (lambda path: archive(path, npy(np.zeros(2, "i4,f4"))), "array 'x' holds .* values"),
    "objects": (lambda path: archive(path, header("(1,)", "'|O'") + b"x"), "array 'x' holds object values"),
    "a claim": (lambda path: archive(path, header("(100000000000,)") + bytes(8)), "has 8 B of data; its header says 400,000,000,000"),
    "a huge claim": (lambda path: archive(path, header("(9" + "9" * 40 + ",)") + bytes(8)), "'x' has 8 B of data"),
    "negative": (lambda path: archive(path, header("(-3,)") + bytes(8)), "'x' is no array that can be read"),
    "nested header": (lambda path: archive(path, header("(" * 300 + ")" * 300)), "'x' is no array that can be read"),
    "no array": (lambda path: archive(path, b"hello"), "'x' is no array that can be read"),
    "encrypted": (lambda path: changed(archive(path, X), encrypted), "array 'x' is encrypted"),
    "unknown compression": (lambda path: changed(archive(path, X), compression(77)), "'x' is no array that can be read"),
    "broken deflate": (lambda path: changed(archive(path, X), compression(8)), "'x' is no array that can be read"),
    "broken lzma": (lambda path: changed(archive(path, X), compression(14)), "'x' is no array that can be read"),
    "damaged": (lambda path: changed(archive(path, X), damaged), "'x' is (no array that can be read|damaged)"),
    "truncated": (lambda path: path.write_bytes(archive(path, X).read_bytes()[:100]), "truncated, or not an npz file"),
    "text": (lambda path: path.write_text("hello"), "truncated, or not an npz file"),
    "npy": (lambda path: path.write_bytes(X), "holds a single array without a name"),
    "directory": (lambda path: path.mkdir(), "cannot be read: Is a directory"),
    "nothing": (lambda path: None, "cannot be read: No such file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_archive_of_numbers_is_told(tmp_path: Path, name: str) -> None:
    make, told = BAD[name]
    make(tmp_path / "bad.npz")
    with pytest.raises(UsageError, match=told) as caught:
        read_npz(tmp_path / "bad.npz", "an npz file", UsageError)
    assert {problem.where for problem in caught.value.problems} == {str(tmp_path / "bad.npz")}


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 GiB of zeros in 2 MB: told by the directory of the archive."""
    monkeypatch.setattr("accelsim.files.npz.MOST_B", 2**30)
    size = 2**31
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header(f"({size // 4},)"))
        for _ in range(size // 2**26):
            member.write(bytes(2**26))
    with pytest.raises(UsageError, match="its arrays take 2 GiB; expected at most 1 GiB"):
        read_npz(tmp_path / "bomb.npz", "an npz file", UsageError)


def test_an_endless_file_is_read_up_to_a_bound() -> None:
    with pytest.raises(ValueError, match="more than 1,000 B"):
        read_text(Path("/dev/zero"), 1000)
    with pytest.raises(UsageError, match="is no regular file"):
        read_npz(Path("/dev/zero"), "an npz file", UsageError)

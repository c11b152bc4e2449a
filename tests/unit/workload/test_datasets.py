"""Datasets: the digits, npz files of every form, and everything that can be wrong with one at once."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.workload.sources.datasets import CHARACTERS, batches, load_dataset, one_hot

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20, 3)).astype(np.float32), np.arange(20) % 4


def save(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


def test_digits_are_split_once_and_for_all() -> None:
    pytest.importorskip("sklearn")
    data = load_dataset("digits")
    assert data.x_train.shape == (1437, 1, 8, 8) and data.x_test.shape == (360, 1, 8, 8)
    assert data.x_train.dtype == np.float32 and data.y_train.dtype == np.int64
    assert data.x_train.min() == 0 and data.x_train.max() == 1
    assert data.classes == 10 and np.bincount(data.y_test, minlength=10).min() > 20
    again = load_dataset("digits")
    assert np.array_equal(again.x_test, data.x_test)


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UsageError, match=r"pip install accelsim\[data\]"):
        load_dataset("digits")


def test_four_arrays(tmp_path: Path) -> None:
    data = load_dataset(save(tmp_path, x_train=X, y_train=Y, x_test=X[:5], y_test=Y[:5] + 2))
    assert len(data.x_train) == 20 and len(data.x_test) == 5 and data.classes == 6
    assert np.array_equal(data.x_train, X)


def test_x_and_y_are_split(tmp_path: Path) -> None:
    data = load_dataset(save(tmp_path, x=X, y=Y))
    assert (len(data.x_train), len(data.x_test), data.classes) == (16, 4, 4)
    rows = {row.tobytes(): label for row, label in zip(X, Y, strict=True)}
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        assert [rows[row.tobytes()] for row in x] == y.tolist()


def test_inputs_alone_are_for_ranges(tmp_path: Path) -> None:
    data = load_dataset(save(tmp_path, tokens=X, mask=Y))
    assert not data.labelled and set(data.inputs) == {"tokens", "mask"}
    assert np.array_equal(data.x_train, X)


def test_all_problems_at_once(tmp_path: Path) -> None:
    hole = np.where(np.arange(60).reshape(20, 3) == 7, np.nan, X)
    path = save(tmp_path, x_train=X, y_train=Y[:3], x_test=hole, z=hole)
    with pytest.raises(UsageError) as caught:
        load_dataset(path)
    assert [problem.where for problem in caught.value.problems] == [str(path)] * 4
    assert [problem.what for problem in caught.value.problems] == [
        "x_test holds 1 values that are NaN or infinite", "z holds 1 values that are NaN or infinite",
        "y_test is missing", "y_train has 3 labels for 20 samples of x_train",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": X, "y_train": Y}, "x_test is missing"),
        ({"x": X, "y": Y.reshape(4, 5)}, "one label per sample"),
        ({"x": X, "y": Y + 0.5}, "no class numbers"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :2], "y_test": Y}, "as those of x_train"),
        ({"x": X[:0], "y": Y[:0]}, "at least one sample"),
        ({"x": np.array(["a"]), "y": Y}, "numbers"),
        ({}, "holds no array"),
    ],
)
def test_refusals(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_dataset(save(tmp_path, **arrays))


def test_names_and_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'digits'"):
        load_dataset("digit")
    with pytest.raises(UsageError, match="cannot be read"):
        load_dataset(tmp_path / "none.npz")
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK\x03\x04")
    with pytest.raises(UsageError, match="truncated"):
        load_dataset(broken)
    np.save(tmp_path / "single.npy", X)
    with pytest.raises(UsageError, match="single array"):
        load_dataset(tmp_path / "single.npy")


@settings(max_examples=20)
@given(size=st.integers(1, 20), seed=st.integers(0, 5))
def test_every_epoch_shows_each_sample_at_most_once(size: int, seed: int) -> None:
    count = 20 // size
    first = [y for _, y in islice(batches(X, np.arange(20), size, seed), 2 * count)]
    again = [y for _, y in islice(batches(X, np.arange(20), size, seed), 2 * count)]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    for epoch in (first[:count], first[count:]):
        seen = np.concatenate(epoch)
        assert len(seen) == count * size == len(set(seen.tolist()))


@pytest.mark.parametrize("size", [0, 21])
def test_batches_that_cannot_be(size: int) -> None:
    with pytest.raises(UsageError, match="1 to 20"):
        next(batches(X, Y, size, 0))


def test_one_hot() -> None:
    assert one_hot(np.array([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_sums_are_a_text_of_additions_that_are_right() -> None:
    data = load_dataset("sums")
    assert data.text and data.labelled and data.classes == len(CHARACTERS)
    told = "".join(CHARACTERS[token] for token in [*data.x_train, *data.x_test])
    lines = told.split()
    assert len(lines) == 20_000 and len(data.x_test) == pytest.approx(len(told) / 5, abs=1)
    for line in lines:
        left, right = line.split("=")
        assert sum(map(int, left.split("+"))) == int(right)


def test_a_text_of_a_file_keeps_its_order(tmp_path: Path) -> None:
    text = np.arange(50) % 7
    data = load_dataset(save(tmp_path, text=text))
    assert data.text and data.classes == 7
    assert np.array_equal(np.concatenate([data.x_train, data.x_test]), text) and len(data.x_test) == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (np.array([1, 2, -1]), "no token numbers"), (np.array([0.5, 2.0]), "no token numbers"),
        (np.ones((2, 3)), "in a row"), (np.array([1.0, np.nan]), "NaN"),
    ],
)  # fmt: skip
def test_texts_that_are_none(tmp_path: Path, text: np.ndarray, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_dataset(save(tmp_path, text=text))


def test_labels_of_every_token_have_a_row_each() -> None:
    rows = one_hot(np.array([[1, 0], [2, 2]]), 3)
    assert rows.argmax(axis=1).tolist() == [1, 0, 2, 2] and rows.sum() == 4

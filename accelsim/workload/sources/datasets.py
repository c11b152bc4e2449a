"""Data to train on and to choose ranges from: rows with labels, texts, all checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from accelsim.errors import Problem, UsageError, count_of, nearest
from accelsim.files.npz import read_npz
from accelsim.files.reading import exists
from accelsim.seeds import SPLIT, SUMS, generator
from accelsim.types import Array

ADDITIONS = 20_000
"""Rows of ``sums``."""
TEST_SHARE = 0.2
"""Share of the samples that are kept for the test where a file does not say."""

FORM = "arrays x_train, y_train, x_test, y_test; or x, y; or text; or the inputs of the model, without labels"
TEXT = "text"
"""Array of a file that is a text: token numbers in a row."""
CHARACTERS = "0123456789+= "
"""Characters of ``sums``; the token of each is its place."""
PARTS = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True)
class Dataset:
    """Samples and labels. ``x_*``: float32 [n, ...]; ``y_*``: int64 [n], classes 0 .. ``classes`` - 1.

    A set for ranges alone has no labels: ``classes`` is 0, all samples are in ``x_train``, and ``inputs`` holds
    every array of the file by name (a model may have several inputs).

    A ``text`` is int64 [n] in ``x_*``, token numbers 0 .. ``classes`` - 1 in a row; the label of a token is the next.
    """

    name: str
    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    classes: int
    inputs: Mapping[str, Array]
    text: bool = False

    @property
    def labelled(self) -> bool:
        """Return whether one can train on it."""
        return self.classes > 0


def load_dataset(name_or_path: str | Path) -> Dataset:
    """A dataset by name (``'digits'``, ``'sums'``) or from an npz file.

    ``digits``: the 1,797 images of 8 x 8 pixels of scikit-learn (test set of Alpaydin and Kaynak, 1998, UCI), grey
    levels 0..16 divided by 16, float32 [n, 1, 8, 8], 1,437 for training. ``sums``: a text of 20,000 additions of two
    digits ('7+5=12 3+0=3 '), character by character. A file holds ``x_train``, ``y_train``, ``x_test``, ``y_test``, or
    ``x`` and ``y`` (a fixed fifth becomes the test), or ``text`` (its last fifth does), or only inputs. Raises
    UsageError for an unknown name, a file that is no npz, and arrays that do not fit each other or are not finite: all
    at once.
    """
    text = str(name_or_path)
    if text in DATASETS:
        return DATASETS[text]()
    path = Path(name_or_path)
    if path.suffix != ".npz" and not exists(path):
        expected = f"{', '.join(DATASETS)}, or an npz file"
        raise UsageError(f"no dataset {text!r}", "", expected, nearest(text, DATASETS))
    return _from_arrays(text, _read(path))


def batches(x: Array, y: Array, size: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """Endless batches of ``size`` samples: epoch after epoch in an order drawn from ``seed``.

    What is left of an epoch and fills no batch is dropped (the next epoch draws anew). Raises UsageError when there
    are fewer samples than ``size``, or ``size`` is not positive.
    """
    if not 0 < size <= len(x):
        raise UsageError(f"batches of {size}", "", f"1 to {len(x)}, the number of samples")
    rng = generator(seed)
    while True:
        order = rng.permutation(len(x))
        for start in range(0, len(x) - size + 1, size):
            chosen = order[start : start + size]
            yield x[chosen], y[chosen]


def one_hot(labels: Array, classes: int) -> Array:
    """float32 [n, classes]: 1 in the column of the label, else 0; of labels of every token [samples, tokens] a row for
    each of them."""
    labels = labels.reshape(-1)
    rows = np.zeros((len(labels), classes), np.float32)
    rows[np.arange(len(labels)), labels] = 1
    return rows


def _digits() -> Dataset:
    try:
        load_digits = import_module("sklearn.datasets").load_digits
    except ImportError as error:
        what = "the dataset 'digits' needs scikit-learn, which is not installed"
        raise UsageError(what, "", "pip install accelsim[data], or an npz file") from error
    pixels, labels = load_digits(return_X_y=True)
    x = (np.asarray(pixels, np.float32) / np.float32(16)).reshape(-1, 1, 8, 8)
    return _split("digits", x, np.asarray(labels, np.int64))


def _sums() -> Dataset:
    pairs = generator(SUMS).integers(0, 10, (ADDITIONS, 2)).tolist()
    told = "".join(f"{a}+{b}={a + b} " for a, b in pairs)
    return _of_text("sums", np.array([CHARACTERS.index(each) for each in told], np.int64))


def _of_text(name: str, tokens: Array) -> Dataset:
    """The last fifth is the test."""
    last, none = max(1, int(len(tokens) * (1 - TEST_SHARE))), np.zeros(0, np.int64)
    classes = int(tokens.max()) + 1
    return Dataset(name, tokens[:last], none, tokens[last:], none, classes, {}, text=True)


DATASETS: dict[str, Callable[[], Dataset]] = {"digits": _digits, "sums": _sums}
"""Datasets that have a name."""


def _split(name: str, x: Array, y: Array) -> Dataset:
    order = generator(SPLIT).permutation(len(x))
    last = max(1, int(len(x) * (1 - TEST_SHARE)))
    train, test = order[:last], order[last:]
    return Dataset(name, x[train], y[train], x[test], y[test], int(y.max()) + 1, {})


def _read(path: Path) -> dict[str, Array]:
    return read_npz(path, f"an npz file with {FORM}", UsageError)


def _from_arrays(where: str, arrays: dict[str, Array]) -> Dataset:
    wrong = {name: list(_number_problems(where, name, array)) for name, array in arrays.items()}
    problems = [problem for found in wrong.values() for problem in found]
    sound = {name: array for name, array in arrays.items() if not wrong[name]}
    labelled = "x_train" in arrays or {"x", "y"} <= set(arrays)
    text = set(arrays) == {TEXT}
    if not arrays:
        problems = [Problem("holds no array", where, FORM)]
    elif text and TEXT in sound:
        problems += _text_problems(where, arrays[TEXT])
    elif labelled:
        problems += _set_problems(where, arrays, sound)
    UsageError.raise_for(problems)
    if text:
        return _of_text(where, arrays[TEXT].astype(np.int64))
    return _labelled(where, arrays) if labelled else _unlabelled(where, arrays)


def _set_problems(where: str, arrays: dict[str, Array], sound: dict[str, Array]) -> Iterator[Problem]:
    """Return what does not fit together; ``sound`` are the arrays that hold numbers."""
    wanted = PARTS if "x_train" in arrays else ("x", "y")
    yield from (Problem(f"{name} is missing", where, FORM) for name in wanted if name not in arrays)
    for x, y in zip(wanted[::2], wanted[1::2], strict=True):
        if x in sound and y in sound:
            yield from _pair_problems(where, sound, x, y)
    if "x_train" in sound and "x_test" in sound:
        shapes = [list(sound[name].shape[1:]) for name in ("x_train", "x_test")]
        if shapes[0] != shapes[1]:
            yield Problem(f"samples of x_test have shape {shapes[1]}", where, f"{shapes[0]}, as those of x_train")


def _number_problems(where: str, name: str, array: Array) -> Iterator[Problem]:
    if array.dtype.kind not in "fiub":
        yield Problem(f"{name} holds {array.dtype} values", where, "numbers")
    elif array.ndim == 0 or array.size == 0:
        yield Problem(f"{name} has shape {list(array.shape)}", where, "at least one sample along the first axis")
    elif array.dtype.kind == "f" and not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        yield Problem(f"{name} holds {count} values that are NaN or infinite", where, "finite numbers")


def _pair_problems(where: str, arrays: dict[str, Array], x: str, y: str) -> Iterator[Problem]:
    labels = arrays[y]
    if labels.ndim != 1:
        yield Problem(f"{y} has shape {list(labels.shape)}", where, "one label per sample, [n]")
    elif len(labels) != len(arrays[x]):
        yield Problem(
            f"{y} has {count_of(len(labels), 'label')} for {count_of(len(arrays[x]), 'sample')} of {x}",
            where,
            "one each",
        )
    if labels.min() < 0 or (labels.dtype.kind == "f" and np.any(labels != np.rint(labels))):
        yield Problem(f"{y} holds values that are no class numbers", where, "whole numbers from 0")


def _text_problems(where: str, tokens: Array) -> Iterator[Problem]:
    if tokens.ndim != 1:
        yield Problem(f"{TEXT} has shape {list(tokens.shape)}", where, "token numbers in a row, [n]")
    if tokens.min() < 0 or (tokens.dtype.kind == "f" and np.any(tokens != np.rint(tokens))):
        yield Problem(f"{TEXT} holds values that are no token numbers", where, "whole numbers from 0")


def _labelled(where: str, arrays: dict[str, Array]) -> Dataset:
    if "x_train" not in arrays:
        return _split(where, _floats(arrays["x"]), arrays["y"].astype(np.int64))
    x, y, x_test, y_test = (arrays[name] for name in PARTS)
    labels, tested = y.astype(np.int64), y_test.astype(np.int64)
    classes = int(max(labels.max(), tested.max())) + 1
    return Dataset(where, _floats(x), labels, _floats(x_test), tested, classes, {})


def _unlabelled(where: str, arrays: dict[str, Array]) -> Dataset:
    first = _floats(next(iter(arrays.values())))
    nothing = np.zeros(0, np.int64)
    return Dataset(where, first, nothing, first[:0], nothing, 0, arrays)


def _floats(x: Array) -> Array:
    return np.ascontiguousarray(x, np.float32)

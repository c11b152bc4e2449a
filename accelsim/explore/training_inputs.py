"""Prepared inputs of a training: the model, the data in its shape, the update rule, the loss scaler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import NamedTuple, TypeVar

from accelsim.errors import AccelsimError, ModelError, Problem, UsageError, count_of
from accelsim.formats.loss_scale import LossScaler
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.chips import load_chip
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.sources.datasets import TEXT, Dataset, load_dataset
from accelsim.workload.sources.load import load_model
from accelsim.workload.training import SGD, Adam, optimiser_of
from accelsim.workload.training.forward import logits_of
from accelsim.workload.training.precision import PRECISIONS, precision_of
from accelsim.workload.zoo import ZOO

T = TypeVar("T")

BATCH = 64
"""Samples per step unless the model says otherwise."""


class Arrays(NamedTuple):
    """Samples in the shape that the model reads, float32, and class numbers, int64 [n]; of a text tokens [n, seq], and
    for each of them the next."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


@dataclass(frozen=True)
class Setup:
    """A checked training: the model, its data, the update rule, the loss scaler and the chip (None: without)."""

    graph: Graph
    data: Arrays
    rule: SGD | Adam
    scaler: LossScaler | None
    chip: Chip | None
    seed: int

    @property
    def input(self) -> str:
        """Name of the model's input."""
        return self.graph.inputs[0]

    @property
    def batch(self) -> int:
        """Samples per step."""
        return self.graph.tensors[self.input].shape[0]


def prepare(
    model: str | Path | Graph,
    data: str | Path | Dataset,
    *,
    steps: int,
    batch: int | None = None,
    lr: float | None = None,
    optimiser: str | SGD | Adam = "sgd",
    precision: str = "fp32",
    loss_scale: str | float = "",
    seed: int = 0,
    on: str | Path | Chip | None = None,
    overrides: Sequence[str] = (),
) -> Setup:
    """Everything that ``train`` needs, from its arguments. Raises what is wrong, all problems at once."""
    problems: list[Problem] = [] if steps > 0 else [Problem(f"{steps} steps", "", "1 or more")]

    def tried(call: Callable[[], T]) -> T | None:
        try:
            return call()
        except AccelsimError as error:
            problems.extend(error.problems)
            return None

    graph = tried(lambda: _graph(model, batch, seed))
    dataset = tried(lambda: labelled(data or ("sums" if graph is not None and reads_tokens(graph) else "digits")))
    rule = tried(lambda: _rule(optimiser, lr))
    tried(lambda: precision_of(precision))
    scaler = tried(lambda: _scaler(loss_scale, precision)) if precision in PRECISIONS else None
    chip = None if on is None else tried(lambda: on if isinstance(on, Chip) else load_chip(on, overrides))
    arrays = tried(lambda: fitted(graph, dataset)) if graph is not None and dataset is not None else None
    if graph is not None and dataset is not None and dataset.text == reads_tokens(graph):
        problems += _too_few(graph, dataset)
    UsageError.raise_for(problems)
    assert graph is not None and arrays is not None and rule is not None
    return Setup(graph, arrays, rule, scaler, chip, seed)


def _graph(model: str | Path | Graph, batch: int | None, seed: int) -> Graph:
    if isinstance(model, Graph):
        if batch not in (None, model.tensors[model.inputs[0]].shape[0]):
            raise UsageError(f"batch {batch} for a graph that is loaded already", "", "it in load_model")
        graph = model
    else:
        graph = trained_model(model, batch or BATCH, seed)
    if len(graph.inputs) != 1:
        raise ModelError(f"{count_of(len(graph.inputs), 'input')}", graph.name, "one, the samples")
    return graph


def trained_model(model: str | Path, batch: int, seed: int) -> Graph:
    """A model with the weights that a training begins with; a decoder of the zoo with the scores of all its tokens."""
    entry = ZOO.get(str(model).partition("?")[0])
    params = {"train": 1} if entry is not None and "train" in entry.params else {}
    return load_model(model, batch=batch, weights="model" if entry is None else f"random:{seed}", params=params)


def reads_tokens(graph: Graph) -> bool:
    """Return whether a model reads token numbers and not samples."""
    return graph.tensors[graph.inputs[0]].dtype in ("int64", "int32")


def labelled(data: str | Path | Dataset) -> Dataset:
    """A dataset with labels. Raises UsageError for one without, and as ``load_dataset``."""
    dataset = data if isinstance(data, Dataset) else load_dataset(data)
    if not dataset.labelled:
        raise UsageError("holds no labels to train on", dataset.name, "arrays x and y")
    return dataset


def _rule(optimiser: str | SGD | Adam, lr: float | None) -> SGD | Adam:
    if isinstance(optimiser, str):
        return optimiser_of(optimiser, lr)
    return optimiser if lr is None else replace(optimiser, lr=lr)


def fitted(graph: Graph, data: Dataset) -> Arrays:
    """The arrays of ``data`` in the shape that ``graph`` reads. Raises UsageError, all that does not fit at once."""
    shape = graph.tensors[graph.inputs[0]].shape
    if data.text or reads_tokens(graph):
        return _windows(graph, data)
    problems = []
    sample = data.x_train.shape[1:]
    rows = len(shape) == 2 and prod(sample) == shape[1]
    if sample != shape[1:] and not rows:
        what = f"samples of shape {list(sample)}"
        problems.append(Problem(what, data.name, f"{list(shape[1:])}, as input {graph.inputs[0]!r} of {graph.name}"))
    classes = graph.tensors[logits_of(graph)].shape[1]
    if data.classes > classes:
        problems.append(Problem(f"{data.classes} classes", data.name, f"at most {classes}, as {graph.name} tells"))
    UsageError.raise_for(problems)
    x, x_test = (part.reshape(len(part), *shape[1:]) for part in (data.x_train, data.x_test))
    return Arrays(x, data.y_train, x_test, data.y_test)


def _pieces(tokens: Array, size: int) -> int:
    """Pieces of a text, each of whose tokens has a next one."""
    return max(0, len(tokens) - 1) // size


def _windows(graph: Graph, data: Dataset) -> Arrays:
    """A text in pieces as long as the model reads, none of which share a token. Raises UsageError, all at once."""
    shape, vocabulary = graph.tensors[graph.inputs[0]].shape, graph.tensors[logits_of(graph)].shape[1]
    if not (data.text and reads_tokens(graph)):
        wanted = f"a text (sums, or a file with {TEXT})" if reads_tokens(graph) else "samples with labels"
        what = "a text" if data.text else "no text"
        raise UsageError(f"{what} for {graph.name}", data.name, wanted)
    if data.classes > vocabulary:
        what = f"{data.classes} different tokens"
        raise UsageError(what, data.name, f"at most {vocabulary}, as {graph.name} tells")
    parts = []
    for tokens in (data.x_train, data.x_test):
        count = _pieces(tokens, shape[1])
        parts += [tokens[begin : begin + count * shape[1]].reshape(count, shape[1]) for begin in (0, 1)]
    return Arrays(*parts)


def _too_few(graph: Graph, data: Dataset) -> list[Problem]:
    size, *rest = graph.tensors[graph.inputs[0]].shape
    count = _pieces(data.x_train, rest[0]) if data.text else len(data.x_train)
    if count >= size:
        return []
    return [Problem(f"{count_of(count, 'sample')} to train on", data.name, f"at least one batch of {size}")]


def _scaler(loss_scale: str | float, precision: str) -> LossScaler | None:
    """The loss scaler, None where there is none."""
    if loss_scale == "":
        loss_scale = "dynamic" if precision_of(precision).scaled else "none"
    if loss_scale == "none":
        return None
    if loss_scale == "dynamic":
        return LossScaler()
    try:
        return LossScaler(float(loss_scale), dynamic=False)
    except ValueError as error:
        expected = "dynamic, none, or a positive number"
        raise UsageError(f"loss scale {loss_scale!r}", "", expected) from error

"""Training a model on data: the values of every step, and what one step costs on a chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.errors import count_of
from accelsim.explore.training_inputs import Setup, fitted, labelled, prepare
from accelsim.files import as_bytes, write_file
from accelsim.formats.loss_scale import LossScaler
from accelsim.threads import one_blas_thread
from accelsim.types import Array
from accelsim.workload.graph import Graph
from accelsim.workload.sources.datasets import Dataset, batches, one_hot
from accelsim.workload.training import (
    SGD,
    Adam,
    QuantConfig,
    Session,
    TrainingGraph,
    fake_quantised,
    sparse_masks,
    training_graph,
    with_weights,
)
from accelsim.workload.training.fake import wrapped_tensors
from accelsim.workload.training.step import FOUND, LABELS, LOSS, RATE, SCALE

if TYPE_CHECKING:
    from accelsim.machine.run import Run
    from accelsim.spec.chip import Chip


History = tuple[Array, Array, Array]
"""Losses, loss scales, whether the step was skipped: one entry per step."""


Execute = Callable[[Mapping[str, Array]], dict[str, Array]]
"""Feeds by input name -> outputs by name."""


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training. ``losses``, ``scales`` (loss scale; 1 without) and ``skipped`` have one entry per
    step.

    ``graph`` is the inference model with the learnt ``weights`` (float32, by name); ``fake_graph`` the same with its
    fake quantisation, None without. Accuracies are shares of 1, of ``fake_graph`` where there is one.
    ``activation_scales``: tensor -> float32 scale; ``weight_scales``: weight -> float32, one per output channel.
    ``step``: the simulated step on a chip, None without; ``time_s`` and ``energy_J`` are those of all steps together,
    the data of each step read from the memory of the chip.
    """

    losses: Array
    scales: Array
    skipped: Array
    train_accuracy: float
    test_accuracy: float
    weights: dict[str, Array]
    graph: Graph
    training: TrainingGraph
    batch: int
    seed: int
    fake_graph: Graph | None = None
    activation_scales: dict[str, Array] = field(default_factory=dict)
    weight_scales: dict[str, Array] = field(default_factory=dict)
    step: Run | None = None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.losses)

    @property
    def step_s(self) -> float | None:
        """Seconds of one step on the chip."""
        return None if self.step is None else self.step.seconds

    @property
    def step_J(self) -> float | None:
        """Joules of one step on the chip."""
        from accelsim.account.energy import energy_table, total_J

        return None if self.step is None else total_J(energy_table(self.step))

    @property
    def time_s(self) -> float | None:
        """Seconds of all steps on the chip."""
        return None if self.step_s is None else self.step_s * self.steps

    @property
    def energy_J(self) -> float | None:
        """Joules of all steps on the chip."""
        return None if self.step_J is None else self.step_J * self.steps

    @property
    def images_per_s(self) -> float | None:
        """Samples per second that the chip trains on."""
        return self.batch / self.step_s if self.step_s else None


@one_blas_thread
def train(
    model: str | Path | Graph,
    data: str | Path | Dataset = "",
    *,
    steps: int,
    batch: int | None = None,
    lr: float | None = None,
    optimiser: str | SGD | Adam = "sgd",
    precision: str = "fp32",
    loss_scale: str | float = "",
    seed: int = 0,
    on: str | Path | Chip | None = None,
    dtype: str = "",
    set: Sequence[str] = (),
    fake_quant: QuantConfig | None = None,
    masks: Mapping[str, Array] | None = None,
    sparsity: str = "",
) -> TrainingResult:
    """Train ``model`` for ``steps`` batches, node by node in the formats of the training graph.

    ``model``: as for ``load_model`` (a model of the zoo starts from 'random:SEED'), or a graph, whose first axis is
    the batch. ``data``: a name, an npz file or a dataset ('': digits, or sums for a language model). ``optimiser``:
    'sgd' (momentum 0.9), 'adam', or one with its own settings; ``lr`` replaces its learning rate. ``precision``: see
    ``PRECISIONS``. ``loss_scale``: 'dynamic' (``LossScaler``, as PyTorch's GradScaler), 'none', a number that stays, or
    '' for what the precision needs; with a scale, a step whose gradients are not finite changes nothing. ``on``: a chip
    on which one step is compiled and simulated, with MACs in ``dtype`` ('' = the format of the precision); ``set``:
    overrides of its spec. ``fake_quant``: quantisation-aware training. ``masks``: weight -> 0 and 1, kept at 0;
    ``sparsity`` (such as '2:4') makes them from the weights at the start. ``seed`` sets weights and batches. Raises
    UsageError, ModelError, SpecError or Infeasible.
    """
    setup = prepare(
        model, data, steps=steps, batch=batch, lr=lr, optimiser=optimiser, precision=precision,
        loss_scale=loss_scale, seed=seed, on=on, overrides=set,
    )  # fmt: skip
    arrays = setup.data
    if sparsity:
        masks = {**sparse_masks(setup.graph, sparsity), **(masks or {})}
    first = next(batches(arrays.x, arrays.y, setup.batch, seed))[0]
    scales = {} if fake_quant is None else start_scales(setup.graph, fake_quant, {setup.input: first})
    step = training_graph(
        setup.graph,
        optimiser=setup.rule,
        precision=precision,
        scaled=setup.scaler is not None,
        fake_quant=fake_quant,
        scales=scales,
        masks=masks,
    )
    run = None if setup.chip is None else simulate_step(step, setup.chip, dtype)
    parts = islice(batches(arrays.x, arrays.y, setup.batch, seed), steps)
    history, states = run_steps(step, parts, setup.rule.lr, setup.scaler)
    return _result(setup, step, history, states, fake_quant, run)


def _result(
    setup: Setup,
    step: TrainingGraph,
    history: History,
    states: dict[str, Array],
    config: QuantConfig | None,
    run: Run | None,
) -> TrainingResult:
    """Models with the learnt weights, their accuracies and scales."""
    weights, arrays = {name: states[name] for name in step.weights}, setup.data
    learnt = with_weights(setup.graph, weights, f"training, {count_of(len(history[0]), 'step')}")
    fake = None if config is None else fake_quantised(setup.graph, config, states)
    seen, unseen = (accuracy(fake or learnt, x, y) for x, y in (arrays[:2], arrays[2:]))
    return TrainingResult(
        *history, seen, unseen, weights, learnt, step, setup.batch, setup.seed, fake, *learnt_scales(step, states), run
    )


def run_steps(
    step: TrainingGraph, data: Iterator[tuple[Array, Array]], lr: float, scaler: LossScaler | None
) -> tuple[History, dict[str, Array]]:
    """Run the training graph over batches of (samples, class numbers): (losses, scales, skipped), the last states."""
    session, classes = Session(step.graph), step.graph.tensors[LABELS].shape[1]
    feeds: dict[str, Array] = {**step.start, RATE: np.asarray(lr, np.float32)}
    name, losses, scales, skipped = step.model.inputs[0], [], [], []
    for x, y in data:
        feeds |= {name: x, LABELS: one_hot(y, classes)}
        if scaler is not None:
            feeds[SCALE] = np.asarray(scaler.scale, np.float32)
        scales.append(1.0 if scaler is None else float(scaler.scale))
        out = session.run(feeds)
        bad = step.scaled and bool(out[FOUND])
        losses.append(float(out[LOSS]))
        skipped.append(bad)
        if scaler is not None:
            scaler.update(bad)
        feeds = {}
    states = {state: session.values[state] for state in step.graph.states}
    history = np.asarray(losses), np.asarray(scales), np.asarray(skipped, bool)
    return history, states


def evaluate(graph: Graph, data: str | Path | Dataset = "digits") -> float:
    """Share of the test samples of ``data`` that ``graph`` classifies rightly.

    Raises UsageError when the data have no labels or do not fit.
    """
    arrays = fitted(graph, labelled(data))
    return accuracy(graph, arrays.x_test, arrays.y_test)


def accuracy(graph: Graph, x: Array, y: Array, run: Execute | None = None) -> float:
    """Share of the samples (of a text, of the tokens) whose largest output is that of their class (of the next one);
    NaN without samples.

    The model runs in its own batch size; what is missing in the last batch is filled up and not counted. ``run``
    executes it on feeds; by default a ``Session``, which takes graphs without fused nodes.
    """
    if not len(x):
        return float("nan")
    run, name = run or Session(graph).run, graph.inputs[0]
    size, right = graph.tensors[name].shape[0], 0
    for start in range(0, len(x), size):
        part, labels = x[start : start + size], y[start : start + size]
        filled = np.concatenate([part, np.repeat(part[:1], size - len(part), axis=0)])
        scores = run({name: filled})[graph.outputs[0]]
        right += int((scores[: labels.size].argmax(axis=1) == labels.reshape(-1)).sum())
    return right / y.size


def simulate_step(step: TrainingGraph, chip: Chip, dtype: str = "", feeds: Mapping[str, Array] | None = None) -> Run:
    """One training step on a chip: its time and ledger. ``dtype``: format of the MACs ('': that of the precision).

    With ``feeds`` (every input of the graph, ``step.start`` among them) the machine computes it too, tile by tile; the
    time is the same. A chip of several cores trains on one of them: cores that exchange gradients are not modelled.
    Raises UsageError for a format that the chip does not have, Infeasible, ModelError.
    """
    from accelsim.compiler.passes import compile
    from accelsim.compiler.state import Options
    from accelsim.machine.simulate import simulate

    values = "off" if feeds is None else "exact"
    options = Options(dtype=dtype or step.precision.compute, values=values, cores=1)
    given = None if feeds is None else dict(feeds)
    return simulate(compile(step.graph, chip, options), given, values)


def start_scales(model: Graph, config: QuantConfig, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Scales to start from (tensor -> float32), from the weights and one run of ``model`` on ``feeds``."""
    session = Session(model)
    session.run(feeds)
    wrapped = wrapped_tensors(model, model.nodes, config)
    return {name: item.start(session.values[name]) for name, item in wrapped.items()}


def learnt_scales(step: TrainingGraph, states: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """(tensor -> scale, weight -> scales per output channel) of a quantisation-aware training."""
    tables: tuple[dict[str, Array], dict[str, Array]] = {}, {}
    for name, item in step.wrapped.items():
        scale = states[item.scale] if item.learnt else item.start(states[name])
        tables[item.axis is not None][name] = scale
    return tables


def save_model(result: TrainingResult, path: str | Path) -> Path:
    """Write the model with its learnt weights as an ONNX file; returns the path. Raises ModelError, UsageError."""
    from accelsim.workload.onnx.exporting.model import export_onnx

    return write_file(path, as_bytes(export_onnx(result.graph).SerializeToString()))

"""Pipelines of AmoebaNet-D on P40s, as torchgpipe measured them, for the check ``training``: nothing is fitted.

Kim et al. (torchgpipe, arXiv 2004.09910, benchmarks/amoebanetd-speed): AmoebaNet-D (18, 256) on 2, 4 and 8 GPUs with
1, 4 and 32 microbatches, cells on each GPU as they balanced them, speed-ups over two GPUs with one microbatch.
Activations are computed again, but for the last microbatch where there are several.

The forward pass of each cell is simulated with 32 and 96 images and is linear in between and beyond. A backward pass
takes twice the forward pass. The results of two cells go to the next GPU over PCIe, each wire for itself; the update of
weights, some milliseconds, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import accumulate
from math import prod
from typing import NamedTuple

from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.costs import Costs, Setting
from accelsim.network.link import transfer
from accelsim.spec.yaml.load import load_chip
from accelsim.spec.yaml.parts import load_link
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.amoebanet import stages
from tests.validation.gpu_rows import Row
from tests.validation.step_times import step_times

MODEL, LAYERS, SIMULATED = "amoebanet-d", 18, (32, 96)
BACKWARD = 2
"""Of a forward pass."""


class Experiment(NamedTuple):
    """``cells`` on each GPU, samples of a batch, samples per second."""

    cells: tuple[int, ...]
    microbatches: int
    batch: int
    rate: float


EXPERIMENTS = (
    Experiment((7, 17), 1, 96, 26.733), Experiment((9, 15), 4, 256, 41.133), Experiment((9, 15), 32, 1280, 47.386),
    Experiment((3, 4, 5, 12), 1, 160, 26.827), Experiment((3, 6, 7, 8), 4, 360, 44.543),
    Experiment((3, 6, 7, 8), 32, 1152, 72.412), Experiment((2, 2, 2, 2, 2, 3, 4, 7), 1, 196, 24.918),
    Experiment((2, 2, 2, 3, 3, 4, 4, 4), 4, 480, 70.065), Experiment((2, 2, 2, 3, 3, 4, 4, 4), 32, 1280, 132.413),
)  # fmt: skip
"""The first is what the others are compared with."""


class CellCost(NamedTuple):
    """Forward pass: ``fixed_fs`` + ``sample_fs`` a sample; ``sample_B``: its result of a sample."""

    fixed_fs: Fraction
    sample_fs: Fraction
    sample_B: int


def cells() -> list[CellCost]:
    """Stem, cells and classifier, in order."""
    names = ["stem1", *(name for name, _ in stages(LAYERS)), "classifier"]
    few, many = (_times_fs(names, samples) for samples in SIMULATED)
    found = []
    for name in names:
        sample_fs = Fraction(many[name] - few[name], SIMULATED[1] - SIMULATED[0])
        found.append(CellCost(few[name] - sample_fs * SIMULATED[0], sample_fs, _result_B(name)))
    return found


def _times_fs(names: list[str], samples: int) -> Mapping[str, int]:
    """Time of each cell; nodes are called by their cell, those of the classifier by themselves."""
    costs = Costs(load_chip("p40"), Setting("fp32", "eager"))
    program, own_fs = step_times(load_model(MODEL, batch=samples), costs)
    found = dict.fromkeys(names, 0)
    for step, time_fs in zip(program.steps, own_fs, strict=True):
        name = step.node.name.split(".")[0]
        found[name if name in found else names[-1]] += time_fs
    return found


def _result_B(name: str) -> int:
    tensors = load_model(MODEL).tensors
    found = tensors.get(f"{name}.bn", tensors.get(name))
    return 0 if found is None else 4 * prod(found.shape)


def rate(asked: Experiment, costs: list[CellCost]) -> float:
    """Samples per second of a pipeline."""
    samples, count = Fraction(asked.batch, asked.microbatches), asked.microbatches
    ends = list(accumulate(asked.cells))
    forward = [
        round(sum(cell.fixed_fs + cell.sample_fs * samples for cell in costs[end - size : end]))
        for size, end in zip(asked.cells, ends, strict=True)
    ]
    again = [int(count == 1 or index < count - 1) for index in range(count)]
    backward = [[[time * (BACKWARD + each) for each in again]] for time in forward]
    link = load_link("pcie-gen3-x16")
    sent = [
        transfer(link, round((costs[end - 1].sample_B + costs[end - 2].sample_B) * samples), write=True)
        for end in ends[:-1]
    ]
    played = play_schedule(
        schedule("gpipe").orders(len(forward), count), forward, backward, 0,
        [*(each.total_fs for each in sent), 0], [*(each.occupancy_fs for each in sent), 0],
    )  # fmt: skip
    return asked.batch * 1e15 / float(played.makespan_fs)


def speed_ups() -> Iterator[Row]:
    """Published beside simulated."""
    costs = cells()
    first, one = EXPERIMENTS[0], rate(EXPERIMENTS[0], costs)
    for asked in EXPERIMENTS[1:]:
        name = f"{len(asked.cells)} P40, m = {asked.microbatches}"
        yield Row(name, asked.rate / first.rate, rate(asked, costs) / one)

"""Mutated ONNX models, through import, compilation, simulation, check and report."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx

from accelsim.explore.against_reference import check_run
from accelsim.report.write import write_run
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model

from .corpus import corpus
from .mutate import flipped, lose_data, mutate
from .run_options import compile_loops, drawn_chip, drawn_request

CHIPS = (("edu-4x4", ("fp32", "int8")), ("tpu-v1", ("int8",)), ("neuroncore-v2", ("bf16", "fp8_e4m3fn")))
"""Chips and the formats that are tried on them."""
EVERY_OPTION = 0.2
"""Share of the cases that draw every option of a run."""
MOST_COMMANDS, MOST_B = 4_000, 256 << 20
"""Limits of a case: what is larger must be refused before it takes the time and the memory."""


ready = compile_loops


def case(seed: int) -> None:
    """One mutated model of the corpus."""
    rng = random.Random(f"models {seed}")
    try_model(rng.choice(corpus()), rng)


def try_model(model: onnx.ModelProto, rng: random.Random) -> None:
    """Mutate, write to a file, and run it with options drawn from ``rng``."""
    mutated = mutate(model, rng)
    if rng.random() < 0.1:
        lose_data(mutated, rng)
    data = mutated.SerializeToString()
    if rng.random() < 0.03:
        data = flipped(data, rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        path.write_bytes(data)
        Path(folder, "data.bin").write_bytes(bytes(range(64)) * 4)
        Path(folder, "link.bin").symlink_to("/etc/hostname")
        _run(path, rng)


def _run(path: Path, rng: random.Random) -> None:
    with limited(MOST_COMMANDS, MOST_B):
        request = _any_options(path, rng) if rng.random() < EVERY_OPTION else _few_options(path, rng)
        job = prepare(request)
        check = request.values != "off" and rng.random() < 0.3
        run = execute(job, check)
        if check:
            check_run(run, job.graph)
        if rng.random() < 0.01:
            write_run(run, path.parent / "report")


def _few_options(path: Path, rng: random.Random) -> Request:
    """Return what most users say: a chip, a format, a batch."""
    chip, formats = rng.choice(CHIPS)
    values = rng.choice(("off", "fast", "exact"))
    batch, scheme = rng.choice((None, None, None, 1, 2)), rng.choice(("symmetric", "affine"))
    weights = rng.choice(("model", "model", "random:1"))
    return Request(
        path, _chip(chip), dtype=rng.choice(formats), values=values, batch=batch, scheme=scheme, weights=weights
    )


def _any_options(path: Path, rng: random.Random) -> Request:
    """Every option of a run on a chip of changed fields."""
    chip = drawn_chip(rng.choice)
    asked = drawn_request(rng.choice, load_model(path), chip)
    return replace(asked, model=path, values=rng.choice(("off", "fast", "exact")))


@cache
def _chip(name: str) -> Chip:
    return load_chip(name)

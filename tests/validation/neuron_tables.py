"""Check ``neuron-tables``: times that AWS publishes for Inferentia, Inferentia2 and Trainium1, uncalibrated and fitted.

Rows are those of the Neuron SDK's benchmark pages in the folder of measurements: encoders (BERT, DistilBERT, RoBERTa at
128 tokens), ResNets at 224 x 224, and the time per token of Llama and Mistral decoders. A batch of an encoder or a
ResNet runs on one NeuronCore, as Neuron's data parallelism has it; its time is that of all batches in flight over the
published throughput. A decoder runs on all chips of an inf2.48xlarge or a trn1.32xlarge by tensor parallelism, each step
after ``sequence length`` tokens, because Neuron attends over the whole of the bucket that it compiled.

Uncalibrated times are those of the shipped specs. Named constants are then fitted on two rows of three, and judged on the
third (``Row.fitted``). Albert (weights that layers share) and XLM-RoBERTa (whose page states a fiftieth of RoBERTa's rate)
are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.cluster.serving.asked import served
from accelsim.cluster.step.costs import PLAIN
from accelsim.fit.search import Knob, Values, fit
from accelsim.types import Floats
from tests.validation.base import Check, check
from tests.validation.gpu_rows import rows_of, without_link_s
from tests.validation.gpu_rows import simulated as run_on
from tests.validation.measured import ABSENT, folder

CLAIMED = 0.20
"""Median error that is claimed of rows without part in the constants."""
ENCODERS: Mapping[str, str] = {
    "distilbert": "bert-base?layers=6,seq=128", "bert-large": "bert-large?seq=128", "roberta-large": "bert-large?seq=128",
    "bert-base": "bert-base?seq=128", "roberta-base": "bert-base?seq=128", "bert base": "bert-base?seq=128",
}  # fmt: skip
DECODERS: Mapping[str, tuple[str, int]] = {
    "Llama-2-7b": ("llama2-7b", 32), "Llama-2-13b": ("llama2-13b", 40), "Llama-2-70b": ("llama2-70b", 80),
    "Llama-3-8B": ("llama3-8b", 32), "Llama-3-70B": ("llama3-70b", 80), "Mistral-7B-Instruct-v0.2": ("llama3-8b?vocab=32000", 32),
}  # fmt: skip
"""Model of the tables -> the model here, and its layers."""
NODES: Mapping[str, float] = {"Inf2.48xlarge": 8 / 12, "trn1.32xlarge": 8 / 16}
"""Instance -> the share of its chips of what each of eight computes: heads and layers divide by eight, not by twelve."""
EIGHT = "trn1-32xl?devices=8"
SHORT, LENGTHY = 128, 1024
"""Tokens before the decode steps that are simulated; others lie on the line through them."""
KNOBS = (
    Knob(("pace of NeuronCore-v1",), 0.5, 8.0, 1.0), Knob(("pace of NeuronCore-v2",), 0.5, 3.0, 1.0),
    Knob(("ms per call",), 0.0, 2.0, 0.2), Knob(("ms per image",), 0.0, 1.0, 0.1),
    Knob(("pace of decoders",), 0.5, 4.0, 1.0), Knob(("us per all-reduce",), 10.0, 300.0, 60.0),
)  # fmt: skip


class Row(NamedTuple):
    """A published time: seconds of a batch of ``batch`` (``images`` of them images), or of a token."""

    name: str
    kind: str
    model: str
    where: str
    batch: int
    length: int
    measured_s: float
    fitted: bool


def rows(data: Path) -> list[Row]:
    """Return all rows, in their order; each third configuration of a kind has no part in the fit."""
    found = dict.fromkeys(
        row for line in rows_of(data / "published_results.csv") for row in (*batch(line), *token(line))
    )
    names: dict[str, list[str]] = {}
    for row in sorted(found):
        if row.name not in (known := names.setdefault(row.kind, [])):
            known.append(row.name)
    return [row._replace(fitted=names[row.kind].index(row.name) % 3 != 2) for row in sorted(found)]


def number(line: Mapping[str, str], name: str) -> int:
    """Return a number of the column of shapes, 0 where it is not there."""
    stated = re.search(rf"{name}=(\d+)", line["shape_or_batch"])
    return int(stated[1]) if stated else 0


def batch(line: Mapping[str, str]) -> Iterator[Row]:
    """The row of a throughput of an encoder or a ResNet on one chip."""
    workload, where = line["workload"], line["chip_as_published"].lower()
    resnet = re.fullmatch(r"(?i)resnet-?(\d+)", workload)
    model = (
        f"resnet{resnet[1]}"
        if resnet
        else next((to for key, to in ENCODERS.items() if workload.lower().startswith(key)), "")
    )
    if where not in ("inf1.xlarge", "inf2.xlarge", "trn1.2xlarge") or "hroughput" not in line["metric"] or not model:
        return
    size, old = number(line, "Batch Size"), where == "inf1.xlarge"
    alone = (old and "Real Time" in line["shape_or_batch"]) or (bool(resnet) and not old and size == 1)
    flying = 1 if alone else 4 if old else 2
    chip = ("inferentia1?cores=1" if alone else "inferentia1") if old else "neuroncore-v2"
    kind = ("ResNet" if resnet else "BERT") + (", Inferentia" if old else ", NeuronCore-v2")
    yield Row(f"{workload}, {size} on {where}", kind, model, chip, size, 0, flying * size / float(line["value"]), False)


def token(line: Mapping[str, str]) -> Iterator[Row]:
    """The row of a time per token."""
    model, where = line["workload"], line["chip_as_published"]
    if model in DECODERS and where in NODES and line["metric"] == "TPOT Latency P50 (ms)":
        size, length = number(line, "Batch Size"), number(line, "Sequence Length")
        name = f"{model}, {size} after {length:,} on {where}"
        yield Row(name, f"decoder, {where}", model, where, size, length, float(line["value"]) / 1e3, False)


@lru_cache(maxsize=256)
def batch_s(model: str, chip: str, size: int) -> float:
    """Seconds of a batch on a core, all cores busy, inputs on the chip."""
    name, _, cores = chip.partition("?")
    overrides = {"set": [cores]} if cores else {}
    return without_link_s(run_on(model, name, "bf16", batch=size, **overrides))


@lru_cache(maxsize=256)
def token_s(model: str, size: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds of computing and of collectives of a decode step on eight chips after ``SHORT`` and ``LENGTHY`` tokens."""
    made, text = [], DECODERS[model][0]
    for prompt in (SHORT, LENGTHY):
        asked = f"{text}{',' if '?' in text else '?'}prompt={prompt},new=2"
        step = served(asked, EIGHT, plan="tp=8", batch=size, setting=replace(PLAIN, dtype="bf16"))[0].decode.found[-1]
        made.append((step.total("compute_s"), step.total("collectives_s")))
    return made[0], made[1]


def simulated(row: Row) -> tuple[float, float]:
    """Seconds of computing and of collectives, as the shipped specs have them."""
    if not row.length:
        return batch_s(row.model, row.where, row.batch), 0.0
    short, lengthy = token_s(row.model, row.batch)
    along = (row.length - SHORT) / (LENGTHY - SHORT)
    return NODES[row.where] * (short[0] + along * (lengthy[0] - short[0])), short[1]


def calibrated(every: Sequence[Row], plain: Floats, values: Values) -> Floats:
    """Seconds of each row with the named constants; ``plain``: its seconds of computing."""
    made = []
    for row, seconds in zip(every, plain, strict=True):
        if row.length:
            sums = 2 * DECODERS[row.model][1] * values["us per all-reduce"] / 1e6
            made.append(seconds * values["pace of decoders"] + sums)
        else:
            pace = values["pace of NeuronCore-v1" if "inferentia1" in row.where else "pace of NeuronCore-v2"]
            images = row.batch if row.kind.startswith("ResNet") else 0
            made.append(seconds * pace + (values["ms per call"] + images * values["ms per image"]) / 1e3)
    return np.array(made)


@check("neuron-tables")
def neuron_tables() -> Check:
    """Errors of held-out rows with the constants; those of all rows without them are remarks."""
    what, data = (
        "times of networks and tokens that AWS publishes for NeuronCores; rows without part in the fit",
        folder(),
    )
    if data is None:
        return Check("neuron-tables", what, 0, 0, np.zeros(0), [ABSENT])
    every = rows(data)
    parts, measured = np.array([simulated(row) for row in every]), np.array([row.measured_s for row in every])
    held = np.array([not row.fitted for row in every])
    known = [row for row in every if row.fitted]
    values = fit(lambda v: calibrated(known, parts[~held, 0], v), measured[~held], KNOBS)
    plain, found = parts.sum(1) / measured - 1, calibrated(every, parts[:, 0], values) / measured - 1
    told = [f"{name}: {value:g}" for name, value in values.items()]
    for kind in ["all", *sorted({row.kind for row in every})]:
        its = np.array([kind in ("all", row.kind) for row in every])
        figures = (plain[its], found[its & ~held], found[its & held])
        shown = ", ".join(f"{100 * np.median(abs(each)):.1f} % ({len(each)})" for each in figures if len(each))
        told.append(f"{kind}: median error uncalibrated, fitted rows, other rows (rows of each): {shown}")
    lines = zip(every, plain, found, strict=True)
    told += [
        f"{row.name}: {'fitted' if row.fitted else 'held out'}, {100 * a:+.1f} %, {100 * b:+.1f} %"
        for row, a, b in lines
    ]
    good = int(held.sum()) if np.median(abs(found[held])) <= CLAIMED else 0
    return Check("neuron-tables", what, int(held.sum()), good, found[held], told, "median error as claimed")

"""Check ``money``: what predictions and trainings cost on rented machines, predicted against published.

Prices are those of ``hwspecs/instances`` on both sides, so that only times differ. A line is a cost over another cost, or
of 1,000 predictions; its error is predicted over published.

* **T4 against V100**: a thousand images of ResNet-50 in FP16 on g4dn.xlarge and p3.2xlarge, by framework and batch, from 64
  on (DeepLearningExamples: MLPerf's inference has no V100).
* **AWS by MLPerf**: 1,000 samples offline on each instance, or on an eighth of one with eight GPUs.
* **Training**: ResNet-50 on dl1 against p4d and p3dn (the vendor's cost savings; MLPerf's minutes to 75.9 %), and on p4d
  against p3.16xlarge (DeepLearningExamples, TensorFlow), at prices of 2022. No chip has the 32 GB of p3dn's V100: it
  computes as one of 16 GB.
* **Inferentia2 and Trainium1**: 1,000 BERT predictions, on two NeuronCore-v2 with a batch each. Inferentia1 has no spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from accelsim.account.price import per_thousand_USD
from accelsim.cluster.step.asked import Asked, step
from accelsim.cluster.step.costs import Setting
from accelsim.spec.yaml.instances import load_providers, named
from tests.validation.base import Check, check
from tests.validation.gpu_models import SUBMITTED
from tests.validation.gpu_rows import PUBLISHED, rows_of, simulated, without_link_s
from tests.validation.measured import ABSENT, folder
from tests.validation.ranked_rows import mlperf_ranked
from tests.validation.shipped_whole import known_rows
from tests.validation.whole_rows import Row, frameworks

CLAIMS = Path(__file__).resolve().parents[2] / "tests" / "golden" / "money" / "published.csv"
"""What vendors state, each figure with its source."""
RENTED: Mapping[str, str] = {
    "t4": "g4dn.xlarge", "a10g": "g5.xlarge", "l4": "g6.xlarge", "l40s": "g6e.xlarge", "a100-40-sxm": "p4d.24xlarge",
    "a100-80-sxm": "p4de.24xlarge", "h100-sxm": "p5.48xlarge", "h200-sxm": "p5en.48xlarge", "v100-sxm2-16": "p3.2xlarge",
}  # fmt: skip
"""Chip -> instance of AWS."""
LARGE = 64
"""Batch from which ResNet-50 is compared: smaller ones wait for their host."""
CORES = 2
"""NeuronCores on Inferentia2 and on Trainium1."""
SAMPLES = 32
"""Samples of a step on each Gaudi, the default; a GPU has four times as many. With 128 a Gaudi is 22 % slower here, as
activations leave its SRAM; how its own compiler tiles them is not known."""


class Line(NamedTuple):
    """A cost, or a cost over another: what it is, published and predicted."""

    name: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        """Relative."""
        return self.predicted / self.published - 1


def hour_USD(instance: str, newest: bool = True) -> float:
    """Return the price of an hour on demand of an instance of AWS, the newest or the oldest that is known."""
    prices = [each for each in named(instance, load_providers())[1].prices if each.term == "on-demand"]
    return sorted(prices, key=lambda each: str(each.as_of))[-1 if newest else 0].hour_USD


def accelerator_USD(chip: str) -> float:
    """Return the price of an hour of one accelerator, a share of that of its instance."""
    instance = f"aws:{RENTED[chip]}"
    return hour_USD(instance) / named(instance, load_providers())[1].count


def t4_against_v100(data: Path) -> Iterator[Line]:
    """The cost of an image on a V100 over that on a T4."""
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for each in known_rows(frameworks, data):
        network, batch, _ = each.name.split(", ")
        if network == "resnet50" and int(batch.split()[1]) >= LARGE:
            found.setdefault((each.lab, batch), {}).setdefault(each.device, []).append(each)
    price = accelerator_USD("v100-sxm2-16") / accelerator_USD("t4")
    for (lab, batch), chips in found.items():
        if {"t4", "v100-sxm2-16"} <= chips.keys():
            one, other = (median(each.measured for each in chips[chip]) for chip in ("v100-sxm2-16", "t4"))
            predicted = chips["v100-sxm2-16"][0].predicted / chips["t4"][0].predicted
            yield Line(f"{lab}, {batch}: V100 over T4", one / other * price, predicted * price)


def by_mlperf(data: Path) -> Iterator[Line]:
    """USD for 1,000 samples on every instance."""
    for each in known_rows(mlperf_ranked, data):
        if each.lab == "MLPerf Offline" and each.device in RENTED:
            workload, batch = each.name.rpartition(", ")[0], SUBMITTED[each.name.rpartition(", ")[0]][2]
            price = accelerator_USD(each.device)
            costs = (per_thousand_USD(price, batch / seconds) for seconds in (each.measured, each.predicted))
            yield Line(f"{workload} on {RENTED[each.device]}", *costs)


def images_per_s(cluster: str, dtype: str, samples: int) -> float:
    """Return the images per second of a training of ResNet-50 on eight devices."""
    batch = 8 * samples
    return batch / step(Asked("resnet50", cluster, "dp=8", batch, setting=Setting(dtype))).time_s


def training(data: Path) -> Iterator[Line]:
    """The cost of an image in training on an instance over that on another."""
    gaudi = images_per_s("hls1-gaudi", "bf16", SAMPLES)
    a100, v100 = (images_per_s(cluster, "fp16", 4 * SAMPLES) for cluster in ("p4d-cluster?nodes=1", "dgx1-v100"))
    rates = {"aws:dl1.24xlarge": gaudi, "aws:p4d.24xlarge": a100, "aws:p3dn.24xlarge": v100, "aws:p3.16xlarge": v100}
    cost = {name: per_thousand_USD(hour_USD(name, newest=False), rate) for name, rate in rates.items()}
    for each in rows_of(CLAIMS):
        if each["unit"] == "cost ratio":
            ratio = cost[each["instance"]] / cost[each["against"]]
            yield Line(f"{each['instance']} over {each['against']}, {each['source']}", float(each["published"]), ratio)
    minutes = {chip: to_train_min(data, chip) for chip in ("habana-gaudi1", "nvidia-a100-40-sxm")}
    dl1, p4d, p3 = (f"aws:{name}" for name in ("dl1.24xlarge", "p4d.24xlarge", "p3.16xlarge"))
    price = hour_USD(dl1, newest=False) / hour_USD(p4d, newest=False)
    measured = minutes["habana-gaudi1"] / minutes["nvidia-a100-40-sxm"] * price
    yield Line(f"{dl1} over {p4d}, MLPerf Training, medians of v1.0 to v3.0", measured, cost[dl1] / cost[p4d])
    rate = {chip: tensorflow_per_s(data, chip) for chip in ("nvidia-a100-40-sxm", "nvidia-v100-sxm2-16")}
    price = hour_USD(p4d, newest=False) / hour_USD(p3, newest=False)
    measured = rate["nvidia-v100-sxm2-16"] / rate["nvidia-a100-40-sxm"] * price
    yield Line(f"{p4d} over {p3}, DeepLearningExamples, TensorFlow", measured, cost[p4d] / cost[p3])


def to_train_min(data: Path, chip: str) -> float:
    """Return the median of the minutes in which eight chips train ResNet-50 in MLPerf."""
    found = [line for line in rows_of(data / PUBLISHED) if line["chip_id"] == chip and line["n_chips"] == "8"]
    return median(float(line["value"]) for line in found if line["workload"] == "ResNet-50 v1.5 to 75.9%")


def tensorflow_per_s(data: Path, chip: str) -> float:
    """Return the images per second of a training in mixed precision on eight chips by TensorFlow."""
    wanted = {"chip_id": chip, "n_chips": "8", "phase": "training", "precision": "FP16 mixed", "software": "TensorFlow"}
    found = [line for line in rows_of(data / PUBLISHED) if all(line[key] == value for key, value in wanted.items())]
    return median(
        float(line["value"]) for line in found if line["workload"] == "ResNet-50 v1.5" and "hroughput" in line["metric"]
    )


def neuron(data: Path) -> Iterator[Line]:
    """The cost of 1,000 predictions on an instance of AWS with NeuronCores."""
    for each in rows_of(CLAIMS):
        if each["unit"] == "per s" and not each["instance"].startswith("aws:inf1"):
            batch, price = int(each["batch"]), hour_USD(each["instance"])
            run = simulated(each["workload"], "neuroncore-v2", "bf16", batch=batch)
            costs = (
                per_thousand_USD(price, rate)
                for rate in (float(each["published"]), CORES * batch / without_link_s(run))
            )
            yield Line(f"{each['workload']}, batch {batch} on {each['instance']}", *costs)


GROUPS: Mapping[str, tuple[Callable[[Path], Iterator[Line]], float]] = {
    "T4 against V100, ResNet-50": (t4_against_v100, 0.25),
    "AWS by MLPerf offline": (by_mlperf, 0.3),
    "training of ResNet-50, dl1, p4d and p3": (training, 0.3),
    "Inferentia2 and Trainium1, BERT": (neuron, 0.35),
}
"""Group -> its lines, and the median error that is claimed of it."""


@check("money")
def money() -> Check:
    """Median error of each group of costs."""
    what, data = "costs on rented machines against published ones", folder()
    if data is None:
        return Check("money", what, 0, 0, np.zeros(0), [ABSENT])
    found = {name: list(lines(data)) for name, (lines, _) in GROUPS.items()}
    kept = sum(_median(lines) <= GROUPS[name][1] for name, lines in found.items())
    errors = np.array([each.error for lines in found.values() for each in lines])
    return Check("money", what, len(GROUPS), kept, errors, list(_told(found)), "median error as claimed")


def _median(lines: Sequence[Line]) -> float:
    return float(np.median([abs(each.error) for each in lines]))


def _told(found: Mapping[str, Sequence[Line]]) -> Iterator[str]:
    yield "| group | cost | published | predicted | error |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for name, lines in found.items():
        for each in lines:
            yield f"| {name} | {each.name} | {each.published:.3g} | {each.predicted:.3g} | {each.error:+.0%} |"
    for name, lines in found.items():
        sizes, ratios = np.abs([each.error for each in lines]), " over " in lines[0].name
        same = sum((each.published < 1) == (each.predicted < 1) for each in lines)
        yield (
            f"{name}: {len(lines)} {'costs over others' if ratios else 'costs of 1,000, USD'}, median error "
            f"{np.median(sizes):.1%}, 90th percentile {np.quantile(sizes, 0.9):.1%} (claimed: median "
            f"{GROUPS[name][1]:.0%})" + (f"; {same} times the cheaper of two is named" if ratios else "")
        )

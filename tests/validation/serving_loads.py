"""Errors of ``accelsim serve --site vllm-server`` on services that others measured, and that no fit has seen.

* **Steady** services: see ``serving_loops``. Of each engine, model, format and GPU, on ``GPUS`` of them, the
  ``EACH`` rows with the least draw that the fit of the site has not seen; and all bursts.
* **Open** loops: vLLM 0.15 on H100 (BLIS, inference-sim). Requests come at constant rates, most of them at two, one
  after the other; their prompts are a few dozen texts that come again and again, so that all but the last tokens are in
  the prefix cache. Workloads whose rates nobody states ("lite") are left out. ``SPAN_S`` of each rate are simulated.

``python -m tests.validation.serving_loads`` prints the table of docs/serve.md.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby, pairwise
from typing import NamedTuple

import numpy as np

from accelsim.account.odds import Belief, odds_within
from accelsim.cluster.step.costs import Setting
from accelsim.serving.asked import Question, served
from accelsim.serving.measures import end_to_end_s, ttft_s
from accelsim.types import Array, Floats
from tests.validation.measured import folder
from tests.validation.serving_front import seen
from tests.validation.serving_loops import OSS, QWEN3_14B, ROOM, SITE, Row, loops, rows

EACH, GPUS = 4, 2
"""Rows of each group at most, and its number of GPUs."""
OPEN = "serving/blis_ground_truth_public.csv"
SPAN_S = 120
CACHED, TEXTS = 16, 45
"""Tokens of a block, of which a prompt's last is computed again; texts of which all prompts are."""
DENSE = {
    "Qwen/Qwen3-14B": QWEN3_14B, "meta-llama/Llama-3.1-8B-Instruct": "llama3.1-8b",
    "meta-llama/Llama-2-7b-hf": "llama2-7b", "meta-llama/Llama-3.1-70B-Instruct": "llama3.1-70b",
    "Qwen/Qwen2.5-7B-Instruct": "qwen2.5-7b", "meta-llama/Llama-2-70b-hf": "llama2-70b",
    "codellama/CodeLlama-34b-Instruct-hf": "llama?layers=48,hidden=8192,heads=64,kv_heads=8,ffn=22016,vocab=32000",
}  # fmt: skip
MODELS = DENSE | {
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b", "mistralai/Mixtral-8x22B-Instruct-v0.1": "mixtral-8x22b",
}  # fmt: skip
"""Model -> its name here; ``DENSE``: those without experts."""
WORKLOADS = {
    "general": (547, 248, (8, 20)), "codegen": (566, 247, (5, 10)), "roleplay": (750, 251, (6,)),
    "reasoning": (1034, 1448, (4,)),
}  # fmt: skip
"""Workload -> tokens of prompts and outputs, and its rates, 1/s."""
HIDDEN = "lite"
"""Part of the names of workloads whose rates nobody states."""


class Compared(NamedTuple):
    """A service: its group, measured figures and predicted ones with the ends of their intervals, by name; ``room``:
    share of the room for keys and values that it uses at most."""

    kind: str
    measured: Mapping[str, float]
    predicted: Mapping[str, tuple[float, float, float]]
    room: float = 0.0

    def error(self, name: str) -> float:
        """Relative."""
        return self.predicted[name][0] / self.measured[name] - 1

    def held(self, name: str) -> bool:
        """Whether the interval holds what was measured."""
        _, low, high = self.predicted[name]
        return low <= self.measured[name] <= high


def sampled(each: int = EACH) -> list[Row]:
    """Return the steady rows that are compared."""
    unseen = [row for row in rows() if row.tp == GPUS and not seen(row)]
    groups = groupby(sorted(unseen, key=lambda row: (row.kind, row.draw)), key=lambda row: row.kind)
    return [row for _, group in groups for row in [*group][:each]] + [row for row in rows() if row.tokens_per_s]


def steady(row: Row) -> Compared:
    """Compare a steady service."""
    found = loops(row)
    names = ("tokens_per_s",) if row.tokens_per_s else ("ttft_s", "tpot_s")
    predicted = {name: _ordered([getattr(loop, name) for loop in found]) for name in names}
    return Compared(row.kind, {name: getattr(row, name) for name in names}, predicted, found[0].room)


def _ordered(values: Sequence[float]) -> tuple[float, float, float]:
    """A figure with the ends of its interval."""
    return values[0], min(values), max(values)


class Load(NamedTuple):
    """An open loop: its number of GPUs and tokens of a step, and mean times, s."""

    name: str
    model: str
    workload: str
    tp: int
    budget: int
    ttft_s: float
    e2e_s: float


def loads() -> list[Load]:
    """Return the open loops whose rates are known; none where the file is not there."""
    where = folder()
    if where is None or not (path := where / OPEN).is_file():
        return []
    found: dict[str, dict[str, dict[str, str]]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["stage"] == "-1" and row["model"] in MODELS and HIDDEN not in row["experiment"] + row["workload"]:
                found.setdefault(row["experiment"], {})[row["metric"]] = row
    return [_load(name, metrics) for name, metrics in found.items()]


def _load(name: str, metrics: Mapping[str, Mapping[str, str]]) -> Load:
    row = metrics["e2e_mean"]
    workload = next(each for each in WORKLOADS if each in name)
    seconds = (float(metrics[each]["actual_ms"]) / 1e3 for each in ("ttft_mean", "e2e_mean"))
    return Load(
        name, row["model"], workload, int(float(row["tp"])), int(float(row["max_num_batched_tokens"])), *seconds
    )


def question(load: Load, rate: int, span_s: int) -> Question:
    """Return what ``accelsim serve`` is asked for one of the rates of an open loop, for so many seconds."""
    prompt, output, _ = WORKLOADS[load.workload]
    shared = (prompt - 1) // CACHED * CACHED
    return Question(
        MODELS[load.model], "h100-sxm" if load.tp == 1 else f"dgx-h100?devices={load.tp}", f"constant:{rate}/s",
        f"fixed:{prompt - shared},{output}", rate * span_s, plan=f"tp={load.tp}",
        scheduler=f"vllm:budget={load.budget},most=128", setting=Setting(dtype="bf16", site=SITE),
        prefix=f"share=1,tokens={shared},groups={TEXTS}",
    )  # fmt: skip


def opened(load: Load, span_s: int = SPAN_S) -> Compared:
    """Compare an open loop: means over the requests of all its rates, each for so many seconds."""
    found = [served(question(load, rate, span_s)) for rate in WORKLOADS[load.workload][2]]
    services = [[each.service for each in found], *zip(*(each.ends or () for each in found), strict=True)]
    measured = {"ttft_s": load.ttft_s, "e2e_s": load.e2e_s}
    figures = (("ttft_s", ttft_s), ("e2e_s", end_to_end_s))
    predicted = {
        name: _ordered([float(np.concatenate([figure(each) for each in group]).mean()) for group in services])
        for name, figure in figures
    }
    return Compared("open, " + ("dense" if load.model in DENSE else "experts"), measured, predicted)


def ranked(found: Sequence[Compared], name: str) -> Array:
    """Return of each pair of services of a model that differ by 20 % or more whether it is ranked as measured."""
    pairs = [(a, b) for a, b in combinations(found, 2) if a.kind.split(", ")[1] == b.kind.split(", ")[1]]
    apart = [(a, b) for a, b in pairs if abs(np.log(a.measured[name] / b.measured[name])) >= np.log(1.2)]
    return np.array([(a.measured[name] < b.measured[name]) == (a.predicted[name][0] < b.predicted[name][0])
                     for a, b in apart])  # fmt: skip


def errors(found: Sequence[Compared], name: str) -> Floats:
    """Return relative errors of a figure."""
    return np.array([each.error(name) for each in found])


LIMITS_S = {
    "ttft_s": 0.025 * np.sqrt(2) ** np.arange(19), "tpot_s": 0.005 * np.sqrt(2) ** np.arange(10),
    "e2e_s": np.sqrt(2) ** np.arange(13),
}  # fmt: skip
"""Limits that are asked for: 25 ms to 13 s, 5 to 113 ms, 1 to 64 s, each longer than the one before by the root of 2."""
ODDS = (0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 1.01)
"""Edges of the classes of probabilities."""


def meets(found: Sequence[Compared]) -> Floats:
    """Return a line for each service, figure and limit: the probability that the service keeps the limit, by the
    interval of the figure, and whether it does (1 or 0)."""
    each = [(one, name, limit) for one in found for name in one.measured for limit in LIMITS_S.get(name, ())]
    return np.array(
        [(odds_within(Belief(*one.predicted[name]), limit), one.measured[name] <= limit) for one, name, limit in each]
    )


def reliability(found: Sequence[Compared]) -> Iterator[tuple[int, float, float]]:
    """Yield of each class of probabilities how many there are, their mean, and the share of limits that are kept."""
    said, kept = meets(found).T
    for low, high in pairwise(ODDS):
        inside = (low <= said) & (said < high)
        if inside.any():
            yield int(inside.sum()), float(said[inside].mean()), float(kept[inside].mean())


def lines(found: Sequence[Compared], title: str) -> Iterator[str]:
    """Yield a line of a table for each figure: rows, median and 90th percentile of errors, their median with its sign,
    and the share that intervals hold."""
    for name in found[0].measured if found else ():
        off = errors(found, name)
        held = np.mean([each.held(name) for each in found])
        middle, most = np.median(abs(off)), np.quantile(abs(off), 0.9)
        yield f"| {title} | {name} | {len(off)} | {middle:.1%} | {most:.1%} | {np.median(off):+.1%} | {held:.0%} |"


def main() -> None:
    """Print a table of all groups, and of which pairs the order is right."""
    found = []
    for row in sampled():
        found.append(steady(row))
        print(row, found[-1].predicted, flush=True)
    for load in loads():
        if load.model in DENSE:
            found.append(opened(load))
            print(load, found[-1].predicted, flush=True)
    print(*table(found), sep="\n")


def table(found: Sequence[Compared]) -> Iterator[str]:
    """Yield the lines of all groups, and those of all services but the mixture of experts."""
    groups = {
        kind: [each for each in found if each.kind == kind] for kind in dict.fromkeys(each.kind for each in found)
    }
    found = [each for each in found if OSS.split("/")[1] not in each.kind]
    closed = [each for each in found if "tpot_s" in each.measured]
    groups["vllm"] = [each for each in closed if each.kind.startswith("vllm")]
    groups["vllm, with room"] = [each for each in groups["vllm"] if each.room < ROOM]
    groups["all at once"] = [each for each in found if "tokens_per_s" in each.measured]
    for name, group in groups.items():
        yield from lines(group, name)
    for count, said, kept in reliability(found):
        yield f"| {said:.1%} | {kept:.1%} | {count} |"
    for name in ("ttft_s", "tpot_s"):
        right = ranked(closed, name)
        yield f"{name}: of {len(right)} pairs {np.mean(right):.1%} are ranked as measured"


if __name__ == "__main__":
    main()

"""A training step on a cluster as tables, sentences and rows of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from accelsim.cluster.step.fusing import TunedStep
from accelsim.cluster.step.result import HOUR, NOT_CALIBRATED, PARTS, Lasting, Refused, StepResult
from accelsim.cluster.step.search import WhatIf
from accelsim.errors import count_of, memory_text
from accelsim.files import Make
from accelsim.report import fusing, intervals
from accelsim.report.answer import Answer, Part, block
from accelsim.report.table import text_table
from accelsim.report.text import ends_text, interval_text, long_time, percent, si
from accelsim.time import FS
from accelsim.version import tool_version

LEAST = 0.01
"""Share of a step from which on a part, or what a change saves, is worth a sentence."""
HELPS = 3
"""Changes that are named."""

DEVICE_HEADERS = ("stage", "devices", "chip", "computes", "sends", "waits", "memory", "of")


@dataclass(frozen=True)
class StepReport:
    """A training step, and what was asked for beside it: changes that were simulated, the search for how to fuse
    gradients, a whole training."""

    result: StepResult
    helps: Sequence[WhatIf] | None = None
    fused: TunedStep | None = None
    whole: Lasting | None = None

    def answer(self, written: Mapping[Path, Mapping[str, Make | None]]) -> Answer:
        """Show devices, the summary, the whole training, fused gradients, sentences. ``written``: files of --out."""
        shown: list[Part] = [partial(text_table, DEVICE_HEADERS, device_rows(self.result))]
        shown += ["", block("training step", summary_rows(self.result))]
        if self.whole is not None:
            shown += ["", block("whole training", lasting_rows(self.whole))]
        if self.fused is not None:
            shown += ["", partial(text_table, fusing.headers(self.fused), fusing.rows(self.fused))]
        shown += ["", " ".join(replace(self, helps=None).sentences())]
        if self.helps is not None:
            shown += ["", helping(self.helps)]
        return Answer(self.facts(), shown, list(records(self.result)), other_files=written)

    def facts(self) -> dict[str, object]:
        """Return all of it for JSON."""
        found = {"tool": "accelsim", "tool_version": tool_version(), **self.result.as_dict()}
        found["sentences"] = self.sentences()
        if self.helps is not None:
            found["what_ifs"] = [each._asdict() for each in self.helps]
        if self.fused is not None:
            found["tuning"] = fusing.facts(self.fused)
        return found if self.whole is None else {**found, "training": self.whole.as_dict()}

    def sentences(self) -> list[str]:
        """Return what binds, how full memories are, where constants come from, what would help most, how to fuse
        gradients, how long a whole training takes."""
        result = self.result
        found = [_binding(result), *intervals.sentences(result.interval, "the step"), _memory(result)]
        if result.refused is not None:
            found.append(_refused(result, result.refused))
        if result.tried:
            found.append(_sized(result))
        found += [
            f"{chip} is {origin}." if origin == NOT_CALIBRATED else f"{chip} is calibrated on {origin}."
            for chip, origin in result.calibrated.items()
        ]
        found += [] if self.helps is None else [helping(self.helps)]
        found += [] if self.fused is None else fusing.sentences(self.fused)
        if (whole := self.whole) is not None:
            found.append(
                f"Training on {si(whole.tokens)} tokens takes {_days(whole)} and {si(whole.joules / HOUR, 'Wh')}, "
                "counting only steps like this one: no evaluation, checkpoints or failures."
            )
        return found


def device_rows(result: StepResult) -> list[tuple[object, ...]]:
    """Return a row for each kind of device."""
    rows: list[tuple[object, ...]] = []
    for device in result.devices:
        spent = device.spent_fs
        computing = sum(spent.get(kind, 0) for kind in ("compute", "recompute", "optimiser"))
        shares = (computing, spent.get("communication", 0), spent.get("wait", 0))
        sizes = (memory_text(device.memory.peak_B), memory_text(device.capacity_B))
        parts = [percent(fs / result.time_fs) for fs in shares]
        rows.append((device.stage, len(device.ranks), device.chip, *parts, *sizes))
    return rows


def summary_rows(result: StepResult) -> list[tuple[str, str]]:
    """Return names and values of a step."""
    plan = result.plan
    tokens = si(result.tokens_per_s) + ends_text(result.tokens_ends_per_s, "")
    return [
        ("model", f"{result.model}, {result.dtype}, {result.batch:,} {result.unit}"),
        ("cluster", f"{result.cluster}, {count_of(plan.devices, 'device')}"),
        ("plan", str(plan)),
        ("each replica", f"{_microbatches(plan.microbatches)} of {result.microbatch}, {plan.schedule}"),
        ("time of a step", si(result.time_s, "s") + interval_text(result.interval)),
        *((f"  {name}", _part(result, name, fs)) for name, fs in result.parts_fs.items() if fs),
        (f"{result.unit} per second", si(result.samples_per_s) + ends_text(result.samples_ends_per_s, "")),
        *([("tokens per second", tokens)] if result.sample_tokens else []),
        ("MFU (without recomputation)", percent(result.mfu)),
        ("HFU (with recomputation)", percent(result.hfu)),
        *energy_rows(result),
    ]


def _part(result: StepResult, name: str, fs: int) -> str:
    """'1.2 s (90 %: 1.1 s to 1.4 s), 12.3%: gradient collectives not hidden by computation'."""
    ends = ends_text(result.parts_ends_s.get(name))
    return f"{si(fs * FS, 's')}{ends}, {percent(fs / result.time_fs)}: {PARTS[name]}"


def energy_rows(result: StepResult) -> list[tuple[str, str]]:
    """Return rows of the energy of devices and links, and of servers where the cluster states their power."""
    rows = [
        ("energy of a step", si(result.total_J, "J") + ends_text(result.ends_J, "J")),
        ("energy of a sample", si(result.sample_J, "J")),
    ]
    if result.wall_J is None:
        return rows
    watts = si(result.wall_J / result.time_s, "W")
    return [*rows, ("at the wall, of a step", f"{si(result.wall_J, 'J')}{ends_text(result.wall_ends_J, 'J')}, {watts}")]


def lasting_rows(whole: Lasting) -> list[tuple[str, str]]:
    """Return names and values of a whole training."""
    return [
        ("tokens", f"{si(whole.tokens)}, in {count_of(whole.steps, 'step')}"),
        ("time", _days(whole)),
        ("energy", si(whole.joules / HOUR, "Wh")),
        *([] if whole.wall_J is None else [("at the wall", si(whole.wall_J / HOUR, "Wh"))]),
    ]


def _days(whole: Lasting) -> str:
    """'20.7 days (90 %: 17 days to 25.7 days)'."""
    if whole.low_s is None or whole.high_s is None:
        return long_time(whole.seconds)
    return f"{long_time(whole.seconds)} (90 %: {long_time(whole.low_s)} to {long_time(whole.high_s)})"


def _microbatches(count: int) -> str:
    return f"{count:,} microbatch" + ("es" if count != 1 else "")


def binding(result: StepResult) -> str:
    """Return the part of a step that takes most beside computing, '' where none takes ``LEAST``."""
    others = {name: fs for name, fs in result.parts_fs.items() if name != "compute"}
    name = max(others, key=lambda each: others[each])
    return name if others[name] >= LEAST * result.time_fs else ""


def _binding(result: StepResult) -> str:
    share, name = percent(result.parts_fs["compute"] / result.time_fs), binding(result)
    start = f"Forward and backward passes take {share} of the step"
    if not name:
        return f"{start}; no other part takes {percent(LEAST)} of it."
    part = percent(result.parts_fs[name] / result.time_fs)
    return f"{start}. The largest other part is {name}, {part}: {PARTS[name]}."


def _memory(result: StepResult) -> str:
    device = result.fullest
    parts = device.memory.parts_B()
    most = max(parts, key=lambda kind: parts[kind])
    article = "the " * (most == "optimiser")
    away = f" {memory_text(device.host_B)} more waits in the memory of its host." if device.host_B else ""
    return (
        f"Stage {device.stage} uses the most memory: {memory_text(device.memory.peak_B)} of "
        f"{memory_text(device.capacity_B)}, {memory_text(parts[most])} of it for {article}{most}.{away}"
    )


def _sized(result: StepResult) -> str:
    """Origin of the size of microbatches."""
    said = "The plan does not say how many microbatches there are"
    *smaller, largest = (f"{size:,}" for size in result.tried)
    if not smaller:
        unit = result.unit.removesuffix("s")
        return f"{said}: {count_of(result.microbatch, unit)} each is the only size that fits."
    sizes = f"{', '.join(smaller)} and {largest} {result.unit}"
    return f"{said}: {sizes} each fit, and {result.microbatch:,} is the fastest."


def _refused(result: StepResult, refused: Refused) -> str:
    needed, room = memory_text(refused.needed_B), memory_text(refused.capacity_B)
    return (
        f"The plan does not say what the backward pass recomputes. Keeping all activations would need {needed} of "
        f"{room} on device {refused.rank}, so recompute={result.plan.recompute} was chosen."
    )


def helping(helps: Sequence[WhatIf]) -> str:
    """Return the sentence about the best of the changes that were simulated."""
    named = [each for each in helps if each.saved >= LEAST][:HELPS]
    if not named:
        return f"None of the {count_of(len(helps), 'simulated change')} saves {percent(LEAST)}."
    told = ", ".join(f"{each.change} (-{percent(each.saved)})" for each in named)
    return f"What would help most, of {count_of(len(helps), 'change')} simulated one at a time: {told}."


def records(result: StepResult) -> Iterator[dict[str, object]]:
    """Yield a row for each kind of device, for CSV."""
    for device in result.devices:
        yield {
            "stage": device.stage,
            "devices": len(device.ranks),
            "chip": device.chip,
            **{f"{kind}_s": fs * FS for kind, fs in device.spent_fs.items()},
            **{f"{kind}_B": nbytes for kind, nbytes in device.memory.parts_B().items()},
            "peak_B": device.memory.peak_B,
            "capacity_B": device.capacity_B,
            "step_s": result.time_s,
        }

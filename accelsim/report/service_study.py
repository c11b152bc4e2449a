"""Study of a service of items: a table of its limits, sentences, and a picture by cores of the host."""

from __future__ import annotations

from functools import partial

from accelsim.report.answer import Answer, Field, Part, Table, in_unit
from accelsim.report.picture import Axis, Panel, Picture, line, rule
from accelsim.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION
from accelsim.report.text import Facts, percent, si
from accelsim.serving.items.limits import Limited, Limits, by_cores

NAMES = {"CPU": "The CPU", "PCIe": "The PCIe link", "chip": "The chip"}
FIELDS = (
    Field("service", "service"),
    Field("cpu_per_s", "CPU/s", in_unit(), meaning="requests a second that the cores could prepare and finish"),
    Field("pcie_per_s", "PCIe/s", in_unit(), meaning="that the link could move"),
    Field("chip_per_s", "chip/s", in_unit(), meaning="that the chip could compute"),
    Field("limit", "limit"),
    Field("per_s", "answers/s", in_unit(), meaning="simulated with always enough requests"),
    Field("cores", "cores", in_unit(), meaning="from which on the CPU no longer limits"),
    Field("alone_s", "alone", in_unit("s"), meaning="time of a request that comes alone and needs the chip"),
)
CORES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Cores of the picture."""
COLOURS = (BLUE, ORANGE, PURPLE, GREEN, VERMILLION)


def answer(found: Limits) -> Answer:
    """Report what limits a service, and what batches, a filter and more cores bring."""
    rows, told = [_row(found, each) for each in found.found], sentences(found)
    question = found.question
    facts = {
        "model": question.model, "on": question.on, "before": question.before, "after": question.after,
        "cores": question.cores, "host_s": found.host_s, "cpu": found.cpu, "cpu_core_s": found.cpu_s,
        "cpu_alone_per_s": found.alone_per_s, "services": rows, "sentences": told,
    }  # fmt: skip
    shown: list[Part] = [Table(FIELDS, rows, legend="Limits")]
    shown += [part for text in told for part in ("", text)]
    return Answer(facts, shown, rows, {"limits": partial(picture, found)})


def _row(found: Limits, each: Limited) -> Facts:
    return {
        "service": each.variant.text, "most": each.variant.most, "keep": each.variant.keep,
        "cpu_per_s": each.bounds.cpu, "pcie_per_s": each.bounds.pcie,
        "chip_per_s": min(each.bounds.chip, each.bounds.instances), "limit": each.bounds.limit, "per_s": each.per_s,
        "cores": found.cores_for(each), "alone_s": each.alone_s,
    }  # fmt: skip


def sentences(found: Limits) -> list[str]:
    """Say what limits the service, what changes bring, and when the CPU alone is enough."""
    plain, batched, filtered, both = found.found
    cores, most = found.question.cores, max(each.per_s for each in found.found)
    told = [
        f"{NAMES[plain.bounds.limit]} limits the service one by one: {si(plain.per_s)} answers a second with {cores} "
        f"cores of the host.",
        _brings(f"Batches of {batched.variant.most}", plain, batched),
        _brings(f"A filter that keeps {filtered.variant.keep:.0%} before the transfer", plain, filtered),
        _brings("Both", plain, both),
        f"In batches the CPU limits up to {si(found.cores_for(batched))} cores: each request takes "
        f"{si(found.host_s, 's')} of a core, and {si(1 / batched.bounds.chip, 's')} of the chip.",
    ]
    alone = found.alone_per_s
    told.append(
        f"The CPU alone is enough up to {si(alone)} requests a second, {percent(alone / most)} of the most above: a "
        f"core takes {si(found.cpu_s, 's')} for each; with the chip one takes {si(plain.alone_s, 's')}."
    )
    return told


def _brings(what: str, before: Limited, after: Limited) -> str:
    gain = after.per_s / before.per_s
    if gain < 1.01:
        return f"{what}: nothing, {si(after.per_s)} a second; {NAMES[after.bounds.limit].lower()} still limits."
    limit = NAMES[after.bounds.limit].replace("The", "the")
    return f"{what}: {si(gain)} times as many, {si(after.per_s)} a second; then {limit} limits."


def picture(found: Limits) -> Picture:
    """Draw answers a second by cores of the host: variants, and the CPU alone."""
    marks = [
        line(CORES, rates, name, colour, marker="o", markersize=3)
        for (name, rates), colour in zip(by_cores(found, CORES), COLOURS, strict=True)
    ]
    marks.append(rule(x=found.question.cores, label=f"{found.question.cores} cores", color=GREY, linestyle=":"))
    question = found.question
    title = f"{question.model} on {question.on} behind {question.before}: answers a second"
    x = Axis("cores of the host", scale="log2", names={each: str(each) for each in CORES})
    y = Axis("answers per s", scale="log", text=in_unit())
    return Picture(
        4.2, [Panel(title, marks, x, y, "a line bends where the chip or the link takes over", "both")], legend=3
    )

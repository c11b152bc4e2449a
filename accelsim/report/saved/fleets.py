"""A study of CPUs against GPUs: cost of a day over requests a day, as steps, and where the GPU takes over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from accelsim.account.price import DAY_S
from accelsim.explore.saved import money
from accelsim.explore.saved.money import Fleet
from accelsim.explore.saved.results import Result
from accelsim.report.answer import Answer, Field, Table, in_unit
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, rule
from accelsim.report.prices import usd
from accelsim.report.saved.common import COLOURS, answer, row
from accelsim.report.text import Facts, si
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.instances import Offer

FIELDS = (
    Field("model", "model"),
    Field("instance", "instance"),
    Field("chip", "chip"),
    Field("day_usd", "USD/day", usd, meaning="used or not"),
    Field("per_s", "requests/s", in_unit(), meaning="at most, in the best batch"),
    Field("alone_s", "one alone", in_unit("s"), meaning="latency of a request that comes alone"),
    Field("per_day", "requests/day", in_unit()),
)


def cpu_or_gpu(found: Sequence[Result], offers: Sequence[Offer]) -> Answer:
    """Report the cheapest CPU and GPU instances by requests a day for each model."""
    models = {name: [each for each in found if each.model == name] for name in dict.fromkeys(r.model for r in found)}
    kinds = {name: _fleets(own, offers) for name, own in models.items()}
    told = [text for name, own in models.items() for text in fleet_sentences(name, own, *kinds[name])]
    shown = [
        _fleet_row(name, models[name], each) for name, both in kinds.items() for some in both for each in _few(some)
    ]
    rented = {each.result.on for both in kinds.values() for some in both for each in some}
    lacking = [on for on in dict.fromkeys(each.on for each in found) if on not in rented]
    bare = [on for on in lacking if not money.on_demand(offers, on)]
    if old := [on for on in lacking if on not in bare]:
        told.append(f"Only old prices: {', '.join(old)}.")
    return answer([row(each) for each in found], Table(FIELDS, shown), told, partial(_picture, kinds), bare)


def _fleets(found: Sequence[Result], offers: Sequence[Offer]) -> tuple[list[Fleet], list[Fleet]]:
    """The fleets of a model, on CPUs and on others."""
    every = money.fleets(found, offers)
    return [each for each in every if _is_cpu(each.result)], [each for each in every if not _is_cpu(each.result)]


def _is_cpu(result: Result) -> bool:
    return load_chip(result.on).kind == "cpu"


def _few(some: Sequence[Fleet]) -> list[Fleet]:
    """The cheapest instance of each chip."""
    found: dict[str, Fleet] = {}
    for each in some:
        name = each.result.on
        if name not in found or each.offer.price.hour_USD < found[name].offer.price.hour_USD:
            found[name] = each
    return list(found.values())


def _alone_s(fleet: Fleet, found: Sequence[Result]) -> float:
    """Latency of a request that comes alone, s. A share of a processor takes as long for one request as the whole takes
    for as many as it has shares."""
    share = fleet.offer.instance.share
    own = [each for each in found if each.on == fleet.result.on and each.batch * share <= 1]
    return min(each.seconds / (each.batch * share) for each in own)


def _fleet_row(model: str, found: Sequence[Result], fleet: Fleet) -> Facts:
    return {
        "model": model,
        "instance": fleet.offer.full_name,
        "chip": fleet.result.on,
        "day_usd": fleet.offer.price.hour_USD * money.DAY_H,
        "per_s": fleet.per_day / DAY_S,
        "alone_s": _alone_s(fleet, found),
        "per_day": fleet.per_day,
    }


def fleet_sentences(model: str, found: Sequence[Result], cpus: Sequence[Fleet], gpus: Sequence[Fleet]) -> list[str]:
    """Say what the smallest fleets cost, up to which load CPUs are cheaper, and what transfers cost."""
    if not cpus or not gpus:
        return [f"{model}: no {'CPU' if not cpus else 'GPU'} that has run has a price of today."]
    small = [money.cheapest_fleet(some, 0) for some in (cpus, gpus)]
    names = [f"{each.offer.full_name} ({usd(each.day_USD(0))} USD a day)" for each in small]
    told = [f"{model}: the smallest CPU instance is {names[0]}, the smallest GPU instance {names[1]}."]
    edge = money.break_even(cpus, gpus)
    if not edge:
        told.append(f"{'CPUs' if edge is None else 'GPUs'} are cheaper at every load.")
    else:
        beyond = money.cheapest_fleet(gpus, edge * 1.0001)
        faster = money.break_even([each._replace(per_day=2 * each.per_day) for each in cpus], gpus)
        told.append(
            f"Up to {si(edge)} requests a day ({edge / DAY_S:.3g} a second, evenly) CPUs are cheaper; beyond, "
            f"{beyond.offer.full_name} is. Were CPUs twice as fast as the spec says: up to {si(faster)}."
        )
    alone = [_alone_s(each, found) for each in small]
    first = min((each for each in found if each.on == small[1].result.on), key=lambda each: each.batch)
    told.append(
        f"A request that comes alone takes {si(alone[0], 's')} on the one, {si(alone[1], 's')} on the other. Transfers "
        f"from and to the host are {first.link_s / first.seconds:.1%} of the time of one on {first.on}."
    )
    return told


def _picture(kinds: dict[str, tuple[list[Fleet], list[Fleet]]]) -> Picture | None:
    """Cost of a day over requests a day, a panel for each model; a step for each further instance."""
    panels = []
    for model, (cpus, gpus) in kinds.items():
        if not cpus and not gpus:
            continue
        edge = money.break_even(cpus, gpus) if cpus and gpus else None
        middle = edge or 1e6
        loads = [float(each) for each in np.geomspace(middle / 100, middle * 100, 1500)]
        marks: list[Mark] = []
        for each, colour in zip([*_few(cpus), *_few(gpus)], COLOURS, strict=False):
            costs = [each.day_USD(load) for load in loads]
            marks.append(line(loads, costs, f"{each.result.on} ({each.offer.full_name})", colour))
        if edge:
            marks.append(rule(x=edge, label="", linestyle=":"))
        title = f"{model}: cost of a day" + (f", CPUs cheaper up to {si(edge)} requests" if edge else "")
        x = Axis("requests a day", scale="log", text=in_unit())
        panels.append(Panel(title, marks, x, Axis("USD a day", scale="log"), grid="both"))
    return Picture(3.2 * len(panels) + 0.8, panels, legend=3) if panels else None

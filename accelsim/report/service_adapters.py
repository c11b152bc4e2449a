"""Adapters of a service in its report: how often they were there, and what their products and loads add."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.errors import count_of
from accelsim.report.text import Facts, percent, si
from accelsim.serving.asked import Served
from accelsim.serving.history import replicas


def facts(found: Served) -> Facts:
    """Return the facts of adapters for JSON, nothing for a service without any. Bytes are those of all devices."""
    if not found.question.adapters:
        return {}
    loads = admitted = 0
    load_s = load_J = loaded_B = products_s = products_J = read_B = 0.0
    for group, steps in replicas(found.groups, found.service):
        assert group.times.carried is not None
        seconds, joules = group.times.carried.load
        whole_B = group.times.plan.tp * group.adapter_B
        loads, admitted = loads + steps.loads, admitted + steps.admitted
        load_s, load_J = load_s + steps.loads * seconds, load_J + steps.loads * joules
        loaded_B += steps.loads * whole_B
        for place, count in steps.adapted.items():
            more_s, more_J = group.times.adapted.at(place)
            products_s, products_J = products_s + count * more_s, products_J + count * more_J
            read_B += count * place[1] * whole_B
    return {
        "adapters": found.question.adapters, "adapter_B": found.last.times.plan.tp * found.last.adapter_B,
        "adapter_loads": loads, "adapter_hit_rate": 1 - loads / admitted if admitted else None,
        "adapter_loaded_B": loaded_B, "adapter_load_s": load_s, "adapter_load_J": load_J,
        "adapter_products_s": products_s, "adapter_products_J": products_J, "adapter_read_B": read_B,
    }  # fmt: skip


def sentences(found: Served, figures: Facts) -> Iterator[str]:
    """Yield what adapters do to a service. ``figures``: with its ``facts``."""
    if figures.get("adapter_hit_rate") is None:
        return
    steps_s = figures["busy"] * figures["span_s"] * len(found.service.steps)
    yield (
        f"{percent(figures['adapter_hit_rate'])} of the requests found their adapter in a slot when they began; the "
        f"products of adapters take {percent(figures['adapter_products_s'] / steps_s)} of the time of all steps, and "
        f"{count_of(figures['adapter_loads'], 'load')} of adapters {percent(figures['adapter_load_s'] / steps_s)}."
    )


def rows(figures: Facts) -> Iterator[tuple[str, object]]:
    """Yield rows of the summary."""
    if "adapters" not in figures:
        return
    each, read, loaded = (si(figures[f"adapter_{name}B"], "B") for name in ("", "read_", "loaded_"))
    products, loads = (si(figures[f"adapter_{name}_J"], "J") for name in ("products", "load"))
    yield "adapters", f"{figures['adapters']}, {each} each"
    yield "their cost", f"products: {products}, {read} of weights read; loads: {loads}, {loaded} from the host"


NOTE = "No measurement of adapters is among the data: their kernels are timed as grouped products, like experts."
"""Caution that stands beside these figures."""

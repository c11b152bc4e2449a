"""Changes of a chip that make a run shorter: one row per change, from the fields of its spec.

A change is what ``--set`` (or another option of a run) takes, so that anybody can repeat it. Which ones are worth a
simulation follows from the critical path: a change can help as far as what it improves is on the path. A change after
which the compiler would map layers in another way (sizes, buffers, dataflow) may help more or less than that, so these
count with the share that they have a say in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from accelsim.account.critical_path import OPERANDS, by_blame, by_key, by_step
from accelsim.engines.base import REMAPPED
from accelsim.engines.registry import ENGINES
from accelsim.machine.memory_models import MODELS
from accelsim.machine.run import Run
from accelsim.program.roles import Unit
from accelsim.spec.chip import Chip
from accelsim.spec.link import GENERATIONS, LANES, link_name
from accelsim.spec.memory import Attachment
from accelsim.units import spell


@dataclass(frozen=True)
class Lever:
    """One change: in words, as overrides of the spec, as other options of a run; ``share`` of the time it can save."""

    change: str
    sets: tuple[str, ...]
    share: float
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """A run whose chip is to change, with the shares of its time."""

    run: Run

    @cached_property
    def _keys(self) -> dict[str, float]:
        return {key: fs / max(1, self.run.time_fs) for key, fs in by_key(by_blame(self.run)).items()}

    def share(self, *keys: str) -> float:
        """Share of the run that goes to these keys of ``critical_path.KEYS``."""
        return sum(self._keys.get(key, 0.0) for key in keys)

    @cached_property
    def conversions(self) -> float:
        """Share of the run that goes to turning inputs into codes, and codes into results, on the host."""
        times = by_step(self.run)
        steps = (index for index, step in enumerate(self.run.program.steps) if step.edge)
        return sum(sum(times[step].values()) for step in steps) / max(1, self.run.time_fs)

    def on(self, resource: str, *kinds: str) -> float:
        """Share of the run that goes to these kinds on one resource."""
        return sum(
            fs / max(1, self.run.time_fs)
            for blame, fs in by_blame(self.run).items()
            if blame.resource == resource and blame.kind in kinds
        )


def levers(run: Run, least: float = 0.01) -> list[Lever]:
    """Every change whose share of the run is ``least`` or more, the largest share first."""
    scene = Scene(run)
    found = [lever for make in LEVERS for lever in make(scene) if lever.share >= least]
    return sorted(found, key=lambda lever: -lever.share)


def _memories(scene: Scene) -> Iterator[Lever]:
    for name, attached in scene.run.chip.memories.items():
        memory, path = attached.memory, f"memories.{name}.memory"
        if attached.fed_by is not None:
            size = f"{path}.capacity={2 * memory.capacity} B"
            yield Lever(f"twice the capacity of {name}", (size,), scene.on(attached.fed_by, "transfer"))
        moving = scene.on(name, "transfer") / 2
        twice = f"{path}.bandwidth={spell(2 * memory.bandwidth, 'B/s')}"
        if MODELS[scene.run.memory_model].dram is not None and memory.dram is not None:
            channels = f"{path}.dram.organisation.channels={2 * memory.dram.organisation.channels}"
            yield Lever(f"twice the channels of {name}", (channels, twice), moving)
            continue
        yield Lever(f"twice the bandwidth of {name}", (twice,), moving)
        if memory.efficiency < 1:
            full = f"all of the peak of {name} (efficiency 1)"
            yield Lever(full, (f"{path}.efficiency=1",), 2 * moving * (1 - memory.efficiency))
        late = scene.on(name, "latency")
        half = f"{path}.latency={spell(memory.latency / 2, 's')}"
        yield Lever(f"half the latency of {name}", (half,), late / 2)
        if not memory.pipelined:
            yield Lever(f"requests to {name} that overlap", (f"{path}.pipelined=true",), late)


def _links(scene: Scene) -> Iterator[Lever]:
    for name, attached in scene.run.chip.memories.items():
        if attached.link is None:
            continue
        link, path, title = attached.link, f"memories.{name}.link", link_name(attached.link)
        moving = scene.on(title, "transfer") / 2
        yield from _rates(attached, path, title, moving)
        half = f"{path}.latency={spell(link.latency / 2, 's')}"
        yield Lever(f"half the latency of {title}", (half,), scene.on(title, "latency") / 2)
        if not link.full_duplex:
            yield Lever(f"both directions of {title} at once", (f"{path}.duplex=full",), moving)


def _rates(attached: Attachment, path: str, title: str, share: float) -> Iterator[Lever]:
    link = attached.link
    assert link is not None
    if link.pcie is not None:
        if 2 * link.pcie.lanes in LANES:
            lanes = 2 * link.pcie.lanes
            yield Lever(f"{lanes} lanes of {title}", (f"{path}.pcie.lanes={lanes}",), share)
        if link.pcie.generation + 1 in GENERATIONS:
            newer = link.pcie.generation + 1
            change = f"PCIe generation {newer} for {title}"
            yield Lever(change, (f"{path}.pcie.generation={newer}",), share)
    elif link.protocol is None:
        twice = f"{path}.bandwidth={spell(2 * link.bandwidth, 'B/s')}"
        yield Lever(f"twice the bandwidth of {title}", (twice,), share)


def _buffers(scene: Scene) -> Iterator[Lever]:
    says = {
        "activations": scene.share("activations", "results", "latency"),
        "weights": scene.share("weights", "latency", "weight_shift"),
        "partial_sums": scene.share(*OPERANDS, "fill_drain", "weight_shift"),
    }
    for view, name, buffer in _every(scene, "buffers"):
        path = view.called(name)
        share = REMAPPED * min(1.0, sum(says[role] for role in buffer.holds))
        capacity = f"{path}.capacity={spell(2 * buffer.capacity, 'B')}"
        yield Lever(f"twice the capacity of {path}", (capacity,), share)
        if buffer.slots is not None:
            slots = f"{path}.slots={2 * buffer.slots}"
            yield Lever(f"twice the slots of {path}", (slots, capacity), share)
        if buffer.ports < 2:
            waits = scene.on(name, "buffer_port")
            yield Lever(f"a second port of {path}", (f"{path}.ports=2",), waits)
        if buffer.holds == ["weights"]:  # the vector unit, which its width may hold up, does not read it
            continue
        widths = tuple(
            f"{path}.{way}_width={spell(2 * getattr(buffer, f'{way}_width'), 'B')}" for way in ("read", "write")
        )
        yield Lever(
            f"twice the width of {path}", widths, REMAPPED * scene.share("vector") + scene.on(name, "port_width")
        )


def _engines(scene: Scene) -> Iterator[Lever]:
    for view, name, spec in _every(scene, "engines"):
        unit = Unit(view.called(name), spec.type, spec)
        for change, sets, keys, weight, unless in ENGINES[unit.type].improvements(view, unit):
            if _given(scene.run, unless):
                continue
            share = weight * scene.on(name, *keys)
            if all(text.partition("=")[2][0].isdigit() for text in sets):
                yield Lever(change + _of_core(view), sets, share)
            elif view.core_kind == next(iter(view.cores)):  # kinds differ in numbers alone
                yield Lever(change, _of_all(view, sets), share)


def _every(scene: Scene, table: str) -> Iterator[tuple[Chip, str, Any]]:
    """(the chip as its core sees it, name, spec) of what the cores of all kinds have in a table."""
    for view in scene.run.chip.views():
        yield from ((view, name, spec) for name, spec in getattr(view, table).items())


def _of_all(view: Chip, sets: tuple[str, ...]) -> tuple[str, ...]:
    """The changes of one kind of core, made of all kinds."""
    if len(view.cores) == 1:
        return sets
    return tuple(kind + text.removeprefix(view.core_kind) for kind in view.cores for text in sets)


def _of_core(view: Chip) -> str:
    """Whose engine a change speaks of, where there are several kinds of cores."""
    return f", of the {view.core_kind} cores" if len(view.cores) > 1 else ""


def _given(run: Run, option: str) -> bool:
    """Return whether the user asked for it beside the spec, which an override would not change; '' is never asked
    for."""
    return bool(option and getattr(getattr(run.job, "request", None), option, ""))


def _clocks(scene: Scene) -> Iterator[Lever]:
    chip = scene.run.chip
    shared = ["requests", "hand_over"]
    for view, name, spec in _every(scene, "engines"):
        unit, kind = Unit(name, spec.type, spec), ENGINES[spec.type]
        clock = f"{view.called(name)}.clock={spell(2 * (unit.spec.clock or chip.clock), 'Hz')}"
        keys = [reason.key for reason in kind.reasons]
        yield Lever(f"twice the clock of {kind.called(unit)}{_of_core(view)}", (clock,), scene.on(unit.name, *keys) / 2)
        shared += keys if unit.spec.clock is None else ()
    everything = f"clock={spell(2 * chip.clock, 'Hz')}"
    yield Lever("twice the clock of the chip", (everything,), scene.share(*dict.fromkeys(shared)) / 2)
    if chip.token_delay:
        yield Lever("tokens without delay", ("token_delay=0",), scene.share("hand_over"))


def _host(scene: Scene) -> Iterator[Lever]:
    host, works = scene.run.chip.host, scene.share("host")
    if host is None:
        return
    faster = (
        f"host.overhead={spell(host.overhead / 2, 's')}",
        *(f"host.peak.{name}={spell(2 * rate, 'op/s')}" for name, rate in host.peak.items()),
        f"host.memory.bandwidth={spell(2 * host.memory.bandwidth, 'B/s')}",
    )
    yield Lever("a host twice as fast", faster, works / 2)
    outside = {"edges": "outside"}
    yield Lever("inputs and outputs converted outside the run", (), scene.conversions, outside)


LEVERS: tuple[Callable[[Scene], Iterator[Lever]], ...] = (_memories, _links, _buffers, _engines, _clocks, _host)
"""Sources of changes; a new one is a line in one of these, or a function and a name here."""

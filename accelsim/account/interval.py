"""Intervals of latency, energy and power of a run, where an engine of the chip runs kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from accelsim.account import critical_path
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import Run
from accelsim.program.roles import HOST, unit_of, units
from accelsim.spec.chip import Chip
from accelsim.time import FS

if TYPE_CHECKING:
    from accelsim.engines.kernel_times import KernelModel
    from accelsim.kernels.whole import Interval, KernelSeconds


OTHER = "function"
"""The kind of kernel whose interval stands in for copies over links and work of the host, which move bytes too."""


NETWORK, JOULES, WATTS, WALL = "network", "joules", "watts", "joules: wall"
GENERATION, TOKEN = "generation", "token"
"""Keys of wholes (``accelsim.spec.intervals``): a pass through a network on one device, its energy, its average power,
the energy of servers at the wall; a prompt with or without tokens after it, a token."""
HOST_BOUND = 0.5
"""Share of a pass that waits for its host from which on its interval is that of such passes."""


class Energies(NamedTuple):
    """Interval that holds the energy of nine of ten runs, J; ``basis``: key of the measurements that it rests on."""

    low_J: float
    high_J: float
    basis: str = JOULES


def key_of(run: Run) -> str:
    """Return the key of a pass through a network: by whether its host asks for kernels one by one, and in that case by
    whether the host is that of the lab that measured the chip, and whether the pass mostly waits for it."""
    if not any(getattr(unit.spec, "dispatch", 0.0) for unit in units(run.chip).values()):
        return NETWORK
    if not in_any_lab(run.chip) and run.chip.calibration is not None:
        return f"{NETWORK}: eager, this lab"
    waits = sum(fs for blame, fs in critical_path.by_blame(run).items() if blame.key == HOST)
    return f"{NETWORK}: eager, {'host' if waits > HOST_BOUND * run.time_fs else 'GPU'}"


def latency_interval(run: Run, key: str = "") -> Interval | None:
    """Return the 90 % interval of a run's time, by measurements of whole runs of kind ``key`` ('': a
    network); None for a chip without kernels. Single products, and lists of them, have that of
    their kernels."""
    found = parts(run)
    if found is None:
        return None
    from accelsim.kernels.whole import together, widened

    alone = together(found)
    return alone if run.program.graph.products else widened(alone, run.seconds, key or key_of(run))


class Generated(NamedTuple):
    """Intervals of a generation on one device: of its prompts, of the mean time of a decode step (None: the prompts
    give all), and of all of it; None for a chip without kernels."""

    first: Interval | None
    token: Interval | None
    total: Interval | None


def generated(prefill: Run, last: Run | None, decode_s: float, steps: int) -> Generated:
    """Return the intervals of a generation of prompts and, after them, ``decode_s`` of so many ``steps`` of decoding,
    whose kernels are those of the ``last`` one."""
    from accelsim.kernels.whole import added, together, widened

    first = latency_interval(prefill, GENERATION)
    if last is None or first is None:
        return Generated(first, None, first and widened(first, prefill.seconds, GENERATION))
    prompts, decoding = (
        together(parts(run) or ()).scaled(1.0, seconds, run.seconds)
        for run, seconds in ((prefill, prefill.seconds), (last, decode_s))
    )
    each = widened(decoding.scaled(1.0, decode_s / steps, decode_s), decode_s / steps, TOKEN)
    whole = widened(added([prompts, decoding]), prefill.seconds + decode_s, GENERATION)
    return Generated(first, each, whole)


def in_any_lab(chip: Chip) -> bool:
    """Return whether intervals of a chip cover other labs than that which measured it: without a site of its own."""
    return chip.calibration is not None and chip.calibration.elsewhere


def parts(run: Run) -> list[KernelSeconds] | None:
    """Return what every step adds, with the width of its interval; None for a chip without kernels."""
    models = _models(run)
    return list(_parts(run, models)) if models else None


def energy_interval(run: Run, total_J: float) -> Energies | None:
    """Return the interval by which measured joules vary around simulated ones; None for a chip without kernels."""
    found = joules_ends(total_J) if _models(run) else None
    return None if found is None else Energies(*found)


def joules_ends(joules: float, key: str = JOULES) -> tuple[float, float] | None:
    """Return the ends of joules of devices that run kernels, of their servers at the wall (``WALL``), or of average
    power (``WATTS``), by what was measured."""
    from accelsim.kernels.whole import ends

    return ends(key, joules)


def power_interval(run: Run, average_W: float) -> tuple[float, float] | None:
    """Return the interval by which measured average power of networks varies around simulated, W; None for a chip
    without kernels, and for single products."""
    return None if run.program.graph.products or not _models(run) else joules_ends(average_W, WATTS)


def _models(run: Run) -> dict[str, KernelModel]:
    """Return what predicts kernels, by engine."""
    return {
        unit.name: model
        for unit in units(run.chip).values()
        if (model := ENGINES[unit.type].kernels(run.chip, unit)) is not None
    }


def _parts(run: Run, models: Mapping[str, KernelModel]) -> Iterator[KernelSeconds]:
    from accelsim.kernels.whole import KernelSeconds, Width, served_width, width

    serves = run.job is not None and run.job.options.serves
    steps, known = run.program.steps, dict[tuple[str, str, str], Width]()
    for index, spent in critical_path.by_step(run).items():
        engine, kind, name = next(iter(models)), OTHER, run.program.dtype
        alike: Hashable = index
        if 0 <= index < len(steps):
            step = steps[index]
            alike = (step.label, step.out_shape, step.macs)
            if unit_of(step.engine) in models:
                engine = unit_of(step.engine)
                kind, name = models[engine].family(step.node), step.node.format or name
                kernel = models[engine].served(run.program.graph, step.node) if serves else None
                if kernel is not None:
                    yield KernelSeconds(sum(spent.values()) * FS, served_width(kernel), alike, kernel.family)
                    continue
        key = (engine, kind, name)
        if key not in known:
            known[key] = width(run.chip, models[engine], kind, name)
        yield KernelSeconds(sum(spent.values()) * FS, known[key], alike, kind)

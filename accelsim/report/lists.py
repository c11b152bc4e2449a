"""Answers about what can be named: chips, models, memories, DRAMs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from accelsim.machine.memory_models import MODELS
from accelsim.report.answer import Answer, Definitions, Field, Record, Table, binary, in_unit, records
from accelsim.report.text import si
from accelsim.spec.dram_device import device
from accelsim.spec.memory import Memory
from accelsim.spec.yaml.load import list_chips
from accelsim.spec.yaml.parts import list_drams, load_dram, memory_named, memory_names
from accelsim.spec.yaml.where import listing
from accelsim.units import show as spelled
from accelsim.workload.sources.load import list_models

CHIPS = (*map(Field, ("name", "title", "kind")), Field("peak_OPS", read=lambda chip: dict(chip.peak)), Field("problem"))
"""Keys about chips."""
MODEL_KEYS = tuple(map(Field, ("name", "kind", "description", "batch", "parameters")))
"""Keys about models."""


def chips() -> Answer:
    """List all chips with their stated peaks, a broken spec with its problem."""
    rows, said = listing("chips", lambda: records(CHIPS, list_chips())), []
    for row in rows:
        peak = _peaks(row["peak_OPS"])
        text = f"{row['title']} ({row['kind']})" + (f"; {peak}" if peak else "")
        said.append((row["name"], f"broken: {row['problem']}" if row["problem"] else text))
    return Answer(rows, [Definitions(said)], rows)


def _peaks(peak: dict[str, float]) -> str:
    """Each rate once, the fastest first, with the formats that have it: '92 TOPS bf16, fp16; 23 TOPS fp32'."""
    formats: dict[float, list[str]] = {}
    for name, rate in peak.items():
        formats.setdefault(rate, []).append(name)
    return "; ".join(f"{si(rate, 'OPS')} {', '.join(formats[rate])}" for rate in sorted(formats, reverse=True))


def model_records() -> list[dict[str, object]]:
    """Return a record of every model that can be named."""
    return records(MODEL_KEYS, list_models())


def models(rows: Sequence[Record]) -> Answer:
    """List all models with their parameters; ``rows``: those of ``model_records``."""
    said = []
    for row in rows:
        settings = [f"{name}={value}" for name, value in row["parameters"].items()]
        settings += [f"batch {row['batch']}"] if row["batch"] != 1 else []
        said.append((row["name"], row["description"] + (f"; {', '.join(settings)}" if settings else "")))
    table = [{**row, "parameters": [f"{k}={v}" for k, v in row["parameters"].items()]} for row in rows]
    return Answer(rows, [Definitions(said)], table)


def _per_byte(energy_J: float | None) -> str:
    return "the chip's" if energy_J is None else f"{energy_J * 1e12:.3g} pJ/B"


def _known(energy_J: float | None) -> float | None:
    """An energy; None of an SRAM that leaves it to the energy table of its chip."""
    return None if energy_J is None else float(energy_J)


def _in(unit: str) -> Callable[[float], str]:
    return partial(spelled, unit=unit, digits=3)


MEMORIES: tuple[Field, ...] = (
    Field("name", "memory", read=lambda each: each[0]),
    Field("kind", read=lambda each: each[1].kind),
    Field("capacity_B", "capacity", partial(spelled, unit="B", binary=True), read=lambda each: each[1].capacity),
    Field("channels", read=lambda each: each[1].channels),
    Field("bandwidth_Bps", "peak", _in("B/s"), read=lambda each: float(each[1].peak_Bps)),
    Field("efficiency", "usable", "{:.0%}".format, read=lambda each: each[1].efficiency),
    Field("latency_s", "latency", _in("s"), read=lambda each: float(each[1].latency)),
    Field("read_J_per_B", "read", _per_byte, read=lambda each: _known(each[1].read_energy)),
    Field("write_J_per_B", "write", _per_byte, read=lambda each: _known(each[1].write_energy)),
    Field("static_power_W", "standby", _in("W"), read=lambda each: float(each[1].static_power)),
    Field("energy_status", "energies", read=lambda each: each[1].energy_status or "guess"),
    Field("memory_models", read=lambda each: _models_of(each[1])),
)
"""Columns about memories, which are read of a name and its spec. Bandwidth is that of all channels together."""
DRAMS = (
    Field("name", "name"),
    Field("standard", "standard"),
    Field("rate_per_s", "rate", in_unit("T/s")),
    Field("peak_Bps", "peak", in_unit("B/s")),
    Field("capacity_B", "capacity", binary),
    Field("energy_status", "energies"),
)


def _models_of(memory: Memory) -> list[str]:
    return [name for name, level in MODELS.items() if level.dram is None or memory.dram is not None]


def memories(counted: Callable[[Sequence[str]], Iterable[str]] = iter) -> Answer:
    """List all memories that a chip may have; ``counted`` sees their names, one after the other."""
    rows = listing(
        "memories", lambda: records(MEMORIES, ((name, memory_named(name)) for name in counted(memory_names())))
    )
    return Answer(rows, [Table(MEMORIES, rows)], rows)


def drams() -> Answer:
    """List all DRAMs that can be named."""
    rows = [_dram(name) for name in list_drams()]
    return Answer(rows, [Table(DRAMS, rows)], rows)


def _dram(name: str) -> dict[str, object]:
    spec = load_dram(name)
    made, status = device(spec), spec.energy_status or "none"
    figures = (name, spec.standard, float(spec.rate), made.peak_Bps, made.geometry.capacity_B, status)
    return dict(zip((each.key for each in DRAMS), figures, strict=True))

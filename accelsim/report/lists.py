"""Answers about what can be named: chips, models, memories, DRAMs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from accelsim.machine.memory_models import MODELS
from accelsim.report.answer import Answer, Definitions, Field, Lines, Record, Table, binary, in_unit, records
from accelsim.report.prices import usd
from accelsim.spec.dram_device import device
from accelsim.spec.memory import Memory
from accelsim.spec.yaml.instances import cheapest
from accelsim.spec.yaml.load import list_chips
from accelsim.spec.yaml.parts import list_drams, load_dram, memory_named, memory_names
from accelsim.spec.yaml.where import listing
from accelsim.units import show as spelled
from accelsim.workload.sources.load import list_models

CHIPS = (
    *map(Field, ("name", "title", "kind", "year")), Field("peak_OPS", read=lambda chip: dict(chip.peak)),
    Field("memory_B"), Field("problem"),
)  # fmt: skip
"""Keys about chips."""
FAMILIES = {
    "gpu": "{} GPUs", "asic": "Accelerators", "fpga": "FPGAs", "cpu": "Processors", "edu": "Teaching machines",
}  # fmt: skip
"""Kinds of chips as heads of tables, in their order; GPUs by their maker, the first word of a title."""
HALF, BYTE = ("fp16", "bf16"), ("int8", "fp8_e4m3fn", "fp8_e4m3", "fp8_e5m2")
"""Formats of two bytes, and of one."""
MODEL_KEYS = tuple(map(Field, ("name", "kind", "description", "batch", "parameters")))
"""Keys about models."""


def _tera(*formats: str) -> Callable[[Record], str]:
    """Spell the highest stated peak of some formats, in tera-operations per second."""
    return lambda row: _digits(max((row["peak_OPS"].get(each, 0.0) for each in formats), default=0.0) / 1e12)


def _digits(value: float) -> str:
    return "-" if not value else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


LISTED = (
    Field("name", "chip"),
    Field("year", "year", lambda value: str(value or "-")),
    Field("", "16-bit", _tera(*HALF), True, "stated peak, 10^12 operations per second, of fp16 or bf16"),
    Field("", "8-bit", _tera(*BYTE), True, "of int8 or fp8"),
    Field("", "fp32", _tera("fp32"), True),
    Field("memory_B", "memory", lambda value: binary(value) if value else "-", meaning="on the board or module"),
    Field("usd_per_hour", "USD/h", usd, meaning="lowest price on demand (accelsim prices)"),
    Field("", "title", lambda row: row["title"].removeprefix(f"{_maker(row)} " if row["kind"] == "gpu" else ""), True),
)
"""Columns about chips that can be loaded."""


def chips() -> Answer:
    """List all chips by family and year: peaks, memory, the cheapest price; a broken spec with its problem."""
    rows, found = listing("chips", lambda: records(CHIPS, list_chips())), cheapest()
    rows = [{**row, "usd_per_hour": found.get(row["name"])} for row in rows]
    families: dict[str, list[Record]] = {}
    for row in sorted(
        rows, key=lambda row: (list(FAMILIES).index(row["kind"] or "edu"), _maker(row), row["year"] or 0)
    ):
        if not row["problem"]:
            families.setdefault(FAMILIES[row["kind"]].format(_maker(row)), []).append(row)
    last = list(families)[-1:]
    tables = {name: Table(LISTED, own, legend="Chips" if [name] == last else "") for name, own in families.items()}
    shown = [part for name, table in tables.items() for part in ("", Lines(name), table)][1:]
    broken = [(str(row["name"]), f"broken: {row['problem']}") for row in rows if row["problem"]]
    return Answer(rows, [*shown, Definitions(broken)] if broken else shown, rows)


def _maker(row: Record) -> str:
    return str(row["title"]).partition(" ")[0]


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

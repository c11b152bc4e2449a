"""``accelsim chips``, ``accelsim models`` and ``accelsim memories``: what there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    check_outputs,
    counted,
    csv_option,
    example,
    flat,
    json_option,
    save_csv,
    show,
    show_json,
    width,
)

if TYPE_CHECKING:
    from accelsim.spec.memory import Memory


@click.command(epilog=example("accelsim chips", "accelsim chips --json"))
@csv_option
@json_option
def chips(table: Path | None, as_json: bool) -> None:
    """List every chip that can be named, with its stated peak; a broken spec file is listed with its problem."""
    from accelsim.spec.yaml.where import listing

    check_outputs(None, table)
    facts = listing("chips", _chip_facts)
    save_csv(table, [flat(row) for row in facts])
    if as_json:
        show_json(facts)
        return
    rows = []
    for chip in facts:
        peak = chip["peak_OPS"]
        text = f"{chip['title']} ({chip['kind']}){'; ' if peak else ''}{_peaks(peak)}"
        rows.append((chip["name"], f"broken: {chip['problem']}" if chip["problem"] else text))
    _print(rows)


def _chip_facts() -> list[dict[str, Any]]:
    """Return a row for JSON of every chip; units at the end of the keys."""
    from accelsim.spec.yaml.load import list_chips

    return [
        {"name": chip.name, "title": chip.title, "kind": chip.kind, "peak_OPS": dict(chip.peak),
         "problem": chip.problem}
        for chip in list_chips()
    ]  # fmt: skip


@click.command(epilog=example("accelsim models", "accelsim models --csv models.csv"))
@csv_option
@json_option
def models(table: Path | None, as_json: bool) -> None:
    """List every model that can be named; parameters are set with --param NAME=VALUE or NAME?PARAMETER=VALUE.

    Decoders (those with past=0) take prompt=P and new=N instead of seq and past: a prompt, and the tokens that follow.
    """
    from accelsim.usercache import remembered

    check_outputs(None, table)
    facts = remembered("models", tuple, _model_facts)
    save_csv(
        table, [{**fact, "parameters": [f"{k}={v}" for k, v in fact["parameters"].items()]} for fact in facts]
    )
    if as_json:
        show_json(facts)
        return
    rows = []
    for fact in facts:
        settings = [f"{name}={value}" for name, value in fact["parameters"].items()]
        settings += [f"batch {fact['batch']}"] if fact["batch"] != 1 else []
        rows.append((fact["name"], fact["description"] + (f"; {', '.join(settings)}" if settings else "")))
    _print(rows)


def _model_facts() -> list[dict[str, Any]]:
    """Return a row for JSON of every model."""
    from accelsim.workload.sources.load import list_models

    return [
        {"name": row.name, "kind": row.kind, "description": row.description, "batch": row.batch,
         "parameters": row.parameters}
        for row in list_models()
    ]  # fmt: skip


@click.command(
    epilog=example(
        "accelsim memories",
        "accelsim memories --json",
        "accelsim run cnn --on edu-4x4 --set memories.dram.memory=dram/lpddr4-2400",
    )
)
@csv_option
@json_option
def memories(table: Path | None, as_json: bool) -> None:
    """List every memory that a chip may have: capacity, bandwidth, energy per byte, and how far to trust the energy.

    Name one in a chip's file (memory: dram/ddr5-4800), or with --set memories.NAME.memory=dram/ddr5-4800. Figures of
    memories/... are stated in their files; those of dram/... follow from the DRAM and its model. usable: share
    of the peak that a stream gets; standby: power with banks open, and refresh.
    """
    from accelsim.spec.yaml.where import listing

    check_outputs(None, table)
    rows = listing("memories", _all_memories)
    save_csv(table, rows)
    if as_json:
        show_json(rows)
        return
    from accelsim.report.table import text_table

    show(text_table(["memory", *MEMORY_COLUMNS], [_memory_cells(row) for row in rows], width()))


def _all_memories() -> list[dict[str, Any]]:
    """Return a row of ``_memory_facts`` for every memory."""
    from accelsim.spec.yaml.parts import memory_named, memory_names

    return [_memory_facts(name, memory_named(name)) for name in counted(memory_names(), str)]


MEMORY_COLUMNS = ("capacity", "peak", "usable", "latency", "read", "write", "standby", "energies")


def _memory_facts(name: str, memory: Memory) -> dict[str, Any]:
    """A row for JSON; units at the end of the keys. Bandwidth is that of all channels together."""
    return {
        "name": name, "kind": memory.kind, "capacity_B": memory.capacity, "channels": memory.channels,
        "bandwidth_Bps": float(memory.peak_Bps), "efficiency": memory.efficiency,
        "latency_s": float(memory.latency), "read_J_per_B": _known(memory.read_energy),
        "write_J_per_B": _known(memory.write_energy), "static_power_W": float(memory.static_power),
        "energy_status": memory.energy_status or "guess", "memory_models": _models_of(memory),
    }  # fmt: skip


def _known(energy_J: float | None) -> float | None:
    """An energy; None of an SRAM that leaves it to the energy table of its chip."""
    return None if energy_J is None else float(energy_J)


def _models_of(memory: Memory) -> list[str]:
    """Memory models that can follow it."""
    from accelsim.machine.memory_models import MODELS

    return [name for name, level in MODELS.items() if level.dram is None or memory.dram is not None]


def _memory_cells(row: dict[str, Any]) -> tuple[str, ...]:
    from accelsim.units import show as spelled

    stated = (row[key] for key in ("read_J_per_B", "write_J_per_B"))
    energies = ("the chip's" if each is None else f"{each * 1e12:.3g} pJ/B" for each in stated)
    return (
        row["name"], spelled(row["capacity_B"], "B", binary=True), spelled(row["bandwidth_Bps"], "B/s", 3),
        f"{row['efficiency']:.0%}", spelled(row["latency_s"], "s", 3), *energies,
        spelled(row["static_power_W"], "W", 3), row["energy_status"],
    )  # fmt: skip


def _peaks(peak: dict[str, float]) -> str:
    """Each rate once, the fastest first, with the formats that have it: '92 TOPS bf16, fp16; 23 TOPS fp32'."""
    from accelsim.report.text import si

    formats: dict[float, list[str]] = {}
    for name, rate in peak.items():
        formats.setdefault(rate, []).append(name)
    return "; ".join(
        f"{si(rate, 'OPS')} {', '.join(formats[rate])}" for rate in sorted(formats, reverse=True)
    )


def _print(rows: Sequence[tuple[str, str]]) -> None:
    """Names and what they are, wrapped at the width of the terminal; nothing is cut off."""
    formatter = click.HelpFormatter(width=width())
    formatter.write_dl([(name, " ".join(text.split())) for name, text in rows])
    click.echo(formatter.getvalue(), nl=False)

"""Area of a chip by its design, and the price of a good die. Figures and their sources: ``silicon.yaml``.

A part is the sum of its cells times a factor that TPU v1 gives (``layout``): wires, clock, test, room left over.

* **Arrays**: a PE is a multiplier, an adder and registers (one moving operand, two stationary, one sum) of the format
  that needs most: at half the pace half of it, at twice the pace two. Formats without a figure: the cells of textbook
  circuits (``spec/arithmetic.py``).
* **Vector units**: a lane is a multiply-add in FP32.
* **Memories**: the fit to CACTI (``accelsim/sram``) from 28 to 45 nm, elsewhere by the area of a bit cell.
* **PHYs** of DRAM: by pins, the bandwidth divided by the rate of a pin. They do not shrink.
* **Rest**: host interface, network, control, pads: a share of all parts.

Logic goes from node to node by Stillmaker and Baas (``spec/scaling.py``).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple, TypedDict

import yaml

from accelsim.account.price import Wafer, good_die_USD
from accelsim.spec.arithmetic import Stated, add_energy, mac_energy, product_energy
from accelsim.spec.chip import Chip
from accelsim.spec.engine import Built
from accelsim.spec.memory import Memory
from accelsim.spec.names import operand_formats
from accelsim.spec.scaling import between, relative_area
from accelsim.spec.silicon import node_nm
from accelsim.sram.model import figure

UM2, MM2, CM2 = 1e-12, 1e-6, 1e-4
LOGIC_nm = 45
"""Node of the areas of operations and flip-flops."""
SRAM_nm = (28, 45)
"""Nodes from and to which memories follow the fit to CACTI."""
RETICLE_m2 = 858 * MM2
"""Largest die that a mask exposes, 26 x 33 mm (recalled)."""


class Sourced(TypedDict):
    """A figure and its bit cells."""

    um2: float


class Cells(TypedDict):
    """Areas by node."""

    um2: dict[int, float]


class Operations(TypedDict):
    """Areas of operations by format."""

    multiply: dict[str, float]
    add: dict[str, float]


class Figures(TypedDict):
    """Content of ``silicon.yaml``."""

    operations: Operations
    flip_flop: Sourced
    bitcells: Cells
    phys: dict[str, dict[str, float]]
    layout: dict[str, float]
    wafers: dict[int, dict[str, float]]
    clustering: float


@cache
def figures() -> Figures:
    """Return the figures of ``silicon.yaml``."""
    found: Figures = yaml.safe_load(Path(__file__).with_name("silicon.yaml").read_text(encoding="utf-8"))
    return found


class Area(NamedTuple):
    """Area of a die by its parts, m2."""

    arrays_m2: float
    vectors_m2: float
    memories_m2: float
    phys_m2: float
    rest_m2: float

    @property
    def total_m2(self) -> float:
        """Sum of all parts."""
        return sum(self)


def die_m2(chip: Chip) -> float | None:
    """Return the area of a chip's die: as its spec states it, else by its design; None where neither says it."""
    if chip.die_area is not None:
        return chip.die_area
    area = designed(chip)
    return None if area is None else area.total_m2


def chip_cost_USD(area_m2: float, nm: float) -> float | None:
    """Return the price of a good die of an area at a node, without test and package; None without a price at the node,
    or if no mask is large enough."""
    wafers = figures()["wafers"]
    if area_m2 > RETICLE_m2 or not min(wafers) <= nm <= max(wafers):
        return None
    price_USD, defects = (between(nm, {node: row[key] for node, row in wafers.items()}) for key in ("USD", "defects"))
    return good_die_USD(area_m2, Wafer(price_USD, defects / CM2, figures()["clustering"]))


def designed(chip: Chip) -> Area | None:
    """Return the area of a chip by its design; None if an engine's area is not modelled, or if it has none."""
    nm, layout = node_nm(chip), figures()["layout"]
    logic = relative_area(nm) / relative_area(LOGIC_nm) * UM2
    arrays = vectors = memories = 0.0
    for core in chip.cores.values():
        built = [unit.built() for unit in core.engines.values()]
        if not built or None in built:
            return None
        for each in filter(None, built):
            arrays += core.count * each.pes * _pe_um2(each) * logic * layout["arrays"]
            vectors += core.count * each.lanes * mac_energy("fp32", _stated()) * logic * layout["vectors"]
            memories += core.count * each.pes * _sram_m2(each.store_B, 1, nm)
        memories += core.count * sum(_sram_m2(each.part_B, each.parts or 1, nm) for each in core.memories.values())
    memories += sum(_sram_m2(each.memory.capacity, 1, nm) for each in chip.memories.values() if each.fed_by is not None)
    memories *= layout["memories"]
    phys = sum(_phy_m2(each.memory) for each in chip.memories.values() if each.fed_by is None and each.link is None)
    return Area(arrays, vectors, memories, phys, layout["rest"] * (arrays + vectors + memories + phys))


@cache
def _stated() -> Stated:
    """Areas of operations, um2: they follow from a format as energies do."""
    stated = figures()["operations"]
    return Stated(stated["multiply"], stated["add"])


@cache
def _pe_um2(built: Built) -> float:
    """Cells of a PE: those of the format that needs most."""
    return max((pace * _format_um2(operands, sums) for operands, sums, pace in built.formats), default=0.0)


def _format_um2(operands: str, sums: str) -> float:
    stationary, *_, moving = [fmt.bits for fmt in operand_formats(operands) or ()] * 2
    (held,) = operand_formats(sums) or ()
    bits = moving + 2 * stationary + held.bits
    return product_energy(operands, _stated()) + add_energy(sums, _stated()) + bits * figures()["flip_flop"]["um2"]


def _sram_m2(part_B: float, parts: int, nm: float) -> float:
    """Return the area of equal memories by the fit to CACTI."""
    if not part_B:
        return 0.0
    fitted_nm = min(max(nm, SRAM_nm[0]), SRAM_nm[1])
    cells = figures()["bitcells"]["um2"]
    scale = between(nm, cells) / between(fitted_nm, cells)
    return parts * figure("area_m2", fitted_nm, "itrs-lop", part_B, 64) * scale


def _phy_m2(memory: Memory) -> float:
    """Return the area of the interface of a memory; 0 for a kind without a figure."""
    row = figures()["phys"].get(memory.kind)
    if row is None:
        return 0.0
    rate = memory.dram.rate if memory.dram is not None else row["rate"]
    return memory.peak_Bps * 8 / rate * row["mm2"] * MM2

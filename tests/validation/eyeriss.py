"""Check ``eyeriss-hierarchy``: where AlexNet's energy goes under the relative costs of Eyeriss, Table IV.

Chen, Emer, Sze, "Eyeriss", ISCA 2016. The counts are those of a simulated systolic array with as many PEs and as large
a buffer; only the costs are the paper's. What that array can and cannot show is said in the remarks, with numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from accelsim.account.energy import price_list
from accelsim.account.latency import layers
from accelsim.account.what_if import with_energy
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.systolic.actions import HOP, REGISTER
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.actions import READ, ActionName, mac
from accelsim.report.text import percent
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.sources.load import load_model
from tests.validation.anchors import Anchor, published, relative
from tests.validation.base import Check, check, within

CHIP, MODEL, FORMAT = "eyeriss-hierarchy", "alexnet", "int16"
BATCHES = (1, 4, 8, 16)
BATCH = BATCHES[-1]
WORD_B = 2
LEVELS = {
    "MAC": "MAC", "register": "PE registers", "network": "PE network", "buffer": "on-chip SRAM",
    "DRAM": "off-chip memory",
}  # fmt: skip
"""Level of Table IV -> category of the ledger's energy, from the arithmetic outwards."""
ACCESSES = 4
"""Register accesses that a multiply-accumulate takes in a PE with a register file: two operands, the sum in and out."""
DRAM_COST = 200.0
"""What a word from DRAM costs, Table IV; the spec's own is checked against it by ``anchors``."""
CLAIM = 0.8
"""Share of DRAM in the fully connected layers that is asked about."""


class Split(NamedTuple):
    """Energy of one layer with a matrix product, in multiply-accumulates, by level; ``dram_words``: moved for it."""

    name: str
    kind: str
    macs: int
    energy: dict[str, float]
    dram_words: float

    @property
    def total(self) -> float:
        """Energy of all levels."""
        return sum(self.energy.values())

    def share(self, level: str) -> float:
        """Part of the energy of the layer that a level takes."""
        return self.energy[level] / self.total

    @property
    def largest(self) -> str:
        """The level that takes most."""
        return max(self.energy, key=lambda level: self.energy[level])


@cache
def alexnet_run(batch: int) -> Run:
    """AlexNet without values; inputs and results are converted outside of the run, so the host does nothing."""
    graph = load_model(MODEL, batch=batch)
    return simulate(compile(graph, load_chip(CHIP), Options(dtype=FORMAT, values="off", edges="outside")))


def splits(run: Run) -> list[Split]:
    """Every layer with a matrix product: five convolutions (CONV), then three fully connected ones (FC)."""
    mac_J = run.chip.energy.mac[FORMAT]
    found: list[Split] = []
    seen = {"CONV": 0, "FC": 0}
    for layer in layers(run):
        if layer.gemm is None:
            continue
        kind = "CONV" if layer.label.startswith("Conv") else "FC"
        seen[kind] += 1
        energy = {level: layer.energy_by_category_J.get(key, 0.0) / mac_J for level, key in LEVELS.items()}
        found.append(Split(f"{kind}{seen[kind]}", kind, layer.macs, energy, layer.dram_B / WORD_B))
    return found


def costs(chip: Chip) -> dict[str, float]:
    """Level -> cost of getting a 16-bit word from there over that of a multiply-accumulate, as the spec prices it.

    A word from another PE is read from a register there and takes a hop: both are paid.
    """
    prices, mac_J = price_list(chip), chip.energy.mac[FORMAT]
    buffer, memory = next(iter(chip.buffers)), next(iter(chip.memories))
    register = ("matrix", ActionName(REGISTER, READ))
    paid: dict[str, list[tuple[str, str]]] = {
        "register": [register], "network": [register, ("matrix", HOP)],
        "buffer": [(buffer, READ)], "DRAM": [(memory, READ)],
    }  # fmt: skip
    words = {level: WORD_B * sum(prices[key] for key in keys) / mac_J for level, keys in paid.items()}
    return {"MAC": 1.0, **words}


def booked(table: Mapping[str, float]) -> dict[str, float]:
    """Costs of Table IV by level -> what the ledger's actions there cost: of a hop only the way, beyond the register
    that it ends at, whose read is an access of its own.
    """
    return {level: table[level] for level in LEVELS} | {"network": table["network"] - table["register"]}


def most_dram_share(batch: int) -> float:
    """Upper bound of DRAM's share in a fully connected layer, whatever the dataflow.

    A weight comes from DRAM once and is used ``batch`` times; each time costs a multiply-accumulate and
    ``ACCESSES`` to a register file. Network and buffer are left out, and so are inputs and results, a word of which
    is used as often as the layer has outputs or inputs: with 4096 of them, 200 / 4096 is 0.05 per multiplication.
    """
    return DRAM_COST / (DRAM_COST + batch * (1 + ACCESSES))


def statements(found: Sequence[Split]) -> Iterator[tuple[str, bool, str]]:
    """(what the paper says as far as recalled, whether it holds here, the numbers) of each layer."""
    for split in found:
        shares = ", ".join(f"{level} {percent(split.share(level))}" for level in LEVELS)
        if split.kind == "CONV":
            yield f"{split.name}: registers take the most energy", split.largest == "register", shares
            on_chip = 1 - split.share("DRAM")
            yield f"{split.name}: more energy on the chip than in DRAM", on_chip > 0.5, shares
        else:
            yield f"{split.name}: DRAM takes the most energy", split.largest == "DRAM", shares


def words_by_level(run: Run) -> dict[str, float]:
    """Level -> 16-bit words that all matrix products access there (multiplications: their number), from the ledger."""
    products = {index for index, step in enumerate(run.program.steps) if step.gemm is not None}
    words = dict.fromkeys(LEVELS, 0.0)
    for row in run.ledger:
        if row.op in products:
            level = _level(run.chip, row.component, row.action)
            if level:
                words[level] += row.count / (1 if level == "MAC" else WORD_B)
    return words


def _level(chip: Chip, component: str, action: ActionName) -> str:
    """Where a row of the ledger belongs, '' for what Table IV has no cost of."""
    if component == "matrix":
        if action == mac(FORMAT):
            return "MAC"
        return {REGISTER: "register", HOP.kind: "network"}.get(action.kind, "")
    return "buffer" if component in chip.buffers else "DRAM" if component in chip.memories else ""


def anchors(facts: dict[str, Any], found: Sequence[Split], run: Run) -> list[Anchor]:
    """Return what must agree: the costs of Table IV, the energy that they make of the ledger, FC weights fetched
    once."""
    priced, words = costs(run.chip), words_by_level(run)
    table = {level: facts["table4"][level] for level in LEVELS}
    rows = [relative(f"cost of {level}", cost, priced[level], 1e-12) for level, cost in table.items()]
    for level, cost in booked(table).items():
        energy = sum(split.energy[level] for split in found)
        what = "hops, the register not counted," if level == "network" else level
        rows.append(relative(f"energy of {what} over its accesses", cost, energy / words[level], 1e-9))
    for split in found:
        if split.kind == "FC":
            weights = split.macs / BATCH
            rows.append(relative(f"{split.name}: DRAM words per weight", 1.0, split.dram_words / weights, 0.05))
    return rows


@check("eyeriss-hierarchy")
def eyeriss_hierarchy() -> Check:
    """AlexNet at batch 16 with the costs of Table IV: what takes most energy in which layer."""
    facts, run = published("eyeriss"), alexnet_run(BATCH)
    found = splits(run)
    exact, said = anchors(facts, found, run), list(statements(found))
    lines = [
        *map(str, exact),
        *(f"{text} ({'holds' if holds else 'DOES NOT HOLD'}): {why}" for text, holds, why in said),
    ]
    held = sum(anchor.holds for anchor in exact) + sum(holds for _, holds, _ in said)
    errors = np.array([anchor.error for anchor in exact])
    told = [shares_in_words(), bound_in_words(), *remarks(facts)]
    what = "where the energy of AlexNet goes under the relative costs of Eyeriss, ISCA 2016, Table IV"
    return Check(
        "eyeriss-hierarchy",
        what,
        len(exact) + len(said),
        held,
        errors,
        [*lines, *told],
        within([each.bound or 0 for each in exact]),
    )


def dram_share(found: Sequence[Split], kind: str = "FC") -> float:
    """DRAM's share of all layers of a kind together."""
    chosen = [split for split in found if split.kind == kind]
    return sum(split.energy["DRAM"] for split in chosen) / sum(split.total for split in chosen)


def free(run: Run, *levels: str) -> Run:
    """The run as if the named fields of its energy table cost nothing."""
    return with_energy(run, run.chip.energy.model_copy(update=dict.fromkeys(levels, 0.0)))


def remarks(facts: dict[str, Any]) -> list[str]:
    """Return what the costs allow and what the systolic array cannot show, with the numbers that say why."""
    run = alexnet_run(BATCH)
    found = splits(run)
    words = facts["dram_words_per_mac"]
    conv = [split for split in splits(alexnet_run(words["batch"])) if split.kind == "CONV"]
    simulated = sum(split.dram_words for split in conv) / sum(split.macs for split in conv)
    return [
        _what_remains(run, found),
        _whole_network(found),
        f"DRAM words per multiply-accumulate in the convolutions at batch {words['batch']}: {simulated:.4f} simulated, "
        f"{words['value']} measured on the chip, which keeps rows in 0.5 KiB per PE and compresses feature maps.",
        "Registers of a systolic PE hold one word and cost less than the register file of Table IV, so their share is "
        "an upper bound here. Pooling, normalisation and activation functions are not charged. Sums are words of 16 "
        "bits, as on the chip.",
        "The model of the zoo reads images of 224 x 224, the paper's of 227 x 227: 596 against 666 million "
        "multiply-accumulates in the convolutions of one image.",
    ]


def shares_in_words() -> str:
    """DRAM's share in the fully connected layers and its bound, at each batch."""
    shares = fc_shares()
    told = ", ".join(f"{percent(share)} at batch {batch}" for batch, share in shares.items())
    bounds = ", ".join(f"{percent(most_dram_share(batch))} at batch {batch}" for batch in shares)
    return f"DRAM's share in the fully connected layers: {told}. Bound, each weight fetched once: {bounds}."


def bound_in_words() -> str:
    """Why no dataflow can have more than ``CLAIM`` in DRAM at ``BATCH``, with the arithmetic; which batch can."""
    weight, spent = DRAM_COST / BATCH, 1 + ACCESSES
    left = weight * (1 - CLAIM) / CLAIM
    return (
        f"More than {CLAIM:.0%} in DRAM at batch {BATCH} cannot follow from these costs. {BATCH} images share a "
        f"weight, so it costs {DRAM_COST:g} / {BATCH} = {weight:g} per multiply-accumulate, and {CLAIM:.0%} would "
        f"leave {left:.1f} for all else. But the multiply-accumulate costs 1 and its {ACCESSES} accesses to a "
        f"register file (two operands, the sum in and out) cost {ACCESSES}: {weight:g} / ({weight:g} + {spent}) = "
        f"{percent(most_dram_share(BATCH))}, even if network and buffer were free. (Inputs and results, moved once, "
        f"add less than 0.1 per multiply-accumulate.) The bound is above {CLAIM:.0%} up to a batch of "
        f"{largest_batch(CLAIM)}, the simulated array up to one of {largest_simulated(CLAIM)}."
    )


def _what_remains(run: Run, found: Sequence[Split]) -> str:
    """Return what a multiply-accumulate of the fully connected layers costs at each level, and why."""
    fc = per_mac(found, "FC")
    parts = ", ".join(f"{level} {energy:.2f}" for level, energy in fc.items())
    bare = dram_share(splits(free(run, "register", "network")))
    return (
        f"Per multiply-accumulate of these layers at batch {BATCH}: {parts}. A systolic array stays below the bound, "
        "for an input and a sum are written into a register and read again in every PE on their way. With registers "
        f"and network for nothing the share is {percent(bare)}; most of the buffer's part are sums that go there and "
        "back after 12 rows, inputs that are read again for each 14 columns, and weights on their way in and out."
    )


def _whole_network(found: Sequence[Split]) -> str:
    """The register reads at the ends of hops, counted to the network as Table IV does."""
    told = []
    for kind, where in (("CONV", "convolutions"), ("FC", "fully connected layers")):
        spent = per_mac(found, kind)
        own = spent["register"] - spent["network"]
        told.append(f"{2 * spent['network']:.2f} and {own:.2f} in the {where}")
    return (
        "A word from another PE costs 2: 1 for the register that it is read from, booked there, 1 for the hop. Counted "
        f"whole, network and other register accesses take {', '.join(told)} per multiply-accumulate, so that in "
        "this array the neighbours cost more than the registers of a PE's own: row stationary is made to avoid that."
    )


def fc_shares() -> dict[int, float]:
    """Batch -> DRAM's share of the fully connected layers."""
    return {batch: _fc_share(batch) for batch in BATCHES}


@cache
def _fc_share(batch: int) -> float:
    return dram_share(splits(alexnet_run(batch)))


def per_mac(found: Sequence[Split], kind: str) -> dict[str, float]:
    """Level -> energy per multiply-accumulate of all layers of a kind together."""
    chosen = [split for split in found if split.kind == kind]
    macs = sum(split.macs for split in chosen)
    return {level: sum(split.energy[level] for split in chosen) / macs for level in LEVELS}


def largest_batch(share: float) -> int:
    """Largest batch at which DRAM can take more than ``share`` of a fully connected layer."""
    return max(batch for batch in range(1, 1000) if most_dram_share(batch) > share)


def largest_simulated(share: float) -> int:
    """Largest batch up to which DRAM takes more than ``share`` of the fully connected layers; 0 if it never does."""
    return next(batch for batch in count() if _fc_share(batch + 1) <= share)

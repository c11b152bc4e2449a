"""Check ``eyeriss-hierarchy``: where AlexNet's energy goes under the relative costs of Eyeriss, Table IV.

Chen, Emer, Sze, "Eyeriss", ISCA 2016. The counts are those of a simulated systolic array with as many PEs and as large
a buffer; only the costs are the paper's. What that array can and cannot show is said in the remarks, with numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from accelsim.account.energy import price_list
from accelsim.account.latency import layers
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.report.text import percent
from accelsim.spec.load import load_chip
from accelsim.spec.models import Chip
from accelsim.validate.anchors import Anchor, published, relative
from accelsim.validate.base import Check, check
from accelsim.workload.load import load_model

CHIP, MODEL, FORMAT = "eyeriss-hierarchy", "alexnet", "int16"
BATCHES = (1, 4, 16)
BATCH = BATCHES[-1]
WORD_B = 2
LEVELS = {
    "MAC": "MAC", "register": "PE registers", "network": "PE network", "buffer": "on-chip SRAM",
    "DRAM": "off-chip memory",
}  # fmt: skip
"""Level of Table IV -> category of the ledger's energy, from the arithmetic outwards."""
ACCESSES = 4
"""Register accesses that a multiply-accumulate takes in a PE with a register file: two operands, the sum in and out."""


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
def alexnet_run(batch: int = BATCH) -> Run:
    """AlexNet without values; inputs and results are converted outside of the run, so the host does nothing."""
    graph = load_model(MODEL, batch=batch)
    return simulate(
        compile(graph, load_chip(CHIP), Options(dtype=FORMAT, values="off", edges="outside", cores=1))
    )


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
    """Level -> cost of one access of a 16-bit word over that of a multiply-accumulate, as the spec prices it."""
    prices, mac_J = price_list(chip), chip.energy.mac[FORMAT]
    buffer, memory = next(iter(chip.buffers)), next(iter(chip.memories))
    keys = {
        "register": ("matrix", "pe_register.read"), "network": ("matrix", "pe_network.hop"),
        "buffer": (buffer, "read"), "DRAM": (memory, "read"),
    }  # fmt: skip
    return {"MAC": 1.0, **{level: WORD_B * prices[key] / mac_J for level, key in keys.items()}}


def most_dram_share(batch: int, weight: float = 200.0) -> float:
    """Upper bound of DRAM's share in a fully connected layer, whatever the dataflow.

    A weight comes from DRAM once and is used ``batch`` times; each time costs a multiply-accumulate and
    ``ACCESSES`` to a register file. Network and buffer are left out.
    """
    return weight / (weight + batch * (1 + ACCESSES))


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


def _level(chip: Chip, component: str, action: str) -> str:
    """Where a row of the ledger belongs, '' for what Table IV has no cost of."""
    if component == "matrix":
        known = {f"mac.{FORMAT}": "MAC", "pe_register": "register", "pe_network": "network"}
        return known.get(action, known.get(action.split(".")[0], ""))
    return "buffer" if component in chip.buffers else "DRAM" if component in chip.memories else ""


def anchors(facts: dict[str, Any], found: Sequence[Split], run: Run) -> list[Anchor]:
    """What must agree: the costs of Table IV, the energy that they make of the ledger, FC weights fetched once."""
    priced, words = costs(run.chip), words_by_level(run)
    table = {level: facts["table4"][level] for level in LEVELS}
    rows = [relative(f"cost of {level}", cost, priced[level], 1e-12) for level, cost in table.items()]
    for level, cost in table.items():
        energy = sum(split.energy[level] for split in found)
        rows.append(relative(f"energy of {level} over its accesses", cost, energy / words[level], 1e-9))
    for split in found:
        if split.kind == "FC":
            weights = split.macs / BATCH
            rows.append(
                relative(f"{split.name}: DRAM words per weight", 1.0, split.dram_words / weights, 0.05)
            )
    return rows


@check("eyeriss-hierarchy")
def eyeriss_hierarchy() -> Check:
    """AlexNet at batch 16 with the costs of Table IV: what takes most energy in which layer."""
    facts, run = published("eyeriss"), alexnet_run()
    found = splits(run)
    exact, said = anchors(facts, found, run), list(statements(found))
    lines = [
        *map(str, exact),
        *(f"{text} ({'holds' if holds else 'DOES NOT HOLD'}): {why}" for text, holds, why in said),
    ]
    held = sum(anchor.holds for anchor in exact) + sum(holds for _, holds, _ in said)
    errors = np.array([anchor.error for anchor in exact])
    what = "where the energy of AlexNet goes under the relative costs of Eyeriss, ISCA 2016, Table IV"
    return Check("eyeriss-hierarchy", what, len(exact) + len(said), held, errors, [*lines, *remarks(facts)])


def dram_share(found: Sequence[Split], kind: str = "FC") -> float:
    """DRAM's share of all layers of a kind together."""
    chosen = [split for split in found if split.kind == kind]
    return sum(split.energy["DRAM"] for split in chosen) / sum(split.total for split in chosen)


def free(run: Run, *levels: str) -> Run:
    """The run as if the named fields of its energy table cost nothing."""
    return run.with_energy(run.chip.energy.model_copy(update=dict.fromkeys(levels, 0.0)))


def remarks(facts: dict[str, Any]) -> list[str]:
    """What the systolic array cannot show, with the numbers that say why."""
    run = alexnet_run()
    shares = {batch: dram_share(splits(alexnet_run(batch))) for batch in BATCHES}
    told = ", ".join(f"{percent(share)} at batch {batch}" for batch, share in shares.items())
    bounds = ", ".join(f"{percent(most_dram_share(batch))} at batch {batch}" for batch in BATCHES)
    bare = dram_share(splits(free(run, "register", "network")))
    words = facts["dram_words_per_mac"]
    conv = [split for split in splits(alexnet_run(words["batch"])) if split.kind == "CONV"]
    simulated = sum(split.dram_words for split in conv) / sum(split.macs for split in conv)
    return [
        f"DRAM's share in the fully connected layers: {told}. Where each multiply-accumulate accesses a register file "
        f"{ACCESSES} times (two operands, the sum in and out), as in a row-stationary PE, it cannot exceed {bounds}: a "
        f"weight of 200 is shared by the batch. More than 80 % takes a batch of at most {largest_batch(0.8)}.",
        "The array stays below that bound: operands and sums are written, moved and read in every PE on their way, and "
        f"sums are two words. With registers and network for nothing the share at batch {BATCH} is {percent(bare)}; "
        "most of the rest are sums that go to the buffer and back after 12 rows.",
        f"DRAM words per multiply-accumulate in the convolutions at batch {words['batch']}: {simulated:.4f} simulated, "
        f"{words['value']} measured on the chip, which keeps rows in 0.5 KiB per PE and compresses feature maps.",
        "Registers of a systolic PE hold one word and cost less than the register file of Table IV, so their share is "
        "an upper bound here. Pooling, normalisation and activation functions are not charged.",
        "The model of the zoo reads images of 224 x 224, the paper's of 227 x 227: 596 against 666 million "
        "multiply-accumulates in the convolutions of one image.",
    ]


def largest_batch(share: float) -> int:
    """Largest batch at which DRAM can take more than ``share`` of a fully connected layer."""
    return max(batch for batch in range(1, 1000) if most_dram_share(batch) > share)

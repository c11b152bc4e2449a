"""Random small bulk-synchronous machines, products and partitions of them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from accelsim.engines.bsp.spec import BspUnit, TileFormat
from accelsim.engines.bsp.supersteps import Parts, Product
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.load import load_chip

EDU = BspUnit.model_validate(
    {
        "type": "bsp",
        "tiles": 16,
        "threads": 2,
        "load_width": "4 B",
        "vector_width": "8 B",
        "send_width": "4 B",
        "receive_width": "4 B",
        "exchange_energy": "1 pJ/B",
        "sync": 10,
        "formats": {"fp32": {"k": 2, "n": 2, "cycles_per_row": 1}},
        "functions": {"Relu": 1, "Add": 1},
    }
)


@st.composite
def units(draw: st.DrawFn) -> BspUnit:
    """A machine with one format, fp32."""

    def upto(most: int, least: int = 1) -> int:
        return draw(st.integers(least, most))

    return EDU.model_copy(
        update={
            "tiles": upto(40),
            "threads": upto(6),
            "load_width": upto(20),
            "vector_width": upto(16),
            "send_width": upto(9),
            "receive_width": upto(9),
            "sync": upto(50, 0),
            "pass_overhead": upto(9, 0),
            "thread_overhead": upto(9, 0),
            "weights": draw(st.sampled_from(["loaded", "resident"])),
            "formats": {"fp32": TileFormat(k=upto(5), n=upto(5), cycles_per_row=upto(4))},
        }
    )


@st.composite
def problems(draw: st.DrawFn) -> tuple[BspUnit, Product, Parts]:
    """A machine, a product, and a partition with no more parts than there is to part."""

    def upto(most: int, least: int = 1) -> int:
        return draw(st.integers(least, most))

    unit = draw(units())
    sizes = upto(3), upto(9), upto(9), upto(9)
    product = Product(*sizes, *(upto(4) for _ in range(4)), stays=draw(st.booleans()))
    row, left, parts = unit.formats["fp32"], unit.tiles, list[int]()
    for extent, block in zip(sizes, (1, 1, row.n, row.k), strict=True):
        parts.append(upto(min(left, -(-extent // block))))
        left //= parts[-1]
    return unit, product, Parts(1, *parts)


def operands(product: Product, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A [groups, M, K] and B [groups, K, N] of small integers."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-9, 10, (product.groups, product.M, product.K))
    return a, rng.integers(-9, 10, (product.groups, product.K, product.N))


@st.composite
def chips(draw: st.DrawFn) -> Chip:
    """The IPU with other tiles, and room for any small graph on each."""
    chip = load_chip("ipu-gc200")
    (name, unit), (memory, buffer) = next(iter(chip.engines.items())), next(iter(chip.buffers.items()))
    drawn, format_rows = draw(units()), {each: draw(units()).formats["fp32"] for each in ("fp16", "fp32")}
    kept = {"formats", "functions"}
    fields = {field: getattr(drawn, field) for field in BspUnit.model_fields if field not in kept}
    fields |= {"formats": format_rows, "clock": draw(st.sampled_from([None, chip.clock / 3]))}
    tiles = fields["tiles"]
    return chip.model_copy(update={"token_delay": draw(st.integers(0, 3))}).with_core(
        engines={name: unit.model_copy(update=fields)},
        memories={memory: buffer.model_copy(update={"capacity": tiles << 20, "parts": tiles})},
    )

"""What each tile holds while a program is written: constants for good, activations while somebody needs them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from accelsim.errors import MemoryNeed, OverCapacity
from accelsim.types import Ints
from accelsim.workload.limits import limits


@dataclass
class TileMemory:
    """Bytes on each tile, int64 [tiles]: ``constants``, and by region what ``live`` activations take.

    ``room_B``: bytes of a tile for data. ``notes``: where to tell what is ignored. ``spread``: regions of activations
    whose elements lie evenly on all tiles.
    """

    tiles: int
    room_B: int
    model: str
    notes: list[str]
    constants: Ints = field(init=False)
    live: dict[int, Ints] = field(default_factory=dict)
    spread: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.constants = np.zeros(self.tiles, np.int64)

    def stay(self, shares_B: Ints) -> Ints:
        """Weights in parts, bytes each, go to the tiles that hold least so far, the largest to the emptiest; returns
        the tile of each part.
        """
        emptiest = np.argsort(self.constants, kind="stable")[: len(shares_B)]
        tiles = np.empty_like(emptiest)
        tiles[np.argsort(-shares_B, kind="stable")] = emptiest
        self.constants[tiles] += shares_B
        return tiles

    def stay_spread(self, size_B: int) -> None:
        """A constant that lies evenly on all tiles."""
        self.constants += -(-size_B // self.tiles)

    def put_spread(self, region: int, size_B: int) -> None:
        """An activation that lies evenly on all tiles."""
        self.live[region] = np.full(self.tiles, -(-size_B // self.tiles), np.int64)
        self.spread.add(region)

    def put_parts(self, region: int, tiles: Ints, sizes_B: Ints) -> None:
        """An activation in parts, one on each of ``tiles``."""
        self.live[region] = np.zeros(self.tiles, np.int64)
        self.live[region][tiles] = sizes_B

    def keep(self, regions: Iterable[int]) -> None:
        """Only these activations are still needed."""
        kept = set(regions)
        self.live = {region: sizes_B for region, sizes_B in self.live.items() if region in kept}

    def check(self, layer: str, working: Ints, step_B: Ints | int) -> None:
        """OverCapacity unless every tile has room for what a step brings to the ``working`` tiles, ``step_B`` each."""
        activations = sum(self.live.values(), np.zeros(self.tiles, np.int64))
        activations[working] += step_B
        fullest = int(np.argmax(self.constants + activations))
        self.fit(layer, int(self.constants[fullest]), int(activations[fullest]))

    def fit(self, layer: str, constants_B: int, activations_B: int) -> None:
        """OverCapacity for a tile that has no room for so much, or, where that is to be ignored, a note."""
        need = MemoryNeed("fullest tile", constants_B, 0, activations_B, layer, self.room_B)
        if need.fits:
            return
        if not limits().ignore_capacity:
            raise OverCapacity(self.model, [need])
        self.notes.append(f"capacity ignored: {need}")

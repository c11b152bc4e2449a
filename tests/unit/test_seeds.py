"""Seeds: one home, and no two uses of one seed draw the same."""

from __future__ import annotations

import re
from pathlib import Path

import accelsim
from accelsim.seeds import generator, of_inputs, of_ranges

HERE = Path(accelsim.__file__).parent
DRAWN = re.compile(
    r"default_rng|RandomState|np\.random\.(seed|rand|normal|uniform|integers)|^import random|random\.Random"
)


def test_generators_are_made_in_one_place() -> None:
    elsewhere = [path for path in HERE.rglob("*.py") if DRAWN.search(path.read_text(encoding="utf-8"))]
    assert [path.relative_to(HERE).as_posix() for path in elsewhere] == ["seeds.py"]


def test_uses_of_one_seed_draw_apart() -> None:
    seeds = [of_inputs(3), of_inputs(3, core=1), of_ranges(3)]
    drawn = {tuple(generator(seed).integers(0, 1 << 30, 4)) for seed in seeds}
    assert len(drawn) == 3


def test_the_same_seed_draws_the_same() -> None:
    assert generator(5, 2).random() == generator(5, 2).random() != generator(5, 3).random()
    assert generator(5).random() == generator(5).random()

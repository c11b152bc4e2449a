"""Names that were meant."""

from __future__ import annotations

import pytest

from accelsim.errors import LONGEST_NAME, begun, count_of, nearest

CHIPS = ("mi100", "v100-pcie", "v100-sxm2-16", "a100-40-sxm")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("v100", "v100-pcie"),  # and not mi100, which has more letters in common
        ("V100", "v100-pcie"),
        ("v100-sxm", "v100-sxm2-16"),
        ("mi10", "mi100"),
        ("mi101", "mi100"),
        ("a", ""),
        ("", ""),
        ("quantum", ""),
        ("v" * (LONGEST_NAME + 1), ""),
    ],
)
def test_the_nearest_name(name: str, near: str) -> None:
    assert nearest(name, CHIPS) == near


def test_what_a_name_begins() -> None:
    assert begun("fp8_e4m3", ("fp64", "fp8_e4m3fnuz", "fp8_e4m3fn")) == "fp8_e4m3fn"
    assert begun("fp16", ("fp64", "fp32")) == begun("", ("fp64",)) == ""


def test_nouns_and_verbs_agree_with_their_number() -> None:
    assert (count_of(1, "layer", "is"), count_of(1000, "layer", "is")) == ("1 layer is", "1,000 layers are")
    assert (count_of(1, "node", "runs", 3), count_of(0, "node", "runs", 1)) == ("1 of 3 nodes runs", "0 of 1 node run")

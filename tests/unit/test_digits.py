"""Whole numbers in texts."""

from __future__ import annotations

import pytest

from accelsim.digits import whole


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 30, 10**30 - 1), ("0" * 10_000 + "5", 5), ("9" * 5000, None), ("٣", None),
     ("²", None), ("", None), ("-1", None), ("+1", None), ("1_0", None), (" 1", None), ("1.0", None)],
)  # fmt: skip
def test_a_whole_number_is_ascii_digits_however_many(text: str, number: int | None) -> None:
    assert whole(text) == number

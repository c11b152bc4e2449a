"""Whole numbers in texts that anyone may have written."""

from __future__ import annotations

MOST_DIGITS = 100
"""Digits of a whole number that is read: far more than any that is valid, so that an error can still tell it."""


def whole(text: str) -> int | None:
    """A whole number from 0 as ASCII digits; None for anything else, and for what has more than 100 digits."""
    digits = text.lstrip("0") or text[-1:]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS else None

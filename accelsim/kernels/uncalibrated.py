"""Intervals of chips that nobody has calibrated: how far off the shared defaults are on devices that had no part in them."""

from __future__ import annotations

from collections.abc import Mapping

UNCALIBRATED: Mapping[str, float] = {"product": 1.6, "function": 1.6, "convolution": 2.5, "attention": 2.0}
"""Kind of kernel -> factor of its interval."""

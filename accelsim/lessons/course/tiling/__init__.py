"""Tiling: pieces that fit on the chip, and what their shape costs."""

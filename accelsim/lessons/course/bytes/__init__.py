"""Costs of a byte: DRAM against arithmetic."""

"""Dataflows: which operand stays in the array."""

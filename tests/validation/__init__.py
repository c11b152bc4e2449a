"""Checks of this tool against the outside world."""

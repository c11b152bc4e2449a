"""Faults planted one at a time, and which of them the tests find: ``python -m tests.mutants --help``."""

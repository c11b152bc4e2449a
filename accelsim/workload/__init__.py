"""Computations: graphs, ops, and where they come from."""

"""Passes over the graph, and what they share."""

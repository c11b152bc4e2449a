"""Continuous batching: a scheduler that plans each step, and what it does when memory is full."""

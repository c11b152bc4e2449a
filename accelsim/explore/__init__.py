"""Exploration: many runs of one question, and which choice is best."""

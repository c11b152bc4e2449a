"""Collectives as message graphs that carry real data; closed forms, and the choice between algorithms."""

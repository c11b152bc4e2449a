"""Algorithms of collectives: a ``Collective`` in a module of this package is found by its being here."""

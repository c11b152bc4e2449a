"""Shapes of fabrics: how the ends of one are wired; and how the topology of a whole cluster comes of them."""

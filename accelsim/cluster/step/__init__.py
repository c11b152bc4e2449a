"""A training step of a parallel plan on a cluster: what devices do, time, memory, energy, and the search for plans."""

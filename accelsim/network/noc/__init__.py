"""Networks on a chip: topologies and routes, loads and bounds, latency by formula and by simulation, energy."""

"""From a run to joules, seconds and rooflines."""

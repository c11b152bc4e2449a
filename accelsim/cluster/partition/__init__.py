"""Which layers go to which stage: GPipe's balanced blocks, PipeDream's optimiser."""

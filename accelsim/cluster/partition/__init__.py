"""Assignment of layers to stages: GPipe's balanced blocks, PipeDream's optimiser."""

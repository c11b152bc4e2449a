"""Graph to program: what the hardware is told to do."""

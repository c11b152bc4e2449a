"""Eight bits: a threshold for a range, quantisation with a gradient."""

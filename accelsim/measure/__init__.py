"""Measurements of kernels and whole networks on a GPU of this machine: timed and metered with PyTorch."""

"""What a GPU of this machine takes for kernels and whole networks: timed and metered with PyTorch."""

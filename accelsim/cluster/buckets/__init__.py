"""Data parallelism with gradients fused into buckets, sent while the backward goes on."""

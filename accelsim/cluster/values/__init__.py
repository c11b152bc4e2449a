"""What a plan computes: every device of it, step by step, with collectives that carry the data."""

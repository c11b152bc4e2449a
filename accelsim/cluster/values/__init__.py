"""Values under a plan: every device of it, step by step, with collectives that carry the data."""

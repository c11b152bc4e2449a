"""Many runs: points of a space, a store that keeps what they gave, workers, fronts and effects."""

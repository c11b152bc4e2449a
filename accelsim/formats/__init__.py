"""Number formats as values: how they round, saturate and scale."""

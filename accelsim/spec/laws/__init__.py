"""Numbers of a spec that must agree."""

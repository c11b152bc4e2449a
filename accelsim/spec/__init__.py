"""Hardware: spec files, read into frozen models."""

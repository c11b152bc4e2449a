"""What the hardware is: spec files, read into frozen models."""

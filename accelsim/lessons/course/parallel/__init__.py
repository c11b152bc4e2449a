"""Many devices: pipelines with their bubbles, and a ring that adds up."""

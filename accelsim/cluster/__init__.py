"""Many devices on a network: collectives, pipelines, plans, what they compute and what they cost."""

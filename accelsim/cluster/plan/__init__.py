"""A parallel plan and the passes that carry it out: sharding, stages, checks of placement and legality."""

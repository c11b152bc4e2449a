"""Processors: operators that run one after the other, each for a time of its own. The host of a chip is one."""

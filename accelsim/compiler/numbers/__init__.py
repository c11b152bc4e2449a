"""Number formats of a graph on a chip: formats, ranges, scales, codes."""

"""Studies that ship as sweeps: files of points, what came of them, and what prices make of it."""

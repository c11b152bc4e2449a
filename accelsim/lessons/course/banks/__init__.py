"""Banks and rows: which address lies where, and what that does to the bandwidth of a DRAM."""

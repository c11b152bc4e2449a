"""Links between chips and memories, what shares them, and networks on a chip."""

"""What a byte costs: DRAM against arithmetic."""

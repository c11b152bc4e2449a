"""On-chip SRAM: energy, leakage, time and area of a memory, register files, and bank conflicts of access patterns."""

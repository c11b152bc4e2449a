"""Mappings of loop nests onto memory levels and engine dimensions: laws, counts, search."""

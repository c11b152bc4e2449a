"""A systolic array, edge by edge."""

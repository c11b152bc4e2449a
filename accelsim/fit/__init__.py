"""Fitting: constants of chips to measurements, with what it leaves, and coefficients of smooth models to points."""

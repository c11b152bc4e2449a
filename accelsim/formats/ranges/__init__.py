"""Ranges of codes: from histograms and samples to the limits of a format."""

"""Engine types, each in one folder."""

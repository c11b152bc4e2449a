"""Vector units: lanes side by side, one command at a time."""

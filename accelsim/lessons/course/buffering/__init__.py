"""Double buffering: loads behind the work."""

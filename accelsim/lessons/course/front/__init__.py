"""A front of designs: what no other design beats, the knee among them, and what a limit costs."""

"""Needs of parallel training and inference in closed form: bytes of memory, bytes moved, floating-point operations."""

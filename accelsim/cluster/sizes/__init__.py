"""What parallel training and inference need in closed form: bytes of memory, bytes moved, floating-point operations."""

"""The queue: how long requests wait for a busy chip, and why the slowest wait so much longer."""

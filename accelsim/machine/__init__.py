"""Program to run: what happens, event by event."""

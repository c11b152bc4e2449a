"""Unsupported operator: what goes to the host, and what that costs."""

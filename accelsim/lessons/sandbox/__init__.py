"""A student's file in a process of its own: what it may touch, how it is asked, what comes back."""

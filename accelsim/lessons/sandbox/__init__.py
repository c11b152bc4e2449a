"""A student's file in a process of its own: how it is started, asked, and what comes back."""

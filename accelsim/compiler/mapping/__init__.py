"""The search for a mapping: candidates, what fits, closed forms, files."""

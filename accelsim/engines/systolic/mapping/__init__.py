"""The search for a mapping on a systolic array: candidates, what fits, closed forms."""

"""The test gate: which tests run when, what they cost, and the budget that they must keep."""

"""Value policies: what commands do to the contents of the simulated memories."""

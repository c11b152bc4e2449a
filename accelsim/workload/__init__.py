"""What must be computed: graphs, ops, and where they come from."""

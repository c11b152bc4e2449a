"""Mixed precision: how a Tensor Core adds, and how a loss is scaled."""

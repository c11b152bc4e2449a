"""2:4 sparsity: two of every four weights."""

"""From a graph to commands, step by step."""

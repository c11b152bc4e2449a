"""A bulk-synchronous machine: tiles with a memory each, which compute, meet and exchange in turn (Graphcore IPU)."""

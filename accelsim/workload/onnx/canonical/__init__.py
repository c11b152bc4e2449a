"""Canonical forms of ONNX nodes, one file for each family."""

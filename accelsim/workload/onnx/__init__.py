"""ONNX: files in and out, canonical forms, and the outside implementations that graphs are compared with."""

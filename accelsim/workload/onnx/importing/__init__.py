"""From an ONNX file to a graph: read, checked, inlined, shaped, constants computed."""

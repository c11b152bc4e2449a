"""From a graph to an ONNX file, of real numbers or of codes."""

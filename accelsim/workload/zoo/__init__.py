"""Models that come with the program: real networks from the ``onnx`` package and parametrised builders."""

from accelsim.workload.zoo.entry import ZOO, Entry

__all__ = ["ZOO", "Entry"]

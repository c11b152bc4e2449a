"""The light models of the installed ``onnx`` package: real networks whose weights are constants of one value.

Graph and shapes are those of the ONNX model zoo's files; the stored weights are not learnt, so values are
seeded.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from accelsim.workload.graph import Graph
from accelsim.workload.zoo.entry import Entry, Params, register

LIGHT = {
    "alexnet": ("bvlc_alexnet", "AlexNet (Krizhevsky et al. 2012)"),
    "densenet121": ("densenet121", "DenseNet-121 (Huang et al. 2017)"),
    "inception-v1": ("inception_v1", "GoogLeNet (Szegedy et al. 2015)"),
    "inception-v2": ("inception_v2", "Inception v2, with batch normalisation (Ioffe and Szegedy 2015)"),
    "resnet50": ("resnet50", "ResNet-50 (He et al. 2016)"),
    "shufflenet": ("shufflenet", "ShuffleNet (Zhang et al. 2018)"),
    "squeezenet": ("squeezenet", "SqueezeNet (Iandola et al. 2016)"),
    "vgg19": ("vgg19", "VGG-19 (Simonyan and Zisserman 2015)"),
    "zfnet512": ("zfnet512", "ZFNet (Zeiler and Fergus 2014)"),
}
"""Name in the zoo -> (file name behind 'light_', description)."""


def light_path(name: str) -> Path:
    """Where the file of a light model is, in the installed ``onnx`` package."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return folder / f"light_{LIGHT[name][0]}.onnx"


def _build(name: str, batch: int, params: Params) -> Graph:
    from accelsim.workload.onnx.importing.importer import import_onnx

    graph = import_onnx(light_path(name), batch=batch)
    graph.name = name
    return graph


for _name, (_file, _description) in LIGHT.items():
    register(Entry(_name, "light ONNX model", _description, partial(_build, _name)))

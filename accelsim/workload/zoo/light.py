"""The light models of the installed ``onnx`` package: real networks whose weights are constants of one value.

Graph and shapes are those of the ONNX model zoo's files; the stored weights are not learnt, so values are seeded.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path

from accelsim import usercache
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
"""Name in the zoo -> (file name after 'light_', description)."""


_KNOWN = usercache.Table("graphs", 32)
"""Graphs by file and batch: to import ``onnx`` takes longer than all the rest."""


def light_path(name: str) -> Path:
    """Return where the file of a light model is, in the installed ``onnx`` package."""
    found = find_spec("onnx")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("onnx is not installed", name="onnx")
    folder = Path(found.origin).parent / "backend" / "test" / "data" / "light"
    return folder / f"light_{LIGHT[name][0]}.onnx"


def _build(name: str, batch: int, params: Params) -> Graph:
    path = light_path(name)
    state = path.stat()
    key = usercache.digest([str(path), str(state.st_size), str(state.st_mtime_ns), str(batch)])
    kept = usercache.unpacked(_KNOWN.get(key), Graph) if usercache.folder() else None
    if kept is not None:
        return kept
    from accelsim.workload.onnx.importing.importer import import_onnx

    graph = import_onnx(path, batch=batch)
    graph.name = name
    _KNOWN.put(key, usercache.packed(graph))
    return graph


for _name, (_file, _description) in LIGHT.items():
    register(Entry(_name, "light ONNX model", _description, partial(_build, _name)))

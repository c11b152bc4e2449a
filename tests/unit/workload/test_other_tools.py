"""Files of other tools given as a model: each is told by what is in it, with a page that exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from accelsim.errors import ModelError
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.other_tools import KINDS

ROOT = Path(__file__).parents[3]
FILES = {
    "a Git LFS pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
    "a PyTorch or another zip file": "PK\x03\x04archive/data.pkl",
    "a Hugging Face config.json": json.dumps({"model_type": "llama", "hidden_size": 64}),
    "an application of Calculon": '{"name": "gpt", "seq_size": 2048, "hidden": 12288, "attn_heads": 96,"num_blocks":96}',
    "an execution of Calculon": '{\n  "num_procs": 8,\n  "tensor_par": 8,\n  "pipeline_par": 1\n}',
    "a system of Calculon": '{"matrix": {}, "vector": {}, "mem1": {"GiB": 80}, "networks": []}',
    "a network of ASTRA-sim": "topology: [ Ring, Switch ]\nnpus_count: [ 8, 4 ]\nbandwidth: [ 50.0, 25.0 ]\n",
    "a system of ASTRA-sim": '{"scheduling-policy": "LIFO", "all-reduce-implementation": ["ring"]}',
    "a workload of ZigZag": "- id: 0\n  operator_type: conv\n  equation: O+=I*W\n  loop_dims: [B, K]\n",
    "an accelerator of ZigZag": "name: tpu\nmemories:\n  rf: {size: 8}\noperational_array:\n  unit_energy: 0.04\n",
    "a mapping of ZigZag": "- name: default\n  spatial_mapping:\n    D1:\n      - K, 32\n",
    "a system of Stream": "name: soc\ncores:\n  0: tpu.yaml\noffchip_core_id: 1\n",
    "a problem of Timeloop": "problem:\n  shape:\n    name: conv\n    data-spaces: []\n",
    "an architecture of Timeloop": "architecture:\n  version: 0.4\n  nodes:\n  - !Container\n    name: system\n",
    "a mapping of Timeloop": "mapping:\n  - target: DRAM\n    type: temporal\n    factors: N=1 M=4\n",
    "a configuration of SCALE-Sim": "[architecture_presets]\nArrayHeight:    32\nArrayWidth:     32\n",
    "a device of LLMCompass": '{"name": "A100", "device": {"compute_chiplet": {"core_count": 108}}}',
    "a chip of accelsim": "name: mine\nclock: 1 GHz\ncores:\n  core: {}\nmemories:\n  dram: {}\n",
    "a text": "Dear accelsim, please run ResNet-50.\n",
}


def told(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(path)
    (problem,) = caught.value.problems
    return str(problem)


@pytest.mark.parametrize("what", FILES)
def test_what_a_file_looks_like(what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.any"
    path.write_text(FILES[what])
    assert told(path).startswith(f"{path}: this is not a model; it looks like {what}")


def test_every_kind_is_shown_above_and_its_page_exists() -> None:
    assert len(FILES) == len(KINDS) + 1
    assert all(any(kind.what.startswith(what) for what in FILES) for kind in KINDS)
    for kind in KINDS:
        page, _, anchor = kind.page.partition("#")
        headings = re.findall(r"^#+ (.*)", (ROOT / page).read_text(), re.MULTILINE)
        assert anchor in ["", *(heading.lower().replace(" ", "-") for heading in headings)], kind


def test_bytes_of_no_known_kind_are_left_to_the_reader_of_models(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x07\x12text")
    assert "not an ONNX model" in told(path)

"""Files of other tools that are given as a model: what each looks like, and the page that says how to do its job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from accelsim.errors import ModelError

MOST_B = 1 << 20
"""Bytes of a file that are looked at."""
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""Bytes that no text holds; every ONNX file begins with one of them."""
KEY = re.compile(r'^[\s{\[,-]*"?([\w.-]+)"?\s*[:=]|[{,]\s*"([\w.-]+)"\s*:', re.MULTILINE)
"""A key of YAML, JSON or an INI file, wherever it stands."""
COMING, OWN = "docs/coming-from.md", "docs/your-own-model.md"


@dataclass(frozen=True)
class Kind:
    """One kind of file: what it is, the page about it, and how it is recognised: by its first bytes or keys.

    ``keys``: alternatives, each a text of keys with blanks between.
    """

    what: str
    page: str
    keys: tuple[str, ...] = ()
    begins: bytes = b""


KINDS = (
    Kind("a Git LFS pointer, which stands for a file that was not downloaded ('git lfs pull')", OWN,
         begins=b"version https://git-lfs"),
    Kind("a PyTorch or another zip file", f"{OWN}#from-pytorch", begins=b"PK\x03\x04"),
    Kind("a Hugging Face config.json", f"{COMING}#hugging-face", ("model_type", "architectures transformers_version")),
    Kind("an application of Calculon", f"{COMING}#calculon", ("attn_heads num_blocks",)),
    Kind("an execution of Calculon", f"{COMING}#calculon", ("tensor_par pipeline_par",)),
    Kind("a system of Calculon", f"{COMING}#calculon", ("mem1 networks",)),
    Kind("a network of ASTRA-sim", f"{COMING}#astra-sim", ("npus_count", "topology-name", "topologies-per-dim")),
    Kind("a system of ASTRA-sim", f"{COMING}#astra-sim", ("scheduling-policy", "all-reduce-implementation")),
    Kind("a workload of ZigZag", f"{COMING}#zigzag", ("operator_type loop_dims", "operator_type equation")),
    Kind("an accelerator of ZigZag", f"{COMING}#zigzag", ("operational_array",)),
    Kind("a mapping of ZigZag", f"{COMING}#zigzag", ("spatial_mapping", "memory_operand_links")),
    Kind("a system of Stream", f"{COMING}#zigzag", ("offchip_core_id", "core_connectivity")),
    Kind("a problem of Timeloop", f"{COMING}#timeloop-and-accelergy",
         ("problem data-spaces", "problem data_spaces", "problem instance", "problem shape")),
    Kind("an architecture of Timeloop", f"{COMING}#timeloop-and-accelergy",
         ("architecture subtree", "architecture nodes", "compound_components", "ERT")),
    Kind("a mapping of Timeloop", f"{COMING}#timeloop-and-accelergy",
         ("mapping target", "mapspace", "mapspace_constraints", "architecture_constraints", "mapper algorithm")),
    Kind("a configuration of SCALE-Sim", f"{COMING}#scale-sim", ("ArrayHeight ArrayWidth",)),
    Kind("a device of LLMCompass", f"{COMING}#llmcompass", ("compute_chiplet",)),
    Kind("a chip of accelsim, which is given to --on", "docs/add-a-chip.md", ("cores memories", "clock memories")),
)  # fmt: skip
"""Kinds of files, the first that fits counts."""


def refuse_other_tools(path: Path) -> None:
    """Raise ModelError where a file is a text or of a known kind, with what it looks like; nothing for all others."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_B)
    except OSError:
        return  # reading it as a model says why
    kind = next((each for each in KINDS if each.begins and content.startswith(each.begins)), None)
    if kind is None and (not content.strip() or CONTROL.search(content)):
        return
    text = content.decode("utf-8", "replace")
    keys = {first or second for first, second in KEY.findall(text)}
    told = (each for each in KINDS if any(keys >= set(every.split()) for every in each.keys))
    kind = kind or next(told, Kind("a text", OWN))
    expected = f"an ONNX file, a topology CSV or a name of 'accelsim models'; see {kind.page}"
    raise ModelError(f"this is not a model; it looks like {kind.what}", str(path), expected)

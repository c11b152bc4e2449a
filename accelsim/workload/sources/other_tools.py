"""Files of other tools that are given as a model: what each looks like, and the page that says how to do its job."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    expected = "an ONNX file, a topology CSV or a name of 'accelsim models'"
    if (listed := _listed(text)) and "Hugging Face" in kind.what:
        expected += f", such as {listed!r}"
    raise ModelError(f"this is not a model; it looks like {kind.what}", str(path), f"{expected}; see {kind.page}")


BASES = {"llama": "llama", "mistral": "llama", "mixtral": "moe", "gpt2": "gpt", "bert": "bert-base"}
"""``model_type`` of a configuration -> the listed model whose sizes can be set to it."""
SIZES = {
    "layers": ("num_hidden_layers", "n_layer"),
    "hidden": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads",),
    "ffn": ("intermediate_size", "n_inner"),
    "vocab": ("vocab_size",),
    "experts": ("num_local_experts",),
    "top_k": ("num_experts_per_tok",),
}
"""Parameter of such a model -> its names in configurations."""


def _listed(text: str) -> str:
    """The listed model with the sizes that a configuration of Hugging Face states, '' where there is none."""
    try:
        facts: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    base = BASES.get(str(facts.get("model_type")), "") if isinstance(facts, dict) else ""
    if not base:
        return ""
    given = {name: facts[key] for name, keys in SIZES.items() for key in keys if type(facts.get(key)) is int}
    if base in ("llama", "gpt") and "heads" in given:
        given.setdefault("kv_heads", given["heads"])
    if base == "gpt" and "hidden" in given:
        given.setdefault("ffn", 4 * given["hidden"])
    return f"{base}?{','.join(f'{name}={value}' for name, value in given.items())}"

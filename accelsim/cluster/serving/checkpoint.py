"""Formats of a model's own checkpoint, part by part: narrow weights beside others in 16 bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from accelsim.cluster.step.transformer import Transformer
from accelsim.compiler.numbers.formats import resolve, short_float
from accelsim.errors import UsageError
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph

CHECKPOINT = "checkpoint"
"""Value of --dtype for the formats that a model's config.json states."""
EXPERTS, PRODUCTS = "ExpertMatMul", ("MatMul", "ExpertMatMul")
"""Operators of products with weights."""


class Method(NamedTuple):
    """A way to quantise weights: their format, whether inputs of products have it too, and the modules whose weights
    have it (of which a model may keep some as they are)."""

    weights: str
    inputs: bool
    modules: tuple[str, ...]


LAYERS = ("self_attn", "mlp")
METHODS: Mapping[str, Method] = {
    "mxfp4": Method("mxfp4", False, ("mlp.experts",)),
    "awq": Method("int", False, LAYERS),
    "gptq": Method("int", False, LAYERS),
    "fp8": Method("fp8_e4m3fn", True, LAYERS),
}
"""``quant_method`` of a config.json -> what it does (Hugging Face transformers, quantizers/). Embedding and output
projection keep 16 bits; so does the router where ``modules_to_not_convert`` names it, and always in MXFP4."""


class Mixed(NamedTuple):
    """Formats of a model on a chip: ``base``, of what is not quantised, and ``narrow``, of what is."""

    base: str
    narrow: str
    weights: str
    modules: tuple[str, ...]
    kept: tuple[str, ...]

    def narrow_weights(self, graph: Graph) -> set[str]:
        """Return the constants of a piece that have the narrow format."""
        return {node.inputs[1] for node in graph.nodes if self._is_narrow(graph, node.inputs[1:2], node.op)}

    def _is_narrow(self, graph: Graph, weights: Iterable[str], op: str) -> bool:
        if op not in PRODUCTS or not all(graph.tensors[name].is_constant for name in weights):
            return False
        module = next((module_of(name, op) for name in weights), "")
        return any(_within(module, each) for each in self.modules) and not any(_within(module, e) for e in self.kept)

    def request(self, graph: Graph) -> tuple[str, dict[str, str]]:
        """Return the format of the products of a piece, and of the nodes that have another one."""
        narrow = self.narrow_weights(graph)
        nodes = [node for node in graph.nodes if node.op in PRODUCTS and graph.tensors[node.inputs[1]].is_constant]
        own = {node.name: self.narrow for node in nodes if node.inputs[1] in narrow}
        return (self.narrow, {}) if own and len(own) == len(nodes) else (self.base, own)


def module_of(weight: str, op: str) -> str:
    """Return the module of a weight as Hugging Face calls it, within its layer."""
    part = weight.removesuffix(".weight").partition(".")[2]
    if op == EXPERTS:
        return f"mlp.experts.{part}_proj"
    if part == "router":
        return "mlp.router"
    if part.startswith("shared"):
        return f"mlp.shared_experts.{part.rpartition('.')[2]}_proj"
    if part in ("gate", "up", "down"):
        return f"mlp.{part}_proj"
    return f"self_attn.{part}_proj" if part else "lm_head"


def _within(module: str, pattern: str) -> bool:
    """Return whether a module is, or is part of, what a pattern names ('mlp.gate' is a router)."""
    alias = "mlp.router" if pattern in ("mlp.gate", "gate", "router") else pattern
    return f".{module}.".find(f".{alias}.") >= 0


def mixed_of(model: Transformer, chip: Chip) -> Mixed:
    """Return the formats of a model's checkpoint on a chip. Raises UsageError for a model whose config.json states
    none, and for a chip that does not compute in them."""
    stated = model.style.quantised
    if stated is None:
        what, where = f"{model.name} states no quantised weights", "--dtype"
        raise UsageError(what, where, "a model with a quantization_config, such as gpt-oss-20b; or a number format")
    method, base = METHODS[stated.method], short_float(chip)
    weights = f"{method.weights}{stated.bits}" if method.weights == "int" else method.weights
    narrow = weights if method.inputs else f"{weights}x{base}"
    if not base:
        raise UsageError(f"{chip.name} has no float of 16 bits", "--dtype", "a GPU with a serving stack's kernels")
    resolve(chip, narrow)
    return Mixed(base, narrow, weights, method.modules, stated.kept)

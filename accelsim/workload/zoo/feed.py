"""Feed-forward part of a block: a gated or plain one, or a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable

from accelsim.workload.zoo.build import Builder
from accelsim.workload.zoo.sizes import Sizes
from accelsim.workload.zoo.style import Experts, Style

Gate = Callable[[Builder, str, str, str], str]
"""Writes the product of a gate's activation with the other factor: (builder, gate, up, name) -> result."""


def _silu(b: Builder, gate: str, up: str, name: str) -> str:
    return b.op("Mul", [up, b.op("Silu", [gate], f"{name}.silu")], f"{name}.gated")


def _gelu(b: Builder, gate: str, up: str, name: str) -> str:
    return b.op("Mul", [up, b.op("Gelu", [gate], f"{name}.gelu", approximate="tanh")], f"{name}.gated")


def _clamped(b: Builder, gate: str, up: str, name: str) -> str:
    """(up + 1) gate sigmoid(1.702 gate), both factors clamped to 7 (OpenAI, gpt-oss model card)."""
    gate = b.op("Clip", [gate], f"{name}.gate.clamped", min=None, max=7.0)
    up = b.op("Clip", [up], f"{name}.up.clamped", min=-7.0, max=7.0)
    steep = b.op("Mul", [gate, b.constant(f"{name}.alpha", 1.702)], f"{name}.steep")
    opened = b.op("Mul", [gate, b.op("Sigmoid", [steep], f"{name}.sigmoid")], f"{name}.open")
    return b.op("Mul", [b.op("Add", [up, b.constant(f"{name}.one", 1.0)], f"{name}.above"), opened], f"{name}.gated")


GATES: dict[str, Gate] = {"silu": _silu, "gelu": _gelu, "clamped": _clamped}
"""Activation of a gated feed-forward part, by ``Style.activation``."""


class Feed:
    """Writer of the feed-forward parts of one call."""

    def __init__(self, b: Builder, sizes: Sizes, style: Style) -> None:
        self.b, self.sizes, self.style = b, sizes, style

    def dense(self, x: str, name: str) -> str:
        """Write the part without experts."""
        b, sizes = self.b, self.sizes
        if self.style.gated:
            return self._gated(x, sizes.ffn, name)
        inner = b.op("Gelu", [self._project(x, sizes.ffn, f"{name}.ff1")], f"{name}.gelu", approximate="none")
        return self._project(inner, sizes.hidden, f"{name}.ff2")

    def mixture(self, x: str, name: str) -> str:
        """Write the ``top_k`` experts that a router chooses for each token (Shazeer et al., arXiv 1701.06538), and the
        shared ones."""
        made = self.style.experts or Experts()
        fed = self.b.reshaped(self.experts(*self.routed(x, name), name), self.b.shape(x), f"{name}.fed")
        return self.b.op("Add", [fed, self.shared(x, name)], f"{name}.all") if made.shared else fed

    def routed(self, x: str, name: str) -> tuple[str, str, str]:
        """Write the rows of all tokens, and the shares and the numbers of the experts of each."""
        b, sizes, made = self.b, self.sizes, self.style.experts or Experts()
        rows = b.reshaped(x, (sizes.batch * sizes.seq, sizes.hidden), f"{name}.tokens")
        inputs = [b.project(rows, sizes.experts, f"{name}.router", bias=made.bias)]
        inputs += [b.weight(f"{name}.correction", (sizes.experts,))] if made.corrected else []
        outputs = [f"{name}.gates", f"{name}.experts"]
        gates, chosen = b.ops("TopKGating", inputs, outputs, f"{name}.gating", k=sizes.top_k, **made.gating)
        return rows, gates, chosen

    def experts(self, rows: str, gates: str, chosen: str, name: str) -> str:
        """Write what the experts of each token make of it, times their shares, added up: [tokens, hidden]."""
        b, sizes = self.b, self.sizes
        tokens, k, hidden = sizes.batch * sizes.seq, sizes.top_k, sizes.hidden
        gate = self._by_expert(rows, chosen, f"{name}.gate", sizes.expert_ffn)
        up = self._by_expert(rows, chosen, f"{name}.up", sizes.expert_ffn)
        y = self._by_expert(GATES[self.style.activation](b, gate, up, name), chosen, f"{name}.down", hidden)
        y = b.reshaped(self._cut(y, f"{name}.chosen"), (tokens, k, hidden), f"{name}.by_choice")
        weighed = b.op("Mul", [y, b.reshaped(gates, (tokens, k, 1), f"{name}.shares")], f"{name}.weighed")
        return b.op("ReduceSum", [weighed], f"{name}.mixture", axes=[1], keepdims=0)

    def shared(self, x: str, name: str) -> str:
        """Write the experts that take all tokens."""
        b, made = self.b, self.style.experts or Experts()
        width = self.sizes.part(made.shared)
        y = self._gated(x, width, f"{name}.shared")
        if not made.shared_gate:
            return y
        gate = b.op("Sigmoid", [b.project(x, 1, f"{name}.shared.share", bias=False)], f"{name}.shared.sigmoid")
        return b.op("Mul", [y, gate], f"{name}.shared.weighed")

    def _gated(self, x: str, width: int, name: str) -> str:
        gate = self._project(x, width, f"{name}.gate")
        up = self._project(x, width, f"{name}.up")
        return self._project(GATES[self.style.activation](self.b, gate, up, name), self.sizes.hidden, f"{name}.down")

    def _project(self, x: str, features: int, name: str) -> str:
        return self.b.project(x, features, name, bias="ffn" in self.sizes.biased)

    def _by_expert(self, x: str, chosen: str, name: str, features: int) -> str:
        """Rows times the weights of their experts, with a bias of each expert where the model has them."""
        b = self.b
        weight = b.weight(f"{name}.weight", (self.sizes.experts, b.shape(x)[1], features))
        loads = {name: int(value) for name in ("reached", "full") if (value := getattr(self.sizes, name))}
        y = b.op("ExpertMatMul", [x, weight, chosen], name, a_zero_point=0, b_zero_point=0, **loads)
        if self.style.experts is None or not self.style.experts.bias:
            return y
        table = b.weight(f"{name}.bias", (self.sizes.experts, features))
        flat = b.reshaped(chosen, (b.graph.tensors[chosen].elements,), f"{name}.places")
        own = b.op("Gather", [table, flat], f"{name}.biases", axis=0)
        return b.op("Add", [self._cut(y, f"{name}.rows"), own], f"{name}.biased")

    def _cut(self, y: str, name: str) -> str:
        """Rows of experts without those that pad them."""
        choices = self.sizes.batch * self.sizes.seq * self.sizes.top_k
        if self.b.shape(y)[0] == choices:
            return y
        return self.b.op("Slice", [y], name, starts=[0], ends=[choices], axes=[0], steps=[1])

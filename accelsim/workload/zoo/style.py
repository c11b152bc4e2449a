"""Description of a decoder as data: what families of language models do differently, beside their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Rope:
    """Rotary positions (Su et al., arXiv 2104.09864) of base ``theta``. ``part``: share of a head that is turned, its
    first elements. ``stretch``: rule for longer contexts with its numbers, see ``rotary.STRETCHES``; '': none."""

    theta: float = 10000.0
    part: float = 1.0
    stretch: str = ""
    numbers: tuple[tuple[str, float | tuple[float, ...]], ...] = ()


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): elements of the latent of queries (0: none) and of
    keys and values, and of a head: keys without and with positions, values."""

    queries: int
    keys: int
    plain: int
    turned: int
    values: int


@dataclass(frozen=True)
class Experts:
    """A mixture of experts. ``score``: 'chosen', a softmax over the chosen experts; 'softmax' or 'sigmoid' over all,
    ``normalise``: then divided by the sum over the chosen ones; ``scale``: of the shares. ``corrected``: a learnt term
    is added for the choice alone. ``groups`` of experts, of which ``top_groups`` are looked at: those with the largest
    expert, or the largest two in sum (``pair``). ``shared``: inner width of the experts that take all tokens,
    ``shared_gate``: times a gate. ``dense``: first layers without experts. ``bias``: of router and experts."""

    score: str = "chosen"
    normalise: bool = False
    scale: float = 1.0
    corrected: bool = False
    groups: int = 1
    top_groups: int = 1
    pair: bool = False
    shared: int = 0
    shared_gate: bool = False
    dense: int = 0
    bias: bool = False

    @property
    def gating(self) -> dict[str, object]:
        """Attributes of ``TopKGating`` that differ from its own."""
        named = {name: getattr(self, name) for name in ("score", "normalise", "scale", "groups", "top_groups", "pair")}
        return {name: value for name, value in named.items() if value != getattr(Experts, name)}


class Quantised(NamedTuple):
    """Quantised weights of a checkpoint: the method, the bits of a weight (0: as the method has it), and the modules
    that keep 16 bits, within their layers."""

    method: str
    bits: int = 0
    kept: tuple[str, ...] = ()


class Layer(NamedTuple):
    """Kind of a layer: tokens that attention sees (0: all before), whether it has experts."""

    window: int = 0
    sparse: bool = False


ALIKE = Layer()
"""The layers of a decoder whose layers are all alike."""


@dataclass(frozen=True)
class Style:
    """Differences between families of decoders.

    ``gated``: SwiGLU (Shazeer, arXiv 2002.05202), RMSNorm (Zhang and Sennrich, arXiv 1910.07467) and rotary positions;
    otherwise GELU, LayerNorm and learnt positions, ``context`` of them. ``tied``: the embedding is the output
    projection too. ``epsilon`` of the normalisation. ``dropout``: it was trained with it (inference has none).

    ``activation`` of the gate, see ``feed.GATES``. ``biased``: projections with biases, 'qkv', 'out', 'ffn'.
    ``qk_norm``: queries and keys are normalised by head. ``post_norms``: results of both parts of a block are
    normalised too. ``scaled``: the embedding times the root of its width. ``score_scale``: factor of scores (0: one
    over the root of the elements of a head). ``score_cap``, ``logit_cap``: cap tanh(x / cap) (0: none). ``sinks``: a
    learnt score of each head that takes part in the softmax. ``windows``: tokens that the layers see, again and again
    in this order (0: all); ``local``: positions of the layers with a window, where they differ. ``quantised``: weights
    of the published checkpoint.
    """

    gated: bool = True
    rope: Rope = Rope()
    context: int = 0
    tied: bool = False
    epsilon: float = 1e-5
    dropout: bool = False
    activation: str = "silu"
    biased: tuple[str, ...] = ()
    qk_norm: bool = False
    post_norms: bool = False
    scaled: bool = False
    score_scale: float = 0.0
    score_cap: float = 0.0
    logit_cap: float = 0.0
    sinks: bool = False
    windows: tuple[int, ...] = (0,)
    local: Rope | None = None
    latent: Latent | None = None
    experts: Experts | None = None
    quantised: Quantised | None = None

    def layer(self, index: int) -> Layer:
        """Return the kind of a layer."""
        sparse = self.experts is not None and index >= self.experts.dense
        return Layer(self.windows[index % len(self.windows)], sparse)


PLAIN = Style()
"""The style of Llama 2."""

"""Closed forms of the memory and messages of training and serving a transformer."""

from __future__ import annotations

from fractions import Fraction

from tests.helpers.closed_sizes import Exact, Recompute, Transformer, checked_split, layer_activation_B, whole


def first_stage_activation_B(
    model: Transformer,
    microbatch: int = 1,
    tp: int = 1,
    pp: int = 1,
    chunks: int = 1,
    sp: bool = False,
    recompute: Recompute = "none",
) -> Exact:
    """Bytes of activations of the first stage with 1F1B: those of all L layers of one microbatch, whatever pp is.

    With interleaving times 1 + (p - 1)/(p v) (section 4.2.3). Embeddings and the loss are not in it.
    """
    checked_split(pp=pp, chunks=chunks)
    extra = 1 + Fraction(pp - 1, pp * chunks) if chunks > 1 else Fraction(1)
    return whole(extra * model.layers * layer_activation_B(model, microbatch, tp, sp, recompute))


def state_B(model: Transformer, tp: int = 1, pp: int = 1, each_B: int = 18) -> Exact:
    """Bytes of parameters, gradients and optimiser per device: 18 bytes x 12 L h^2/(t p).

    18: half weights (2), gradients in single precision (4), single weights and two moments of Adam (12); without
    embeddings.
    """
    checked_split(tp=tp, pp=pp)
    return whole(Fraction(each_B * model.block_parameters, tp * pp))


def tensor_parallel_B(model: Transformer, microbatch: int = 1, element_B: int = 2) -> int:
    """Bytes of each all-reduce of tensor parallelism: two in the forward and two in the backward of a layer.

    With sequence parallelism each is a reduce-scatter and an all-gather of as many bytes (Megatron-LM, section 3).
    """
    checked_split(microbatch=microbatch)
    return element_B * microbatch * model.seq * model.hidden


def kv_cache_B(
    layers: int, kv_heads: int, head_size: int, tokens: int, batch: int = 1, element_B: Fraction | int = 2, tp: int = 1
) -> Exact:
    """Bytes of keys and values per device: 2 x layers x kv_heads x head_size x tokens x batch x element_B / tp.

    Where there are more devices than heads of keys, each device keeps a whole head (heads are copied, not cut).
    """
    checked_split(layers=layers, kv_heads=kv_heads, head_size=head_size, tokens=tokens, batch=batch, tp=tp)
    heads = max(Fraction(kv_heads, tp), Fraction(1))
    return whole(2 * layers * heads * head_size * tokens * batch * Fraction(element_B))

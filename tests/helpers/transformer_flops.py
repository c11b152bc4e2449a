"""Floating-point operations of a training step of a transformer, and how well devices are used."""

from __future__ import annotations

from fractions import Fraction

from accelsim.errors import known
from tests.helpers.closed_sizes import RECOMPUTE, Recompute, Transformer, checked_split

_PASSES = {"none": (3, 3), "selective": (3, 4), "full": (4, 4)}
"""Recompute -> forwards' worth of the matrices of a layer, and of the attention's core: a backward is two forwards."""


def training_flops(model: Transformer, batch: int, recompute: Recompute = "none") -> int:
    """Operations of one step on ``batch`` sequences.

    72 B s L h^2 (1 + s/(6h) + V/(12Lh)) without recomputation (Megatron-LM, SC 2021, section 5.1; Korthikanti et al.,
    appendix A); 96 B s L h^2 (1 + s/(6h) + V/(16Lh)) with full recomputation; with selective recomputation one more
    forward of the attention's core, 4 B s^2 L h.
    """
    known("recompute", recompute, RECOMPUTE)
    checked_split(batch=batch)
    matrices, core = _PASSES[recompute]
    tokens, h = batch * model.seq, model.hidden
    layer = matrices * 24 * tokens * h**2 + core * 4 * tokens * model.seq * h
    return model.layers * layer + 6 * tokens * h * model.vocab


def training_s(parameters: int, tokens: int, devices: int, device_flops: float, recompute: Recompute = "full") -> float:
    """Seconds of a whole training in closed form: 8 T P / (n X) where all is computed again, else 6 T P / (n X).

    T tokens, P parameters, n devices of X operations per second that they keep up (Megatron-LM, SC 2021, equation 4;
    attention's core and the vocabulary are left out, and so is what selective recomputation adds).
    """
    known("recompute", recompute, RECOMPUTE)
    matrices, _ = _PASSES[recompute]
    return 2 * matrices * tokens * parameters / (devices * device_flops)


def layer_forward_flops(model: Transformer, batch: int) -> int:
    """24 B s h^2 + 4 B s^2 h of one layer."""
    checked_split(batch=batch)
    return 24 * batch * model.seq * model.hidden**2 + 4 * batch * model.seq**2 * model.hidden


def utilisation(flops: int, seconds: Fraction | float, devices: int, peak_flops: float) -> float:
    """The share of the devices' peak that these operations are.

    MFU (model) with the operations without recomputation, HFU (hardware) with those that are done.
    """
    return float(flops) / (float(seconds) * devices * peak_flops)


def mfu(model: Transformer, batch: int, seconds: float, devices: int, peak_flops: float) -> float:
    """Model FLOPs utilisation: recomputation is not counted as work."""
    return utilisation(training_flops(model, batch), seconds, devices, peak_flops)


def hfu(model: Transformer, batch: int, seconds: float, devices: int, peak_flops: float, recompute: Recompute) -> float:
    """Hardware FLOPs utilisation: whatever the devices do is counted."""
    return utilisation(training_flops(model, batch, recompute), seconds, devices, peak_flops)

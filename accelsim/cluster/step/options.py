"""Choices of a training step beside its plan."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.cluster.buckets import Fusion

FUSED = Fusion("ddp")
"""How gradients are joined unless something else is asked: as PyTorch's DistributedDataParallel does, at 25 MiB."""


@dataclass(frozen=True)
class Options:
    """Choices of a training step beside its plan. ``overlap``: gradients are sent while the backward pass of the last
    microbatch goes on, in buckets by ``gradients`` (copies at the bandwidth of the device's memory where it says none),
    else in one behind it; ``gradient_B``: bytes of a gradient (2, or 4 where they are added up in 32 bits);
    ``overlap_gather``: with ZeRO 1 and 2 the forward pass of the next step goes on while new weights come together;
    ``ignore_capacity``: what does not fit is told and not refused; ``open_recompute``: the plan says nothing of what is
    computed again; ``open_microbatches``: nor how many microbatches there are (``asked.Ready.fitted`` finds both)."""

    overlap: bool = True
    gradients: Fusion = FUSED
    gradient_B: int = 2
    ignore_capacity: bool = False
    open_recompute: bool = False
    overlap_gather: bool = False
    open_microbatches: bool = False

    @property
    def gradient_format(self) -> str:
        """The format of gradients as compression sees it."""
        return "fp32" if self.gradient_B == 4 else "bf16"

    def sent_B(self, parameters: int) -> int:
        """Return the bytes that the gradients of so many parameters are on the network."""
        return self.gradients.sent_B(self.gradient_B * parameters, self.gradient_format)


PLAIN = Options()
"""Nothing asked."""

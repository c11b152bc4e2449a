"""A training step as an ordinary graph: forward, loss, backward, update, with the weights as states."""

from __future__ import annotations

from accelsim.workload.training.fake import QuantConfig, Wrapped
from accelsim.workload.training.inference import fake_quantised, sparse_masks, with_weights
from accelsim.workload.training.optimisers import OPTIMISERS, SGD, Adam, Optimiser, optimiser_of
from accelsim.workload.training.precision import PRECISIONS, Precision
from accelsim.workload.training.session import Session
from accelsim.workload.training.step import TrainingGraph, training_graph

__all__ = [
    "OPTIMISERS", "PRECISIONS", "SGD", "Adam", "Optimiser", "Precision", "QuantConfig", "Session", "TrainingGraph",
    "Wrapped", "fake_quantised", "optimiser_of", "sparse_masks", "training_graph", "with_weights",
]  # fmt: skip

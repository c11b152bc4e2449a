"""Weak scaling of data parallelism as Horovod reports it, for the check ``training``.

Gradients of VGG-16 and ResNet-101 (64 samples on each GPU, FP32) are fused as Horovod did by default when the figures
were published (64 MiB; hosts run ahead of their GPUs, see ``buckets.policies``) and sent over 25 Gbit/s RoCE while
the backward pass goes on; copies into the buffer and out of it take the memory of the P100. NCCL of that time had rings
only (trees are new in the release notes of 2.4.2), whose latency grows with the GPUs.

How fast one GPU computes is not predicted here: the rates that Horovod's authors published of one GPU beside those of
16 tell it (TensorFlow of 2017 takes 1.7 times as long as the kernels here). Where in the pass each gradient is made
does come from the simulation. One figure, VGG-16 on 16 GPUs, told the share of the network that NCCL reaches
(``hwspecs/collectives/nccl2-p100-roce.yaml``); its latencies come of other machines. The other five are compared.

A layer's backward pass takes twice its forward pass. Inception V3 is no model of the tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from accelsim.cluster.buckets import MIB, Fusion, Gradient, overlap
from accelsim.cluster.collectives.software import estimates
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.memory import bandwidth_Bps
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.time import FS_PER_S
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder
from tests.validation.gpu_rows import Row
from tests.validation.step_times import step_times

SAMPLES, GPUS_OF_A_SERVER = 64, 4
ONE_GPU = {"VGG-16": 130.9, "ResNet-101": 119.4}
"""Images/s of one GPU (README.md of horovod/horovod, 2017-10)."""
PUBLISHED = (
    ("ResNet-101", 4, 14.6 / 16), ("ResNet-101", 32, 0.90), ("ResNet-101", 128, 0.90),
    ("VGG-16", 32, 0.79), ("VGG-16", 128, 0.68),
)  # fmt: skip
"""Model, servers of four GPUs, efficiency: 14.6 times one GPU on 16 (the same README), README before 2018-05 and
docs/benchmarks.rst. VGG-16 on 16 GPUs (13.7 times) was fitted to."""
THEN = Fusion("horovod-ahead", 64 * MIB)
"""Threshold of Horovod before 2020-11 (pull request 2468)."""
VGG_16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Filters and convolutions of each block (Simonyan and Zisserman, 2015, configuration D)."""


def vgg16(samples: int) -> Graph:
    """VGG-16 up to its scores."""
    b, count = Builder("vgg16"), 0
    x = b.input("x", (samples, 3, 224, 224))
    for block, (filters, convolutions) in enumerate(VGG_16):
        for _ in range(convolutions):
            x = b.op("Relu", [b.conv(x, filters, 3, f"conv{count}", pad=1)], f"relu{count}")
            count += 1
        x = b.max_pool(x, 2, f"pool{block}")
    x = b.reshaped(x, (samples, b.shape(x)[1] * b.shape(x)[2] * b.shape(x)[3]), "flat")
    for layer in range(2):
        x = b.dense(x, 4096, f"dense{layer}", relu=True)
    return b.finish(b.dense(x, 1000, "scores"))


def efficiencies() -> Iterator[Row]:
    """Published beside simulated."""
    graphs = {"VGG-16": vgg16(SAMPLES), "ResNet-101": load_model("resnet101", batch=SAMPLES)}
    passes = {name: backward(graph, ONE_GPU[name]) for name, graph in graphs.items()}
    for model, servers, published in PUBLISHED:
        name = f"{model} on {servers * GPUS_OF_A_SERVER} P100"
        yield Row(name, published, efficiency(*passes[model], fleet(servers)))


@cache
def fleet(servers: int) -> Fleet:
    """Servers of four P100."""
    return fleet_of(load_cluster(f"{servers}x-p100-roce"), Setting("fp32"))


def efficiency(step_fs: int, gradients: list[Gradient], fleet: Fleet) -> float:
    """Of weak scaling over all devices of a fleet, of which one alone takes ``step_fs``."""
    everybody = tuple(range(fleet.size))
    fusion = replace(THEN, memory_Bps=bandwidth_Bps(fleet.chips[0]))

    def cost(nbytes: int) -> int:
        """One group on its own, so that rings meet nobody else."""
        tried = estimates(fleet.topology, fleet.software, "all_reduce", nbytes, everybody)
        found = next(each for each in tried if each.algorithm == "ring")
        return round(found.time_s * FS_PER_S)

    exposed_fs = overlap(gradients, gradients[-1].ready_fs, cost, fusion).exposed_fs
    return step_fs / (step_fs + exposed_fs)


def backward(graph: Graph, images_per_s: float) -> tuple[int, list[Gradient]]:
    """Time of a step of one GPU, and when in its backward pass (the last two thirds) it has made each gradient."""
    program, own_fs = step_times(graph, fleet(1).costs(0))
    step_fs = round(SAMPLES / images_per_s * FS_PER_S)
    backward_fs, now, found = step_fs * 2 // 3, 0, []
    for step, time_fs in zip(reversed(program.steps), reversed(own_fs), strict=True):
        now += time_fs
        for tensor in program.graph.ins(step.node):
            if tensor.is_constant:
                found.append(Gradient(tensor.name, backward_fs * now // sum(own_fs), tensor.nbytes))
    return step_fs, found

"""Weak scaling of data parallelism as Horovod reports it, for the check ``training``: compared, nothing claimed.

Gradients of VGG-16 and ResNet-101 (64 samples on each GPU, FP32) are fused as Horovod did by default when the figures
were published (64 MiB, 5 ms) and sent over 25 Gbit/s RoCE while the backward pass goes on; copies into the buffer and
out of it take the memory of the P100. NCCL of that time had rings only (trees are new in the release notes of 2.4.2),
whose latency grows with the GPUs: a part of what separates 512 from 128.

A layer's backward pass takes twice its forward pass: gradients of the weights of large convolutions find no room in the
L2 cache of a P100 here. Misses: TensorFlow of 2018 computes slower than the kernels here (1,656.82 images/s of
ResNet-101 on 16 GPUs were published, about half), so that here computing hides less of VGG-16. No rate of a single GPU
was published beside the efficiencies, to which it could be fitted; half the pace for both models would be too much
(97 % and 92 % of VGG-16). Input pipelines and the negotiation of each cycle are not modelled. Inception V3 is no model
of the tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from accelsim.cluster.buckets.base import MIB, MILLISECOND_FS, Fusion, Gradient
from accelsim.cluster.buckets.overlap import overlap
from accelsim.cluster.collectives.software import estimate
from accelsim.cluster.step.costs import Costs, Setting
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.memory import bandwidth_Bps
from accelsim.cluster.step.passes import in_format, local
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.machine.simulate import simulate
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.time import FS_PER_S
from accelsim.validate.gpu_rows import Row
from accelsim.workload.graph import Graph
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model
from accelsim.workload.zoo.build import Builder

SAMPLES, GPUS_OF_A_SERVER = 64, 4
PUBLISHED = (("VGG-16", 32, 0.79), ("VGG-16", 128, 0.68), ("ResNet-101", 128, 0.90))
"""Model, servers of four GPUs, efficiency (Horovod's docs/benchmarks.rst, and its README before 2018-05)."""
THEN = Fusion("horovod", 64 * MIB, 5 * MILLISECOND_FS)
"""Defaults of Horovod before 2020-11 (pull request 2468)."""
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
    for model, servers, published in PUBLISHED:
        fleet = fleet_of(load_cluster(f"{servers}x-p100-roce"), Setting("fp32"))
        yield Row(
            f"{model} on {servers * GPUS_OF_A_SERVER} P100", published, efficiency(graphs[model], fleet)
        )


def efficiency(graph: Graph, fleet: Fleet) -> float:
    """Of weak scaling over all devices of a fleet."""
    everybody = tuple(range(fleet.size))
    forward_fs, gradients = passes(graph, fleet.costs(0))
    fusion = replace(THEN, memory_Bps=bandwidth_Bps(fleet.chips[0]))

    def cost(nbytes: int) -> int:
        """One group on its own, so that rings meet nobody else."""
        found = estimate(fleet.topology, fleet.software, "all_reduce", nbytes, everybody, "ring")
        return round(found.time_s * FS_PER_S)

    found = overlap(gradients, 2 * forward_fs, cost, fusion)
    return float(found.efficiency(3 * forward_fs))


def passes(graph: Graph, costs: Costs) -> tuple[int, list[Gradient]]:
    """Time of the forward pass, and when the backward pass has made each gradient."""
    options = Options(dtype="fp32", values="off", edges="outside", cores=1)
    with limited(ignore_capacity=True):
        run = simulate(compile(local(in_format(graph.copy(), "fp32")), costs.at_site, options), None, "off")
    ends = [0, *(end for _, end in run.step_spans)]
    own = [max(0, end - start) for start, end in pairwise(ends)]
    now, found = 0, []
    for step, time_fs in zip(reversed(run.program.steps), reversed(own), strict=True):
        now += 2 * time_fs
        for tensor in run.program.graph.ins(step.node):
            if tensor.is_constant:
                found.append(Gradient(tensor.name, now, tensor.nbytes))
    return now // 2, found

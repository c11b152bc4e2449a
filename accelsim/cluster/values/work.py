"""Costs of the stages of any network on a device: its graphs, cut by the plan, are simulated once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accelsim.cluster.plan.experts import experts_of, share_experts
from accelsim.cluster.plan.objective import Objective, objective
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.plan.shard import Sharded, shard_objective, without_collectives
from accelsim.cluster.plan.spmd import collectives
from accelsim.cluster.plan.stages import Stage, cut, piece
from accelsim.cluster.plan.update import SUM
from accelsim.cluster.step.costs import Cost, Costs, PassCosts
from accelsim.cluster.step.passes import in_format, local
from accelsim.cluster.step.tensor import Call
from accelsim.cluster.step.work import Graphs, Piece
from accelsim.workload.graph import FORMAT_BYTES, Graph
from accelsim.workload.ops import get
from accelsim.workload.zoo.build import Builder


@dataclass(frozen=True)
class GraphWork:
    """Any network as ``accelsim.cluster.step.work.Work``: the plan cuts its graph, which decides its costs.

    ``model(samples)`` gives the network with a batch of one microbatch; ``sizes``: see ``check.sizes_of``; ``experts``:
    the ranks that a plan calls tensor parallel share experts, and have samples of their own. Each piece is three graphs
    (forward, gradients of activations, gradients of weights, these added to what earlier microbatches left), compiled
    and simulated for the chip with nothing sent; what is sent is a ``Call``.
    """

    label: str
    model: Callable[[int], Graph]
    sizes: dict[str, int] = field(default_factory=dict)
    unit: str = "samples"
    experts: bool = False
    known: dict[object, Piece] = field(default_factory=dict, compare=False, repr=False)
    cuts: dict[object, tuple[Objective, Sharded]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Name for tables."""
        return self.label

    @property
    def sample_tokens(self) -> int:
        """Tokens of a sample: 0, it has none."""
        return 0

    def sample_flops(self) -> int:
        """Return two operations per multiply-accumulate of the forward and the backward pass of one sample. With
        experts, whose gradients multiply rows of others by 0, the backward pass counts as two forward passes."""
        model = self.model(1)
        experts = bool(experts_of(model))
        graph, total = model if experts else objective(model).graph, 0
        for node in graph.nodes:
            ins = [graph.tensors[name] if name else None for name in node.inputs]
            total += get(node.op).work(node, ins, graph.outs(node)).macs
        return (6 if experts else 2) * total

    def widths(self) -> dict[str, int]:
        """Return the sizes that tensor parallelism divides."""
        return self.sizes

    def depth(self) -> int:
        """Return the number of blocks that a pipeline may cut between."""
        return 1 + max(objective(self.model(1)).block.values())

    def shared_B(self, plan: Plan) -> int:
        """Return the bytes of gradients of weights that the first and the last piece share."""
        made, sharded = self._made(plan, 1)
        return sum(sharded.graph.tensors[copies[0]].nbytes for copies in made.shared.values())

    def piece(self, index: int, plan: Plan, samples: int, costs: Costs) -> Piece:
        """See ``Work``."""
        key = (index, plan.stages, plan.tp, plan.sp, plan.recompute, samples, costs)
        if key not in self.known:
            self.known[key] = self._piece(index, plan, samples, costs)
        return self.known[key]

    def graphs(self, index: int, plan: Plan, samples: int, costs: Costs) -> Graphs:
        """See ``Work``."""
        made, sharded = self._made(plan, samples)
        stage, kept = (
            cut(made, sharded.graph, sharded.block, recompute, split=True)[index]
            for recompute in ("none", plan.recompute)
        )
        wanted = (stage.forward, self._again(stage, kept, sharded), stage.backward, _added(stage))
        return Graphs(*((_bare(graph, sharded, costs),) if graph.nodes else () for graph in wanted))

    def _made(self, plan: Plan, samples: int) -> tuple[Objective, Sharded]:
        key = (plan.stages, plan.tp, plan.sp, samples)
        if key not in self.cuts:
            groups = plan.tp if self.experts else 1
            made = objective(self.model(max(1, samples // groups)), plan.dp * groups * plan.microbatches, plan.stages)
            parts = share_experts(made, groups) if self.experts else shard_objective(made, plan.tp, plan.sp)
            self.cuts[key] = made, parts
        return self.cuts[key]

    def _piece(self, index: int, plan: Plan, samples: int, costs: Costs) -> Piece:
        made, sharded = self._made(plan, samples)
        stages = cut(made, sharded.graph, sharded.block, "none", split=True)
        kept = cut(made, sharded.graph, sharded.block, plan.recompute, split=True)[index]
        stage, width = stages[index], FORMAT_BYTES[costs.dtype]
        again = self._again(stage, kept, sharded)
        passes = [
            costs.cost(_bare(graph, sharded, costs)) if graph.nodes else Cost()
            for graph in (stage.forward, stage.backward, _added(stage), again)
        ]
        calls = [
            _calls(graphs, plan.tp, width) for graphs in ((stage.forward,), (again,), (stage.backward, stage.weight))
        ]
        onward = {name for later in stages[index + 1 : index + 2] for name in later.receives}
        elements = {name: tensor.elements for name, tensor in sharded.graph.tensors.items()}
        sent_B, stash_B, working_B = (
            round(sum(elements[name] * width for name in names))
            for names in (onward, kept.stash, [name for node in again.nodes for name in node.outputs])
        )
        learnt = tuple(elements[name] for name in stage.weights)
        cost = PassCosts(passes[0], Cost(), *passes[1:])
        return Piece(cost, (calls[0], calls[1], calls[2]), sent_B, learnt, stash_B, working_B)

    def _again(self, stage: Stage, kept: Stage, sharded: Sharded) -> Graph:
        extra = set(kept.again) - set(stage.again)
        nodes = [node for node in kept.backward.nodes if node.name in extra]
        return piece(sharded.graph, nodes, "again", [name for node in nodes for name in node.outputs])


def _calls(graphs: Sequence[Graph], ranks: int, width: float) -> tuple[Call, ...]:
    sent = [item for graph in graphs for item in collectives(graph, ranks)]
    found = Counter((item.kind, round(item.nbytes / 4 * width)) for item in sent)
    return tuple(Call(kind, nbytes, times) for (kind, nbytes), times in found.items())


def _added(stage: Stage) -> Graph:
    """The gradients of the weights of a stage, each added to a sum."""
    b = Builder(stage.weight.name)
    b.graph = stage.weight.copy()
    made = {name for node in b.graph.nodes for name in node.outputs}
    for weight, grad in stage.grads.items():
        if grad not in made:
            b.graph.inputs += [grad] if grad not in b.graph.inputs else []
            b.graph.tensors[grad] = stage.backward.tensors[grad]
        total = b.input(f"{weight}{SUM}", b.shape(grad))
        b.graph.outputs.append(b.op("Add", [grad, total], f"{weight}{SUM}.new"))
    return b.graph


def _bare(graph: Graph, sharded: Sharded, costs: Costs) -> Graph:
    bare = without_collectives(Sharded(graph, [], {}, sharded.ranks))
    return local(in_format(bare, costs.dtype))

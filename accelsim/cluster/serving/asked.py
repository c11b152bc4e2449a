"""A generation on a cluster as it is asked for: texts become what ``serve`` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.serving.devices import Devices, serving_library
from accelsim.cluster.serving.serve import Asked, Served, serve
from accelsim.cluster.step.costs import PLAIN, Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import transformer_of
from accelsim.errors import UsageError
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.workload.sources.load import generation_of


def served(
    model: str,
    cluster: str,
    overrides: Sequence[str] = (),
    plan: str = "",
    batch: int | None = None,
    setting: Setting | None = None,
    library: str = "",
    ignore_capacity: bool = False,
    told: Callable[[float], None] = lambda share: None,
) -> tuple[Served, Devices]:
    """Simulate a generation; returns it and what its devices do. Raises UsageError, SpecError and OutOfMemory.

    ``model``: with ``prompt`` and ``new``; ``batch``: sequences of all replicas (None: one each); ``library``: of the
    collectives ('': that of a serving stack, where the cluster knows it).
    """
    generation = generation_of(model)
    if generation is None:
        raise UsageError(f"no prompt and new tokens in {model}", expected="NAME?prompt=P,new=N")
    name, params, prompt, new = generation
    decoder = transformer_of(name, params)
    assert decoder is not None  # a generation is of a decoder
    shared = parse_plan(plan) if plan else Plan()
    spec, setting = load_cluster(cluster, overrides), setting or PLAIN
    fleet = fleet_of(spec, setting, serving_library(spec, library, setting))
    devices = Devices(fleet, fleet.setting)
    wanted = Asked(batch or shared.data, prompt, new, ignore_capacity)
    return serve(decoder, fleet, shared, wanted, told, devices), devices

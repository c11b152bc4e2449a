"""Options of ``accelsim run`` that mean nothing on a cluster, or do not go together there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accelsim.cli.cluster_options import DECODERS, Fused
from accelsim.errors import Gather

USED = frozenset(
    {"model", "on", "set", "batch", "dtype", "fusion", "site", "values", "ignore_capacity", "param", "seed"}
)
"""Fields of a request that mean something on a cluster."""
SERVING = ("dtype", "fusion", "site", "quantiser", "kv_dtype", "stack")
"""Fields that say how devices compute, in a generation."""
SINGLE = ("check", "save_mapping", "save_trace")
"""Options of a run of one chip."""


def check_used(gather: Gather, asked: Mapping[str, Any], used: frozenset[str]) -> None:
    """Refuse fields of a request that mean nothing here, and options of a single chip."""
    from accelsim.request.fields import DEFAULTS, OPTIONS
    from accelsim.request.recording import flag
    from accelsim.spec.yaml.clusters import is_cluster, listed

    chips = [name for text in asked["on"] for name in listed(text)]
    one = "one at a time of a cluster, or with --train"
    gather.refuse(len(chips) > 1, f"--on {','.join(chips)}", "", one)
    where, expected = "with --train", "a run without --train"
    if any(map(is_cluster, chips)):
        where, expected = "on a cluster", "a chip for it"
    for name in (*OPTIONS, *SINGLE):
        changed = name in asked and name not in used and asked[name] and asked[name] != DEFAULTS.get(name)
        gather.refuse(changed, f"{flag(name)} {where}", "", expected)


def check_mode(gather: Gather, asked: Mapping[str, object], fused: Fused, serving: bool, out: Path | None) -> None:
    """Refuse options that do not go together."""
    train, whole = asked["train"], asked["whole"]
    decoders = " and ".join(name for name, key in DECODERS.items() if asked[key])
    task = "--train for a training step, or a decoder that generates ('MODEL?prompt=P,new=N')"
    step, joined = "--train: a training step", " and ".join(fused.given)
    values = f"--values {asked['values']} {'with --train' if train else 'on a cluster'}"
    computed = "--values off, or fast: in fp32" if serving else "--values off; values are those of 'accelsim train'"
    alone, counted = asked["overlap_tensor"] and not asked["plan"], asked["tokens"] is not None and (whole or not train)
    bare = "--whole alone: gradients are sent in one piece behind the passes"
    for wrong, what, expected in (
        (serving and train, "--train of a prompt and new tokens", "a model without prompt and new"),
        (not serving and not train, f"{asked['model']} on a cluster needs a task", task),
        (decoders and not train, f"{decoders} without --train", step),
        (alone, "--overlap-tensor without --plan", "a plan with sp, such as tp=8,sp"),
        (asked["library"] and not serving, "--library without a generation", "a decoder with prompt and new tokens"),
        (asked["routing"] and not serving, "--routing without a generation", "a decoder with prompt and new tokens"),
        (counted, "--tokens", "--train without --whole: so many in a whole training"),
        (whole and not train, "--whole without --train", step),
        (whole and joined, f"{joined} with --whole", bare),
        (whole and out is not None, "--out with --whole, which has no report", "--csv or --json"),
        (asked["values"] not in (("off", "fast") if serving and not train else ("off",)), values, computed),
    ):
        gather.refuse(wrong, what, "", expected)

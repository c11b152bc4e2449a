"""Find inputs of an ONNX model that are caches: ONNX has no states, but exporters of decoders name them alike."""

from __future__ import annotations

import re

from accelsim.workload.graph import Graph

_PAST = re.compile(r"past(_key_values?)?")
APPENDING = ("Concat", "Append")


def cached_states(graph: Graph) -> dict[str, str]:
    """Input -> output that is its next value, as in ``Graph.states``.

    An input 'past_key_values.0.key' or 'past_0' belongs to an output 'present.0.key' or 'present_0' that is this input
    with new rows behind it or written into it (the names of Hugging Face's and ONNX Runtime's exporters).
    """
    made = {node.outputs[0]: node for node in graph.nodes if node.op in APPENDING}
    found, outputs = {}, frozenset(graph.outputs)
    for past in graph.inputs:
        for late in dict.fromkeys((_PAST.sub("present", past, count=1), past.replace("past", "present", 1))):
            node = made.get(late)
            if late != past and node is not None and late in outputs and node.inputs[0] == past:
                found[past] = late
                break
    return found

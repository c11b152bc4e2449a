"""Laws of states that grow, and of experts that values choose: values, time and traffic of attention over the rows of earlier runs."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given, settings

from accelsim.machine.addressed import bursts
from accelsim.machine.run import Run
from accelsim.program.addresses import AddressMap
from accelsim.program.work import Transfer
from accelsim.workload import execute
from accelsim.workload.integer_reference import integer_reference
from accelsim.workload.ops import base
from tests.helpers.law_cases import Case, cached_graphs, cases, expert_graphs

LAWS = settings(max_examples=30)
TOLERANCE = 1e-5


@LAWS
@given(cases(models=cached_graphs))
def test_every_run_keeps_the_laws(case: Case) -> None:
    """Three runs of one program for all of them: to draw and compile it takes the most of the time."""
    exact, fast, off = (case.run(values, keep=True) for values in ("exact", "fast", "off"))
    for other in (fast, off):
        assert (other.slices, other.ledger, other.time_fs) == (exact.slices, exact.ledger, exact.time_fs)
    values_are_those_of_the_plain_graph(case, exact, fast)
    of_a_state_only_the_new_rows_are_written(case)
    found = AddressMap(case.program)
    the_bytes_of_an_append_are_those_of_the_new_rows(case, found)
    every_byte_has_an_address_in_its_tensor(case, found)


def values_are_those_of_the_plain_graph(case: Case, exact: Run, fast: Run) -> None:
    """Tile by tile = whole ops = plain execution; codes to the last bit, also against the plain integer reference."""
    graph = case.program.graph
    whole = execute.run(graph, case.feeds, keep=True)
    for name, values in (exact.tensors | exact.outputs).items():
        scale = max(1.0, float(np.max(np.abs(whole[name].astype(np.float64)), initial=0)))
        np.testing.assert_allclose(values / scale, whole[name] / scale, rtol=0, atol=TOLERANCE, err_msg=name)
    for name, values in (fast.tensors | fast.outputs).items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)
    if case.program.dtype == "int8":
        plain = integer_reference(graph, case.feeds, lambda node, x: base.get(node.op).kernel(node, x))
        for name, values in exact.tensors.items():
            np.testing.assert_array_equal(values, plain[name], err_msg=name)


@LAWS
@given(cases(models=expert_graphs))
def test_a_choice_of_experts_changes_values_and_not_time(case: Case) -> None:
    """Exact = fast = plain execution of the compiled graph, and one timeline with and without values."""
    graph = case.program.graph
    whole = execute.run(graph, case.feeds, keep=True)
    every_byte_has_an_address_in_its_tensor(case, AddressMap(case.program))
    exact, fast, off = case.run("exact", keep=True), case.run("fast", keep=True), case.run("off")
    assert exact.ledger == fast.ledger == off.ledger and exact.slices == fast.slices == off.slices
    for name, values in (fast.tensors | fast.outputs).items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)
    if case.program.dtype == "int8":
        plain = integer_reference(graph, case.feeds, lambda node, x: base.get(node.op).kernel(node, x))
        for name, values in exact.tensors.items():
            np.testing.assert_array_equal(values, plain[name], err_msg=name)


def of_a_state_only_the_new_rows_are_written(case: Case) -> None:
    """In the memory where it lies; and no other memory ever holds it, unless the host works with it."""
    graph, program = case.program.graph, case.program
    new = {node.outputs[0]: graph.tensors[node.inputs[1]].nbytes for node in graph.nodes if node.op == "Append"}
    assert set(new) == set(graph.states.values())
    written: Counter[str] = Counter()
    for command in program.commands:
        if command.effect.what == "append":
            assert program.steps[command.op].node.outputs[0] == command.effect.tensor
            written[command.effect.tensor] += command.work.nbytes if isinstance(command.work, Transfer) else 0
        elif command.kind == "Store":
            assert command.effect.tensor not in new
    assert written == Counter(new)


def the_bytes_of_an_append_are_those_of_the_new_rows(case: Case, found: AddressMap) -> None:
    """Each address of the new rows once, and none of the earlier ones."""
    graph = case.program.graph
    for command in case.program.commands:
        if command.effect.what != "append":
            continue
        base_B, size_B = found.span(command.writes[0].region)
        node = case.program.steps[command.op].node
        whole, axis, at = graph.tensors[node.outputs[0]], node.attrs["axis"], node.attrs["at"]
        marks = np.zeros((*whole.shape, int(whole.element_B)), bool)
        marks[(slice(None),) * axis + (slice(at, None),)] = True
        addresses = bursts(found.runs(command), 1, 1 << 60) - base_B
        assert sorted(addresses.tolist()) == np.flatnonzero(marks).tolist()
        assert size_B >= whole.nbytes


def every_byte_has_an_address_in_its_tensor(case: Case, found: AddressMap) -> None:
    for command in case.program.commands:
        if isinstance(command.work, Transfer):
            runs, homes = found.runs(command), [found.span(region) for region in found.home(command)]
            assert sum(run.nbytes for run in runs) == command.work.nbytes
            for run in runs:
                assert any(first <= run.base and run.end <= first + size for first, size in homes), (command, run)


def test_the_cases_are_not_idle() -> None:
    """States on chips that multiply activations, on those whose host does, in codes and in numbers."""
    seen: dict[str, set[str]] = defaultdict(set)

    @settings(LAWS, derandomize=True)  # few draws miss something now and then
    @given(cases(models=cached_graphs))
    def look(case: Case) -> None:
        for command in case.program.commands:
            if command.effect.what == "append":
                seen["kind"].add(command.kind)
                seen["format"].add(case.program.graph.tensors[command.effect.tensor].dtype)
        seen["turned"] |= {str(node.attrs.get("transB")) for node in case.program.graph.nodes if node.op == "MatMul"}

    look()
    assert seen["format"] == {"int8", "fp32"} and "Store" in seen["kind"] and "1" in seen["turned"]

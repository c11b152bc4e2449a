"""Laws of work and traffic: MACs, distinct bytes, peak rates and the roofline."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.spans import peak_mac_rate
from accelsim.engines.systolic.pace import pace_of
from accelsim.machine.run import Run
from accelsim.program.actions import MAC
from accelsim.program.roles import Roles
from accelsim.program.work import Folds, Transfer
from accelsim.spec.chip import Chip
from accelsim.time import FS_PER_S
from accelsim.workload.graph import Graph
from tests.helpers.law_cases import Case, cases, changed, compiled, formats, graphs, products, small_chip, whole_tiles

QUICK = settings(max_examples=50)
WHOLE = {"tm": 10**6, "tn": 10**6, "tk": 10**6, "tg": 10**6, "a_resident": True, "y_resident": True}
"""One tile per product, everything on the chip."""


def traffic(run: Run, action: str, memory: str = "") -> Counter[str]:
    """Tensor (the one whose bytes they are) -> bytes between the attached memories, or one of them, and the chip."""
    root = roots(run.program.graph)
    moved: Counter[str] = Counter()
    for row in run.ledger:
        if row.component in ([memory] if memory else run.chip.memories) and row.action == action:
            moved[root.get(row.tensor, row.tensor)] += row.count
    return moved


def on_chip(graph: Graph) -> list[bool]:
    return [node.engine not in ("host", "alias") for node in graph.nodes]


def roots(graph: Graph) -> dict[str, str]:
    """Tensor -> the one whose bytes it shows."""
    root = {name: name for name in graph.tensors}
    for node in graph.nodes:
        if node.engine == "alias":
            root[node.writes[0]] = root[node.reads[0]]
    return root


def expected_traffic(graph: Graph) -> tuple[Counter[str], Counter[str], int]:
    """Bytes read and written by tensor, and bytes of vector parameters, when everything fits on the chip.

    Read once: what an engine of the chip reads and none of them made. Written once: what an engine of the chip made
    and the host (or the user) wants.
    """
    root, tensors = roots(graph), graph.tensors
    made = {root[name] for node, mine in zip(graph.nodes, on_chip(graph), strict=True) if mine for name in node.writes}
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    parameters = 0
    for node, mine in zip(graph.nodes, on_chip(graph), strict=True):
        for name in node.reads:
            tensor, own = tensors[name], name in node.inputs and node.engine == "matrix"
            if mine and tensor.is_constant and own:
                read[name] += tensor.nbytes
            elif mine and tensor.is_constant:
                parameters += tensor.nbytes
            elif mine and root[name] not in made:
                read[root[name]] = tensor.nbytes
            elif node.engine == "host" and root[name] in made:
                written[root[name]] = tensor.nbytes
    written |= {root[name]: tensors[name].nbytes for name in graph.outputs if root[name] in made}
    return read, written, parameters


@QUICK
@given(graphs(), small_chip(), st.data())
def test_what_fits_moves_once(graph: Graph, chip: Chip, data: st.DataObject) -> None:
    """Each constant and input that the chip works on is read once, each result that is wanted outside written once."""
    dtype = data.draw(st.sampled_from(formats(chip)))
    chip = changed(whole_tiles(chip), "matrix", padded_tiles=False)
    case = compiled(graph, chip, dtype, pinned=dict.fromkeys(products(graph), WHOLE))
    run = case.run()
    read, written, parameters = expected_traffic(case.program.graph)
    found = traffic(run, "read")
    own = found.pop("parameters", 0)
    assert own == parameters
    assert found == read
    assert traffic(run, "write") == written


def traffic_is_at_least_the_distinct_bytes(case: Case, run: Run) -> None:
    """However it is tiled; of a convolution's input the rows between its windows may be left out."""
    graph = case.program.graph
    read, written, _ = expected_traffic(graph)
    found, stored = traffic(run, "read"), traffic(run, "write")
    sliding = {node.inputs[0] for node in graph.nodes if node.op == "Conv"}
    for name, nbytes in read.items():
        assert found[name] >= nbytes or name in sliding, name
    for name, nbytes in written.items():
        assert stored[name] >= nbytes, name


def macs_are_those_of_the_products(case: Case, run: Run) -> None:
    """MACs by step in the ledger = groups x M x N x K of the product, whatever the array; nothing else multiplies."""
    counted: Counter[int] = Counter()
    padding: Counter[int] = Counter()
    formats = {}
    for row in run.ledger:
        if row.action == "mac.padding":
            padding[row.op] += row.count
        elif row.action.kind == MAC:
            counted[row.op] += row.count
            formats[row.op] = row.action.removeprefix("mac.")
    assert counted == {i: step.gemm.macs for i, step in enumerate(run.program.steps) if step.gemm is not None}
    for op, name in formats.items():
        least, most = rows_entered(run, op, name)
        assert least <= counted[op] + padding[op] <= most


def rows_entered(run: Run, op: int, name: str) -> tuple[Fraction, Fraction]:
    """Multiplications of all PEs in the rows that a product in a format streamed, between two bounds: of rows that enter
    several in a clock, or several in some clocks, the commands hold the clocks."""
    unit, gemm = run.chip.matrix, run.program.steps[op].gemm
    assert unit is not None and gemm is not None
    folds = [command.work for command in run.program.commands if command.op == op and isinstance(command.work, Folds)]
    pes, streamed = unit.rows * unit.cols, sum(work.n * work.rows for work in folds)
    pace = Fraction(pace_of(Roles(run.chip), name, run.program.graph.tensors[gemm.a].dtype).row)
    if pace.denominator == 1:
        return Fraction(streamed * pes), Fraction(streamed * pes)
    return (streamed - sum(work.n for work in folds)) * pes / pace, streamed * pes / pace


def no_run_beats_the_roofline(case: Case, run: Run) -> None:
    """time >= MACs / peak and >= bytes / bandwidth of each memory (and direction, where they are separate)."""
    seconds = Fraction(run.time_fs + 1 + len(run.slices), FS_PER_S)
    for row in run.ledger:
        if row.action.kind == MAC and row.action != "mac.padding":
            ideal = row.count / peak_mac_rate(run.chip, row.action.removeprefix("mac."))
            assert seconds >= ideal * (1 - 1e-12)
    for name, attached in run.chip.memories.items():
        inbound, outbound = (sum(traffic(run, way, name).values()) for way in ("read", "write"))
        full = attached.link is not None and attached.link.duplex == "full"
        needed = max(inbound, outbound) if full else inbound + outbound
        assert seconds * Fraction(attached.rate_Bps) >= needed


@QUICK
@given(cases())
def test_every_run_keeps_the_laws_of_work_and_traffic(case: Case) -> None:
    """One run for all of them: to draw and compile it takes the most of the time."""
    run = case.run()
    for law in (traffic_is_at_least_the_distinct_bytes, macs_are_those_of_the_products, no_run_beats_the_roofline):
        law(case, run)


@QUICK
@given(cases(), st.data())
def test_bandwidth_stays_below_the_peak_over_any_interval(case: Case, data: st.DataObject) -> None:
    """Bytes whose data beats lie within [a, b] are at most peak x (b - a), for any two times of the run."""
    run = case.run()
    times = sorted({time for piece in run.slices for time in (piece.data, piece.end)})
    start = data.draw(st.sampled_from(times))
    end = data.draw(st.sampled_from(times))
    for name, attached in run.chip.memories.items():
        for write in (False, True):
            inside = transfers = 0
            for piece in run.slices:
                work = run.program.commands[piece.command].work
                within = start <= piece.data and piece.end <= end
                if isinstance(work, Transfer) and within and (work.memory, work.write) == (name, write):
                    inside, transfers = inside + work.nbytes, transfers + 1
            rounded_fs = transfers  # each may end a femtosecond early
            assert inside * FS_PER_S <= Fraction(attached.rate_Bps) * (max(0, end - start) + rounded_fs)

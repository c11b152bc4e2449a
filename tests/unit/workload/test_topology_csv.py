"""Topology CSVs: both forms, every legal way of writing them, and every bad line named."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.compiler.numbers.sparsify import prune
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.errors import ModelError
from accelsim.spec.yaml.load import load_chip
from accelsim.workload.execute import run
from accelsim.workload.ops import base
from accelsim.workload.sources.load import load_model
from accelsim.workload.sources.topology_csv import Layer, parse_topology, read_topology, topology_graph
from accelsim.workload.sources.weights import randomise

CONV = "Layer name,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides,"
GEMM = "Layer,M,N,K,"
SHARED = Path(__file__).parents[3] / ".." / "shared"

names = st.text("abcXYZ_-0123 ", min_size=1, max_size=8).map(str.strip).filter(bool)
sizes = st.integers(1, 10**6)
conv_rows = st.builds(
    lambda name, r, s, over, more, rest: (name, r + over, s + more, r, s, *rest),
    names, *[st.integers(1, 11)] * 2, *[st.integers(0, 50)] * 2, st.tuples(sizes, sizes, st.integers(1, 9)),
)  # fmt: skip
gemm_rows = st.tuples(names, sizes, sizes, sizes)


@st.composite
def written(draw: st.DrawFn, header: str, rows: st.SearchStrategy[tuple[object, ...]]) -> tuple[str, list[object]]:
    """A file and the rows that it must give."""
    layers = draw(st.lists(rows, min_size=1, max_size=6, unique_by=lambda row: row[0]))
    space = draw(st.sampled_from(["", " ", "\t", "  "]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    comma = draw(st.sampled_from(["", ",", ",,"]))
    change = draw(st.sampled_from([str, str.upper, str.lower, lambda text: text.replace(" ", "")]))
    noise = draw(st.sampled_from(["", "# a comment, with commas", " , ,", "   "]))
    remark = draw(st.sampled_from(["", " # remark"]))
    lines = [noise, change(header)]
    for row in layers:
        lines += [f"{space},{space}".join(str(cell) for cell in row) + space + comma + remark, noise]
    return end.join(lines) + draw(st.sampled_from(["", end])), list(layers)


@given(written(CONV, conv_rows))
def test_conv_form(case: tuple[str, list[tuple[object, ...]]]) -> None:
    text, rows = case
    assert parse_topology(text).layers == tuple(Layer(str(row[0]), tuple(row[1:])) for row in rows)


@given(written(GEMM, gemm_rows))
def test_gemm_form(case: tuple[str, list[tuple[object, ...]]]) -> None:
    text, rows = case
    assert parse_topology(text).layers == tuple(Layer(str(row[0]), tuple(row[1:])) for row in rows)


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 7), st.integers(1, 7), st.integers(1, 5), st.integers(1, 3)
)
def test_windows_are_counted_as_scalesim_counts_them(h: int, w: int, r: int, s: int, stride: int, batch: int) -> None:
    h, w = h + r - 1, w + s - 1
    topology = parse_topology(f"{CONV}\nc,{h},{w},{r},{s},2,3,{stride},")
    graph = topology_graph(topology, "t", batch)
    out = graph.tensors[graph.outputs[0]].shape
    assert out == (batch, 3, -(-(h - r) // stride) + 1, -(-(w - s) // stride) + 1)


def test_layers_are_independent_and_run() -> None:
    graph = topology_graph(parse_topology(f"{GEMM}\nfirst,4,3,2\nfirst,5,6,7"), "t", batch=2)
    assert [node.name for node in graph.nodes] == ["first", "first#2"]
    assert len(graph.inputs) == len(graph.outputs) == 2
    values = run(graph, {name: np.ones(graph.tensors[name].shape, np.float32) for name in graph.inputs})
    assert [values[name].shape for name in graph.outputs] == [(8, 3), (10, 6)]


def test_two_strides() -> None:
    header = CONV.replace("Strides", "Stride Height, Stride Width")
    graph = topology_graph(parse_topology(f"{header}\nc,9,9,3,3,1,1,2,3,"), "t")
    assert graph.tensors["c"].shape == (1, 1, 4, 3) and not graph.notes


PLAIN = (9, 8, 3, 2, 4, 5, 1)
TABBED = f"{CONV}\nc,9,8,3,2,4,5,1,".replace(",", "\t ")
OTHER_FORMS = {
    "tabs": (TABBED, Layer("c", PLAIN), "separated by tabs"),
    "semicolons": (TABBED.replace("\t", ";"), Layer("c", PLAIN), "separated by semicolons"),
    "a name twice": (
        CONV.replace("IFMAP Height", "IFMAP Width") + "\nc,9,8,3,2,4,5,1", Layer("c", PLAIN),
        "column 1 is headed 'IFMAP Width' again; it is read as 'IFMAP Height'"),
    "title lines": (f"AlexNet,\n{CONV}\nEncoder,\nc,9,8,3,2,4,5,1,\n", Layer("c", PLAIN),
                    "title lines 'AlexNet', 'Encoder' skipped"),
    "a batch column": (f"{CONV} Batch Size\nc,9,8,3,2,4,5,1,6", Layer("c", PLAIN, batch=6), "batch column multiplies"),
    "a sparsity column": (f"{CONV} Sparsity,\nc,9,8,3,2,4,5,1,1:4,", Layer("c", PLAIN, sparsity="1:4"),
                          "prunes the weights of 1 of 1 layer"),
    "a dense layer": (f"{CONV} Sparsity,\nc,9,8,3,2,4,5,1,4:4,", Layer("c", PLAIN), "prunes the weights of 0 of 1"),
    "a stride without a column": (f"{CONV}\nc,9,8,3,2,4,5,1,2", Layer("c", (*PLAIN, 2)),
                                  "the stride along the width (line 2)"),
    "a remark in a cell": (f"{CONV}\nc,9,8,3,2,4,5,1,big", Layer("c", PLAIN), "are ignored (line 2)"),
}  # fmt: skip


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_tables_as_users_of_scalesim_have_them(form: str) -> None:
    text, layer, note = OTHER_FORMS[form]
    topology = parse_topology(text)
    assert topology.layers == (layer,)
    assert len(topology.notes) == 1 and note in topology.notes[0]


def test_the_batch_of_a_layer_multiplies_that_of_the_run() -> None:
    graph = topology_graph(parse_topology(f"{GEMM}Batch\na,4,3,2,5\nb,4,3,2,"), "t", batch=2)
    assert [graph.tensors[name].shape for name in graph.outputs] == [(40, 3), (8, 3)]


def test_the_sparsity_of_a_layer_prunes_its_weights_and_is_told() -> None:
    graph = topology_graph(parse_topology(f"{GEMM}Sparsity\na,8,16,32,2:4\nb,8,16,32,"), "t")
    program = compile(graph, load_chip("edu-mixed"), Options(dtype="int4", values="off", edges="outside"))
    sparse = {step.node.name: step.node.attrs.get("sparse") for step in program.steps}
    assert (sparse["a"], sparse["b"]) == ((2, 4), None)
    assert program.notes[0].startswith("topology: the sparsity column prunes")
    weights = prune(randomise(graph, 0), "").tensors
    assert [np.count_nonzero(weights[name].value()) for name in ("a.b", "b.b")] == [256, 512]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{CONV}Padding\nc,9,9,3,3,1,1,1,1", "net.csv:1: column 'Padding' after 'Strides'"),
        (f"{CONV}Sparsity\nc,9,9,3,3,1,1,1,0.5", "net.csv:2: sparsity is '0.5'; expected N:M"),
        (f"{CONV}Batch\nc,9,9,3,3,1,1,1,0", "net.csv:2: batch is '0'"),
        (CONV.replace("Num Filter", "Channels").replace("Strides", "Num Filter") + "\nc,9,9,3,3,1,1,1", "header"),
    ],
)
def test_columns_that_would_change_the_layers_are_refused(text: str, told: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_topology(text, "net.csv")
    assert told in str(caught.value)


def test_every_bad_line_is_named() -> None:
    text = f"{CONV}\nok,8,8,3,3,1,1,1,\nshort,8,8\nbig,2,2,3,3,1,1,1,\nword,8,x,3,3,1,-1,0,\nok2,8,8,3,3,1,1,1,"
    with pytest.raises(ModelError) as caught:
        parse_topology(text, "net.csv")
    where = [problem.where for problem in caught.value.problems]
    assert where == ["net.csv:3", "net.csv:4", "net.csv:5", "net.csv:5", "net.csv:5"]
    assert "2 numbers" in str(caught.value) and "filter 3 x 3 on 2 x 2" in str(caught.value)
    assert "Num Filter is '-1'" in str(caught.value)


@pytest.mark.parametrize("text", ["", "\n# only a comment\n", GEMM, "Layer,A,B,C\nx,1,2,3", "Layer,M,K,N\nx,1,2,3"])
def test_no_layers_or_no_known_header(text: str) -> None:
    with pytest.raises(ModelError, match=r"net\.csv"):
        parse_topology(text, "net.csv")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(ModelError, match=r"net\.csv"):
        read_topology(path)


def test_the_door_reads_csv(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text(f"{GEMM}\nx,4,3,2,")
    graph = load_model(path, batch=3)
    assert graph.name == "net" and graph.tensors["x"].shape == (12, 3)
    assert graph.values_from.startswith("random:0") and graph.tensors["x.b"].value().any()


def test_same_matrix_sizes_as_scalesim_itself() -> None:
    golden = SHARED / "data" / "own" / "systolic" / "scalesim3_compute_only.csv"
    if not golden.exists() or not (SHARED / "topologies").exists():
        pytest.skip(f"no {golden} or no topologies beside the repository")
    graphs = {path.stem: read_topology(path) for path in sorted((SHARED / "topologies").glob("*.csv"))}
    checked = 0
    for row in csv.DictReader(golden.read_text().splitlines()):
        graph = graphs[row["workload"]]
        node = graph.nodes[int(row["layer_id"])]
        gemm = base.get(node.op).gemm(node, [graph.tensors[name] for name in node.inputs], graph.outs(node))
        assert gemm is not None
        assert [int(row[key]) for key in ("gemm_M", "gemm_N", "gemm_K")] == [gemm.M, gemm.N, gemm.K], row
        checked += 1
    assert checked > 100

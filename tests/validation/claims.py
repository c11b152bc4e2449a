"""The table of what is claimed: each check with its rows and the bound of a row, read by the page and by the tests."""

from __future__ import annotations

from typing import NamedTuple

from accelsim.kernels.whole import shipped
from tests.validation.base import Check

AT_ONCE, SHORT, LONG = "at once", "up to a minute", "minutes"
"""Less than 2 s of CPU time, up to 60 s, more; of the whole command, on one core."""


class Claim(NamedTuple):
    """A check: what it compares, how many rows it claims, the bound that each of them keeps, in words.

    ``seconds``: CPU time of the command on a server that did other work too; None where it was not timed, and
    ``estimate`` says how long it may take.
    """

    what: str
    rows: int
    bound: str
    seconds: float | None = None
    estimate: str = ""

    @property
    def takes(self) -> str:
        """Return how long the check takes, in words."""
        if self.seconds is None:
            return self.estimate
        return AT_ONCE if self.seconds < 2 else SHORT if self.seconds <= 60 else LONG


OTHER_KINDS = 20
"""Kinds of intervals that are not of whole things: of kernels and of collectives."""
CLAIMS = {
    "area": Claim("areas of dies and blocks by their designs against published ones", 11, "within 75 %", 0.6),
    "collectives": Claim(
        "all-reduce and messages of communication libraries against measured times", 22, "median error as claimed", 5.2
    ),
    "collectives-served": Claim(
        "collectives of NCCL and vLLM on GPU servers against measured times, by the constants that ship",
        34,
        "mean error and coverage as claimed",
        2.0,
    ),
    "coverage": Claim(
        "kinds of 90 % intervals against the things that they are made for",
        len(shipped().wholes) + OTHER_KINDS,
        "85 to 95 %, left out 80 %",
        estimate=LONG,
    ),
    "dram-dramsim3": Claim("traces on the bank and the pattern model against DRAMsim3", 44, "within 0.1-5 %", 28.8),
    "dram-energy": Claim(
        "energies of DRAM commands and standby against DRAMsim3, from its own counts", 438, "within 1e-06", 1.0
    ),
    "dram-ramulator2": Claim(
        "traces on the bank and the pattern model against Ramulator 2.1", 54, "within 0.2-5 %", 21.9
    ),
    "dram-ranks": Claim(
        "random mixes of reads and writes on one and two ranks against the rules of DRAMsim3",
        73,
        "within 0.1-0.2 %",
        34.1,
    ),
    "eyeriss-hierarchy": Claim(
        "AlexNet with the relative energies of Eyeriss (ISCA 2016)", 26, "within 1e-12-5 %", 33.5
    ),
    "gpu-attention": Claim(
        "attention in one kernel on an H100 against measured times", 1, "mean error as claimed", estimate=AT_ONCE
    ),
    "gpu-conv": Claim(
        "convolutions on GPUs as they ship against measured times, rows without part in the fit",
        11,
        "mean error and coverage as claimed",
        estimate=SHORT,
    ),
    "gpu-gemm": Claim(
        "matrix products on GPUs as they ship against measured times, rows without part in the fit",
        15,
        "mean error and coverage as claimed",
        estimate=LONG,
    ),
    "gpu-labs": Claim(
        "kernels of GPUs in other labs than that of their constants, by intervals that ship",
        3,
        "80% within their intervals",
        estimate=SHORT,
    ),
    "gpu-models": Claim("whole networks on GPUs against measured times", 6, "mean error as claimed", estimate=LONG),
    "gpu-own": Claim(
        "kernels of an H200 and an H100 that were measured for this project",
        46,
        "mean error as claimed",
        estimate=AT_ONCE,
    ),
    "gpu-own-models": Claim(
        "networks on an H200 and an H100 that were measured for this project, and joules",
        4,
        "mean error as claimed",
        estimate=SHORT,
    ),
    "gpu-power": Claim(
        "joules at the wall of servers of GPUs (MLPerf)", 2, "mean 11%, 90% within 30% of the wall", estimate=LONG
    ),
    "gpu-watts": Claim(
        "watts of kernels on an H200 and an H100 that were measured for this project",
        2,
        "mean error as claimed",
        estimate=AT_ONCE,
    ),
    "gpu-serving": Claim(
        "kernels of LLM serving on six GPUs against measured times, as shipped",
        63,
        "mean error and coverage as claimed",
        estimate=LONG,
    ),
    "generations": Claim(
        "whole generations on three GPUs against static tables of TensorRT-LLM, as shipped",
        3,
        "mean error and coverage as claimed",
        estimate=LONG,
    ),
    "gpu-streams": Claim(
        "kernels side by side on an H200 and an H100 that were measured for this project",
        16,
        "mean error as claimed",
        estimate=SHORT,
    ),
    "gpu-uncalibrated": Claim(
        "square products of boards without constants of their own against measured times",
        19,
        "mean error as claimed",
        estimate=SHORT,
    ),
    "gpu-vector": Claim(
        "functions on GPUs as they ship against measured times, rows without part in the fit",
        7,
        "mean error and coverage as claimed",
        estimate=SHORT,
    ),
    "light-models": Claim(
        "every tensor of simulated runs of small real models against ONNX Runtime",
        1_356,
        "int8 exact, fp32 within 1e-04",
        99.1,
    ),
    "money": Claim("costs on rented machines against published ones", 4, "median error as claimed", estimate=LONG),
    "neuroncore-v2": Claim(
        "cycles of instructions and peak rates against the rules that AWS publishes", 1_200, "within 0.1 %", 42.7
    ),
    "neuron-tables": Claim(
        "times that AWS publishes for NeuronCores, rows without part in six constants",
        32,
        "median error as claimed",
        estimate=LONG,
    ),
    "noc-load": Claim("latency of loaded networks on a chip against BookSim 2", 16, "within 5 %", 5.1),
    "noc-zero-load": Claim(
        "latency and bounds of empty networks on a chip against BookSim 2", 16, "within 0.05 clocks", 1.0
    ),
    "onnx-backend": Claim(
        "every case of the backend test suite of ONNX that is not refused", 1_974, "tolerances of the suite", 13.2
    ),
    "onnxruntime": Claim("every tensor of the listed models against ONNX Runtime", 1_719, "within 0.01 %", 17.8),
    "pcie": Claim("packets and rates of PCIe against the public pcie-model", 192, "within 0.01 %", 1.0),
    "ranking": Claim(
        "pairs of chips that are said to be ranked right with 90 %", 6, "85 to 95 % right, or as claimed", estimate=LONG
    ),
    "row-stationary": Claim(
        "AlexNet on the simulated Eyeriss against the table of JSSC 2017", 52, "within 0.5-17 %", 2.4
    ),
    "rtl-machine": Claim("the whole machine against RTL, counter by counter", 60, "exact", 2.9),
    "scalesim": Claim("cycles, utilisation, SRAM words against SCALE-Sim 2.0.2 and 3.0.0", 529, "exact", 1.1),
    "serving": Claim("layers of language models on several GPUs against measured times", 8, "each row as claimed", 7.3),
    "sram-fit": Claim(
        "energy, time and area of SRAM against the CACTI runs that they were fitted to", 36, "median within 8-30 %", 1.2
    ),
    "systolic": Claim(
        "closed forms of the array against the register-level model on random products", 40_000, "exact", 161.2
    ),
    "tensor-cores": Claim("dot products of GPUs against outputs of the hardware, bit by bit", 89_120, "exact", 6.0),
    "training": Claim(
        "training steps on clusters of A100 and H100 against measured times", 11, "errors as claimed", estimate=LONG
    ),
    "tpu-v1": Claim("TPU v1 against Table 3 and the roofline of Jouppi et al. (ISCA 2017)", 34, "within 0.1-40 %", 6.0),
}
"""Name of a check -> its claim."""


def broken(outcome: Check) -> str:
    """Return how an outcome breaks its claim: rows that do not agree, another number of rows, another bound.

    Return '' where it keeps its claim, compares nothing, states why it has other rows, or is not in the table.
    """
    claim = CLAIMS.get(outcome.name)
    if outcome.equal < outcome.rows:
        return f"{outcome.rows - outcome.equal:,} of {outcome.rows:,} rows do not agree"
    if claim is None or not outcome.rows or outcome.other_rows:
        return ""
    if outcome.rows != claim.rows:
        return f"{outcome.rows:,} rows were compared, {claim.rows:,} are claimed"
    if outcome.bound != claim.bound:
        return f"the bound is {outcome.bound!r}, claimed is {claim.bound!r}"
    return ""

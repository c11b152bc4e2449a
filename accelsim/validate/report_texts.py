"""What the numbers of reports/accuracy.md and reports/light-models.md mean, in plain words."""

from __future__ import annotations

MEANING = {
    "systolic": (
        "Random products on random arrays, in every dataflow and schedule: the closed forms that time the "
        "machine, against a model that moves every word through every register, clock by clock. Equal "
        "means equal cycles, equal values and equal counts of every access; there is no tolerance."
    ),
    "scalesim": (
        "What SCALE-Sim 2.0.2 and 3.0.0 print for 529 layers. Equal means that the schedule called "
        "`scalesim` has the same conventions, to the last cycle. It says nothing about whether those "
        "conventions are those of hardware."
    ),
    "rtl-machine": (
        "The general machine, configured by a spec file, against a small accelerator in Verilog that was "
        "run through Verilator: total clocks, every stall counter, the results, and a hash of the edge of "
        "every event. Equal means equal in all of them: queues, tokens, ports and buffers behave as "
        "registers and wires do. The errors are those of the total clocks."
    ),
    "onnxruntime": (
        "The operators: real networks executed by the kernels of this package and by ONNX Runtime, "
        "compared at every tensor between the layers. The errors are those of float32 sums taken in "
        "another order."
    ),
    "light-models": (
        "The whole path: networks are compiled, cut into tiles, scheduled and simulated with values, on "
        "two chips, and every tensor that ends up in a memory is compared. A wrong schedule, tile or "
        "rounding would be a wrong number. The errors are the largest one of each network and chip."
    ),
    "onnx-backend": (
        "The operators once more: every case of the node, simple and PyTorch sets of ONNX's own backend test suite "
        "that the import does not refuse, by the tolerance of the suite. reports/onnx-backend.md says which cases "
        "own kernels pass, which the host's reference kernels pass, and what is refused and why."
    ),
    "tensor-cores": (
        "600 dot products per GPU and format as real V100, A100 and H100 chips computed them, against the table of "
        "accumulation rules: equal means equal in every bit. The outputs are other people's and not part of this "
        "project; where they are not at hand, nothing is compared."
    ),
    "tpu-v1": (
        "What a paper measured on real chips, against the simulated one. Errors of percentages are "
        "differences in points / 100. The spec file holds what the paper states about the hardware; no "
        "constant was fitted to these figures. For comparison: the performance model of the chip's own "
        "designers is 5 to 11 % off its counters (Table 7 of the paper)."
    ),
    "neuroncore-v2": (
        "The rules that the vendor publishes for its tensor engine, for every size that one instruction "
        "can have. These are rules, not measurements: equal means that the spec file leads to the "
        "described behaviour, not that the silicon does."
    ),
}
"""Check -> what its numbers mean."""

INTRODUCTION = (
    "Errors are relative (of percentages: in points / 100), without their sign; a dash where only "
    "equality counts. `accelsim validate NAME --details` runs one check.\n"
)

NOT_VALIDATED = (
    "**Joules.** Counts of actions are checked (laws, closed forms, RTL); the energy of one action comes "
    "from tables that disagree with each other, and no measured energy of a run is compared. See the "
    "spread below. Compare designs under one table; do not quote absolute joules.",
    "**Watts.** Idle power is a constant of the spec; it does not follow voltage, temperature or activity.",
    "**The vector unit and the host.** Their rates (clocks per element, a usable share of the peak) are "
    "stated in the specs with their sources or as guesses, and not compared with measurements.",
    "**DRAM timing.** A memory is latency plus bandwidth in whole beats; rows, banks and refresh are not "
    "modelled, and no run is compared with a DRAM simulator.",
    "**Accuracy of trained networks.** The weights of the light models are random, so the signal-to-noise "
    "ratio is that of the arithmetic, not of a classification.",
    "**Other chips.** What no check above names is a spec file that obeys the laws, and no more.",
)

SPREAD = (
    "The same ledger ({model} on {chip}, {dtype}) under the energy tables of the project: energy of what "
    "happens on the chip (multipliers, registers, buffers, vector unit), without off-chip memory and idle "
    "power. The tables are of different processes, so part of the spread is real; published figures for "
    "one process differ as much: a 32-bit integer multiplication costs 3.1 pJ in 45 nm (Horowitz, ISSCC "
    "2014) and 12.7 pJ in 40 nm (Aladdin), a bit of DDR3 from about 20 to 70 pJ.\n\n"
)

LIGHT = """\
Real networks (graphs and shapes of the ONNX model zoo, seeded random weights and inputs, batch 1), compiled and
simulated with values. `exact` computes tile by tile in the order of the hardware, `fast` each layer at once; time,
energy and traffic are the same.

- fp32: every tensor that exists in a memory is compared with {by}; the error of a tensor is
  max |a - b| / max |b|, and the bound is 1e-4.
- int8: every tensor must equal plain integer arithmetic on whole layers to the last bit (error 0); real-valued
  functions that run on the host, such as softmax, have the bound 1e-4. The SQNR compares the output with the float
  model: it is the price of quantising random weights with one calibration batch, not an accuracy.

"""

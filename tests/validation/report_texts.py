"""Meanings of the numbers of reports/accuracy.md and reports/light-models.md, in plain words."""

from __future__ import annotations

MEANING = {
    "gpu-gemm": (
        "Matrix products on GPUs from Pascal to Hopper, a P4, an MI25 and an MI100, as Vidur, NeuSight and DeepBench "
        "measured them. A row is a set of one device: a third of the rows of a file, by a hash of their sizes, which "
        "had no part in the constants of the chip that comes with the tool (one fit over all kinds of kernels of a "
        "device, `python -m tests.validation.shipped`). Each is predicted as `accelsim kernel --csv` does at the site "
        "`calibration-lab`, or `calibration-lab-eager` where PyTorch asked for each kernel. Equal means a mean error no "
        "larger than is claimed, and 85 to 95 % of the rows within their intervals, or nearly on small sets. Beside it "
        "stand fits to the set alone (eight constants at the most, rows that they had not seen), a fitted roofline, and "
        "constants of the other devices. The measurements are other people's and not part of this project; where they "
        "are not at hand, nothing is compared."
    ),
    "gpu-conv": (
        "Convolutions, forward and gradients, in the same way. What is left is mostly cuDNN's choice of an "
        "algorithm, which is taken to be the fastest by the model's own estimate."
    ),
    "gpu-vector": (
        "Elementwise functions, softmax and layer norms, in the same way. The host's time for a call is one that "
        "products and functions share."
    ),
    "gpu-attention": (
        "Attention in one kernel, of prompts of 36 to 2,007 tokens of two language models on an H100 (LLMServingSim, "
        "FlashAttention 2 of vLLM). The H100 that comes with the tool knows a later FlashAttention in a graph; these "
        "times hold launches of the profiler's host too, so that it is far below them. A fit of two constants to these "
        "rows is near."
    ),
    "gpu-labs": (
        "Chips that a second lab measured, by the constants of the first and by the intervals that are printed without "
        "a site record, which cover the spread between labs. A row is a kind of kernels, all places weighing alike; it "
        "agrees where eight of ten kernels lie within, also where each place has the spread that the others alone tell."
    ),
    "gpu-models": (
        "Whole networks on GPUs: inference and training steps of five language models by PyTorch (NeuSight), ResNet-50 "
        "and BERT by batch in three frameworks (DeepLearningExamples), ResNet-50 and BERT-Large of MLPerf offline, "
        "kernels alone and the kernels of one GPT-3 layer (LLMCompass). No constant of a chip that comes with the tool "
        "comes of these rows. A framework on a machine has two numbers (the least time of a pass, a factor), which "
        "come of its other rows; of MLPerf each network and format has one, which comes of the other chips, and each "
        "chip has one, which comes of its other workloads. Without its own the T4 is off by half: its clock falls "
        "under Tensor Cores more than its calibration, to short kernels, says. Equal means a mean error no larger than "
        "is claimed. In a training step gradients stay on the device, and what belongs to the gradient of one function "
        "is one kernel where it is elementwise."
    ),
    "gpu-serving": (
        "Kernels of LLM serving under vLLM as aiconfigurator timed them, each with what belongs to it there: linear "
        "layers in a CUDA graph with the kernel that quantises their input, attention with the write to its cache, "
        "mixtures of experts with routing and sum. Constants were fitted to two thirds of the rows of a GPU, and what "
        "is compared is the other third, by the specs as they are shipped and `accelsim kernel --csv`. The forms were "
        "chosen while all rows were looked at. A row is a kind of kernel in a format on a GPU: it agrees where its "
        "mean error is no larger than is claimed, and where intervals hold 80 % of its rows, or nearly of a small set. "
        "Beside it stand constants fitted again to two thirds of all rows, three times, and medians of the constants "
        "of the other families of GPUs, as for a GPU that nobody measured. Layers in blocks of FP8 are left out: "
        "they were timed with their host."
    ),
    "generations": (
        "Whole generations, as `accelsim run 'MODEL?prompt=P,new=N' --stack tensorrt-llm` says them, against tables that "
        "NVIDIA published for TensorRT-LLM 0.5 and 0.6: batches of equal prompts, and first tokens of one prompt. Six "
        "rows of the H100 told the constants of single queries and of the host; linear layers and prompts are another "
        "stack's, vLLM's, on the same GPUs. A row is a GPU: it agrees where the mean error of rows that told no "
        "constant is no larger than is claimed and as many of them lie within their intervals."
    ),
    "gpu-uncalibrated": (
        "Square products of 1,024 to 10,240 that owners of boards timed in PyTorch, on ten GPUs whose products nobody "
        "fitted here (github.com/zzc0721/torch-performance-test-data; of five boards the fastest alone). They have the "
        "defaults: a share of the peak, and a clock that falls, or rises, by what the design power leaves. Three "
        "numbers of that were chosen on these boards; beside each stands its error with the three chosen on the other "
        "boards. A row is a board and a unit, Tensor Cores or FP32 lanes, and agrees where its mean error is no "
        "larger than is claimed."
    ),
    "gpu-own": (
        "Kernels on an H200 and an H100 that were timed for this project with `accelsim measure` (PyTorch 2.11, CUDA "
        "13.0, replayed from CUDA graphs, operands not in the L2 cache; `tests/golden`): sizes at random, 60 % of the "
        "products with rows at multiples of 64 elements, a fifth anywhere. The H200 was calibrated to 1,610 kernels; "
        "the 995 here were drawn and measured afterwards. They then refuted one rule for filters of 7 x 7, which was "
        "taken out, so that convolutions are no longer unseen. The H100 knows Vidur's products in FP16 and its own "
        "attention; what else it has is the H200's. Shapes like these are harder than those of networks: a row is an "
        "op in a format, and agrees where its mean error is no larger than is claimed."
    ),
    "gpu-own-models": (
        "Whole networks on the same two GPUs, replayed from CUDA graphs: the graph that is simulated, node by node in "
        "PyTorch (`accelsim measure --model`), attention as it is written out or in one call. No constant comes of "
        "them, but they were looked at while the form was chosen, all but the ten networks from vit-b16 on of the "
        "H200. Joules are those of the board's energy counter; the model was fitted to those of single kernels. A row "
        "is the mean error of seconds or of joules on one device."
    ),
    "gpu-watts": (
        "What single kernels draw on the same two GPUs, by the energy counters of their boards. What busy "
        "multiprocessors draw and what is around operations is fitted to 67 kernels of the H200 that its board did not "
        "slow down; compared are its others and all kernels of the H100, as simulated for as long as they really took. "
        "Kernels that the boards slowed down tell the exponent of the clock in the energy of an operation. A row is "
        "the mean error on a device."
    ),
    "coverage": (
        "Every kind of interval that is printed, and the share of what was measured that it holds: of steps, networks, "
        "generations, joules and watts (`hwspecs/intervals`; the factors are told by two of three rows, by a hash of "
        "what they are), of pairs of plans for one model, batch and number of GPUs (by how much the next slower one is "
        "slower), of single kernels in the lab of their chip, in another, on a chip that nobody measured, and of "
        "collectives. As shipped: rows without part in any constant or factor. By parts: each fifth of the rows within "
        "the factors of the others. Left out: a lab, a family of models or a device, by what the others tell; the mean "
        "of all that are left out, each weighing alike. Uncalibrated products, functions and convolutions are by the "
        "defaults that ship, without the calibration of the device; those of convolutions were chosen on these same "
        "GPUs together, so that theirs is no device left out. A dash: there is one alone, or, of kernels, another lab "
        "and a device without a fit have a row of their own. A row agrees where it holds 85 to 95 % of its rows and at "
        "least 80 % of what is left out, of few rows within two standard deviations of these. How the two stages are "
        "combined, how labs are weighed and into which kinds wholes are divided was chosen while all rows were looked "
        "at."
    ),
    "gpu-streams": (
        "32 equal kernels that need nothing of each other on 1, 2, 4, 8 and 16 streams of a CUDA graph, on the same "
        "two GPUs. Two constants of streams are fitted to the products on the H200: how many multiprocessors a block "
        "of a product keeps from other kernels (2), and the distance of two launches (0.7 us). Its functions and the "
        "whole H100 are compared only. Compared are the time of all 32, and by how much several streams are faster "
        "than one; a row is one of both for an op on a device. Functions of a few microseconds are too slow already "
        "on one stream: what was measured found its operands in the L2 cache, the simulation loads them from DRAM. A "
        "softmax of 1,024 columns has a faster kernel than longer ones, which the simulation does not know."
    ),
    "collectives": (
        "All-reduce and messages of NCCL as Vidur (a DGX A100, a DGX H100, pairs of GPUs, two nodes), LLMCompass (four "
        "A100) and DeepBench (boxes of GPUs on PCIe) measured them, and of MLSL between Xeon Phi. A row is a set: one "
        "kind, one number of ranks, one number of nodes (DeepBench: one kind of machine). The constants, three to "
        "twelve of a machine for all its sets, stand in `hwspecs/collectives`; each time is compared with that of a "
        "fit which had not seen it. Equal means a median error no larger than is claimed. Below 1 MiB the same "
        "collective took 10 to 60 us from one time to the next, which no constant explains: there the least of three "
        "times is compared, and the 90th percentile is large. The measurements are other people's and not part of "
        "this project."
    ),
    "collectives-served": (
        "Collectives of NCCL (nccl-tests) and all-reduces of vLLM over 2, 4 and 8 GPUs of one server, as aiconfigurator "
        "measured them, against what `accelsim collective` answers: the constants that ship, which were fitted to two "
        "thirds of the rows. Only rows of the other third are compared, chosen by a hash of their names. A row is a "
        "set: one kind on one machine, with the mean error that is claimed, or the share of a machine's rows inside "
        "their 90 % intervals, which should be 85 to 95 % (of few rows within two standard deviations of it). Beside "
        "each stand the constants of another machine on the links of this one, with the interval for chips that were "
        "not measured, which should hold 80 %. fp16 all-reduces over eight H100 or H200 are added up in the switch, int8 "
        "ones are not. Of vLLM on B200 too few rows were measured for its many kernels; nothing is claimed of it "
        "called eagerly. The measurements are other people's and not part of this project."
    ),
    "serving": (
        "What a layer of Llama 2 70B takes on eight A100 and eight H100, split by tensors: its products with weights "
        "and its all-reduces, against the profiles of Vidur, by chips and libraries as they ship (fitted to these "
        "profiles among others); and a whole layer of GPT-3 on four A100 (LLMCompass), kernel by kernel, by constants "
        "of kernels that the same lab measured alone. A row is a time; it passes where its error is no larger than is "
        "claimed. Nothing is claimed of an all-reduce whose measured times fall with size by more than the claim: "
        "below 1 MiB they jump by half and more from one size to the next. Whole generations on several GPUs were not "
        "compared with measurements."
    ),
    "training": (
        "Training steps of GPTs on clusters of A100, simulated op by op, against measured times: vTrain on "
        "several nodes and on one, table 5 of Korthikanti et al. (Selene, all and selective recomputation), the "
        "weak scaling of Megatron-LM (SC21), GPipe's pipelines of a transformer, and the 25 days of GPT-3 on 240 "
        "p4d. A row is a set; it passes where its median or mean error is no larger than is claimed. The "
        "constants of the chip are fitted to products of another A100 (Vidur), those of the network to "
        "collectives of a DGX A100 (Vidur); none of them comes of these rows. Two constants do: the time of a "
        "host for a kernel and the share of it that the device waits (every eighth row of vTrain's single nodes, which "
        "are not compared). Which activations vTrain computed again is not stated: on several nodes all of them fits, on "
        "one node none of them. Small microbatches on several nodes with tensor parallelism of 2 over 8 and 16 "
        "stages took half as long again as neighbouring rows, which nothing here explains. The plan of the 25 "
        "days is not published: 8 x 8 x 30 is taken. These are from before FlashAttention: scores in memory, dropout. "
        "The rest is training as it is today, asked for as a user does (`accelsim run --train`), attention in one "
        "kernel: MPT by PyTorch's FSDP on 8 to 128 A100 and H100, and Megatron-LM's table of 2024 on 48 to 3,072 H100. "
        "None of these steps is refused for its memory. Every second row of MPT of 7 billion parameters and more and up "
        "to 8,192 tokens told three constants (how much longer a pass takes beside the collectives of ZeRO 3; the backward "
        "pass of attention on Hopper; by how much the clock of A100s falls in a training) and is not compared; no row of Megatron-LM told any. MPT's attention was a kernel "
        "of 2023, which is slow on long sequences and on Hopper, and nothing of it was compiled: smaller models and "
        "longer sequences are a set of their own."
    ),
    "gpu-power": (
        "Simulated joules of an inference at the wall, of GPU, host, fans and the losses of supplies, against what the "
        "servers of MLPerf drew. They had limited the power of their GPUs to where an inference takes the least energy "
        "(MaxQ), by how much they do not say: simulated is that of a few clocks at which the joules at the wall are "
        "least. What a host draws, 300 W, comes of half of the submissions, by a hash, those in the middle of which it "
        "makes right; the others are compared. No constant of a GPU comes of any."
    ),
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
    "sram-fit": (
        "A smooth model of on-chip memories against the 204 CACTI runs that it was fitted to. A row is a quantity of "
        "one node and cell; it passes when the median of its relative errors is within the bound (energy 8 %, area, "
        "access time and leakage 10 %, cycle time 30 %). The errors are those of all points: CACTI leaps where it "
        "changes how a memory is cut into mats, and a smooth curve does not follow. They say nothing about silicon."
    ),
    "pcie": (
        "192 rows of the public pcie-model (PCIe 2 to 5, 8 and 16 lanes, payloads of 128 to 512 B, transfers of 64 B "
        "to 1 MiB): raw rate, rate of packets, and payload rate of writes, reads and both at once. Equal means within "
        "1e-4; the rows are rounded to four decimals. They are a model's, not a measurement's: real links add latency, "
        "and lose a few percent to chipsets."
    ),
    "noc-zero-load": (
        "16 runs of BookSim 2 (mesh and torus, 4 x 4 and 8 x 8, uniform and transpose) on an almost empty network: "
        "mean latency within 0.05 clocks of the formula, the nearest pair exactly, the farthest no less than it "
        "(even an almost empty network makes some packet wait), and the throughput bounds of closed forms."
    ),
    "noc-load": (
        "The same configurations at a tenth of a flit per clock and node: the packet simulation within 5 % of "
        "BookSim's mean latency. The errors are the simulation's; the remarks give those of the queueing formula. Near "
        "saturation the simulation is only a trend: see docs/networks.md."
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
        "Whole products of cuBLAS on an H200 and an H100, which gave the same bits, and 600 dot products per GPU and "
        "format as real V100, A100 and H100 chips computed them, against the table of accumulation rules: equal means "
        "equal in every bit. Where cuBLAS cuts K into parts, the sums of these are added in FP32. The 600 are other "
        "people's and not part of this project; where they are not at hand, only the products are compared."
    ),
    "eyeriss-hierarchy": (
        "Energy by level of the hierarchy, in multiplications: the costs of a register, another PE, a "
        "buffer and DRAM are those of a paper, the counts those of a simulated systolic array of the same "
        "size. Rows are exact where they say that the ledger times the costs is the energy; the others say "
        "which level takes most in which layer. The remarks say what a systolic array cannot show of a "
        "row-stationary one, and why."
    ),
    "row-stationary": (
        "AlexNet layer by layer on the simulated Eyeriss chip, its published mappings pinned. Clocks of the array and "
        "words of each kind must be those of the formulas that equal the PE-level model, exactly. The other rows are "
        "what a paper measured on the chip. The table was known when the machine was stated, so the bounds say how far "
        "off the model is, not how well it predicts."
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
    "dram-ramulator2": (
        "Runs of Ramulator 2.1, replayed: the bank model schedules the same bursts on a spec with the same "
        "parameters. The errors are those of the clocks until the last data. reports/dram.md has every run."
    ),
    "dram-dramsim3": (
        "The same for DRAMsim3. The two simulators differ from each other by up to 30 % where the scheduler "
        "decides, with equal parameters; reports/dram.md says how much, and where."
    ),
    "dram-ranks": (
        "Mixes of reads and writes keep the bus of two ranks busy, so the order of the commands decides. The figures "
        "are those of a program that states DRAMsim3's rules a second time and gives all of its 52 golden runs on "
        "DDR3 and DDR4 to the clock; here the specs of its configurations, with the scheduler 'queues'."
    ),
    "dram-energy": (
        "DRAMsim3's energies, part by part, computed again from its own counts of commands. That proves the "
        "accounting, not the currents: they come from data sheets, and silicon differs from those."
    ),
}
"""Check -> what its numbers mean."""

INTRODUCTION = (
    "Errors are relative (of percentages: in points / 100), without their sign; a dash where only "
    "equality counts. Rows that are compared without a claim stand in the lists below, not in the table. "
    "`accelsim validate NAME --details` runs one check.\n"
)

NOT_VALIDATED = (
    "**Joules.** Counts of actions are checked (laws, closed forms, RTL); the energy of one action comes "
    "from tables that disagree with each other, and no measured energy of a run is compared. See the "
    "spread below. Compare designs under one table; do not quote absolute joules.",
    "**Watts.** Idle power is a constant of the spec; it does not follow voltage, temperature or activity.",
    "**The vector unit and the host.** Their rates (clocks per element, a usable share of the peak) are "
    "stated in the specs with their sources or as guesses, and not compared with measurements.",
    "**DRAM under load.** The DRAM models are compared with two simulators, not with silicon, and only in clocks, "
    "commands, energy and the latency of a lone read. The default memory model, 'bandwidth', is latency plus whole "
    "beats: it knows neither rows nor refresh.",
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
  model: it is the price of quantising random weights with ranges from one batch, not an accuracy.

"""

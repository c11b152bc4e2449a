"""Meanings of the numbers of reports/accuracy.md and reports/light-models.md, in plain words."""

from __future__ import annotations

MEANING = {
    "gpu-gemm": (
        "Matrix products on GPUs from Pascal to Hopper, a P4, an MI25 and an MI100, measured by Vidur, NeuSight and "
        "DeepBench. A row is a set on one device: a third of the file's rows, by a hash of their sizes, without part "
        "in the shipped constants (one fit over all kinds of kernels, `python -m tests.validation.shipped`). Each is "
        "predicted like `accelsim kernel --csv` at the site `calibration-lab`, or `calibration-lab-eager` where "
        "PyTorch launched each kernel. A row agrees if its mean error is at most the claimed one and 85 to 95 % of "
        "its kernels lie within their intervals (nearly, on small sets). Remarks give fits to the set alone (at most "
        "eight constants, on left-out rows), a fitted roofline, and constants of the other devices. The measurements "
        "are other people's and not included; without them nothing is compared."
    ),
    "gpu-conv": (
        "Convolutions, forward and gradients, compared like products. The remaining error is mostly cuDNN's choice of "
        "an algorithm, for which the model takes its own fastest estimate."
    ),
    "gpu-vector": (
        "Elementwise functions, softmax and layer norms, compared like products. Products and functions share the "
        "host's time per call."
    ),
    "gpu-attention": (
        "Attention in one kernel on an H100 (LLMServingSim, vLLM's FlashAttention 2), prompts of 36 to 2,007 tokens "
        "in two language models. The shipped H100 is calibrated to a later FlashAttention in a graph; these times "
        "include launches by the profiler's host, so predictions are far below them. A fit of two constants to these "
        "rows is close."
    ),
    "gpu-labs": (
        "Chips that a second lab measured, predicted with the first lab's constants and the intervals printed without "
        "a site record, which cover the spread between labs. A row is a kind of kernels, with equal weight for each "
        "place; it agrees if eight of ten kernels lie within, also with the spread determined by the other places."
    ),
    "gpu-models": (
        "Whole networks on GPUs: inference and training steps of five language models by PyTorch (NeuSight), "
        "ResNet-50 and BERT by batch in three frameworks (DeepLearningExamples), ResNet-50 and BERT-Large in MLPerf "
        "offline, single kernels and one GPT-3 layer (LLMCompass). No row has a part in a chip's constants. Each "
        "framework on each machine has two numbers (least time of a pass, a factor), fitted to its other rows. In "
        "MLPerf each network and format has one number from the other chips, and each chip one from its other "
        "workloads. Without its own the T4 is off by half: its clock falls under Tensor Cores more than in its "
        "calibration to short kernels. A row agrees if its mean error is at most the claimed one. Gradients of a "
        "training step stay on the device; elementwise parts of one gradient are one kernel."
    ),
    "gpu-serving": (
        "Kernels of LLM serving under vLLM, timed by aiconfigurator with everything around them: linear layers in a "
        "CUDA graph with their input quantiser, attention with its cache write, mixtures of experts with routing and "
        "sum. Constants are fitted to two thirds of a GPU's rows; the other third is compared, with shipped specs and "
        "`accelsim kernel --csv`. The forms were chosen with all rows in view. A row is a kind of kernel in one "
        "format on one GPU; it agrees if its mean error is at most the claimed one and its intervals hold 80 % "
        "(nearly, on small sets). Remarks give three fits to other thirds, and medians over other GPU families' "
        "constants, as for an unmeasured GPU. Layers in FP8 blocks are left out: they were timed with their host."
    ),
    "generations": (
        "Whole generations, as `accelsim run 'MODEL?prompt=P,new=N' --stack tensorrt-llm` predicts them, against "
        "NVIDIA's tables for TensorRT-LLM 0.5 and 0.6: batches of equal prompts, and first tokens. Six H100 rows "
        "determine constants of single queries and of the host; linear layers and prompts have vLLM's constants on "
        "the same GPUs. A row is a GPU; it agrees if the mean error of the remaining rows is at most the claimed one "
        "and the claimed number lies within their intervals."
    ),
    "gpu-uncalibrated": (
        "Square products of 1,024 to 10,240, timed in PyTorch by owners of ten boards whose products were not fitted "
        "here (github.com/zzc0721/torch-performance-test-data; of five boards only the fastest). They have the "
        "defaults: a share of the peak, and a clock that falls or rises with the design power. Three numbers were "
        "chosen on these boards; remarks give the error with the three chosen on the other boards. A row is a board "
        "and a unit, Tensor Cores or FP32 lanes; it agrees if its mean error is at most the claimed one."
    ),
    "gpu-own": (
        "Kernels on an H200 and an H100, timed for this project with `accelsim measure` (PyTorch 2.11, CUDA 13.0, "
        "replayed from CUDA graphs, operands not in the L2 cache; `tests/golden`). Sizes are random; 60 % of the "
        "products have rows at multiples of 64 elements, a fifth anywhere. The H200 is calibrated to 1,610 kernels; "
        "these 995 were measured afterwards. They refuted one rule for 7 x 7 filters, so convolutions are no longer "
        "unseen. The H100 has Vidur's FP16 products, its own attention, and otherwise the H200's constants. These "
        "shapes are harder than those in networks. A row is an op in one format; it agrees if its mean error is at "
        "most the claimed one."
    ),
    "gpu-own-models": (
        "Whole networks on the same two GPUs, replayed from CUDA graphs: the simulated graph, node by node in PyTorch "
        "(`accelsim measure --model`), with attention written out or in one call. No constant is fitted to them, but "
        "all except ten networks of the H200 (from vit-b16 on) were seen while the form was chosen. Joules are from "
        "the board's energy counter; the model is fitted to those of single kernels. A row is the mean error of "
        "seconds or joules on one device."
    ),
    "gpu-watts": (
        "Watts of single kernels on the same two GPUs, by their boards' energy counters. Power of busy "
        "multiprocessors and energies around operations are fitted to 67 kernels that the H200 did not slow down. "
        "Compared are its other kernels and all of the H100, at the measured times. Kernels that the boards slowed "
        "down determine the exponent of the clock. A row is the mean error on one device."
    ),
    "coverage": (
        "Every kind of printed interval, and the share of measurements that it holds: steps, networks, generations, "
        "joules and watts (`hwspecs/intervals`, from two of three rows by a hash); pairs of plans for one model, "
        "batch and GPU count (how much slower the next one is); single kernels in their chip's lab, in another, and "
        "on an unmeasured chip; collectives. As shipped: rows without part in any constant or factor. By parts: each "
        "fifth of the rows within the other fifths' factors. Left out: a lab, a model family or a device, predicted "
        "from the others; the mean over these, with equal weights. Uncalibrated products, functions and convolutions "
        "have the shipped defaults; those of convolutions were chosen on these GPUs together. A dash: only one group "
        "exists, or a row of its own covers it. A row agrees if it holds 85 to 95 % and at least 80 % of what is left "
        "out (few rows: within two standard deviations). Forms, weights and kinds were chosen with all rows in view."
    ),
    "gpu-streams": (
        "32 equal independent kernels on 1, 2, 4, 8 and 16 streams in a CUDA graph, on the same two GPUs. Two "
        "constants are fitted to the H200's products: how many multiprocessors a product's block keeps from other "
        "kernels (2), and the time between launches (0.7 us). Its functions and the whole H100 are only compared: the "
        "time of all 32, and the gain over one stream, a row each per op and device. Functions of a few microseconds "
        "are too slow on one stream already: the measured ones found operands in the L2 cache, the simulated ones "
        "load them from DRAM. A softmax of 1,024 columns has a faster kernel, which the simulation does not know."
    ),
    "collectives": (
        "All-reduces and messages by NCCL as Vidur (a DGX A100, a DGX H100, GPU pairs, two nodes), LLMCompass (four "
        "A100) and DeepBench (GPU boxes on PCIe) measured them, and by MLSL between Xeon Phi. A row is a set with one "
        "kind, number of ranks and number of nodes (DeepBench: one kind of machine). Each machine has three to twelve "
        "constants for all its sets (`hwspecs/collectives`); each time is compared with a fit that had not seen it. A "
        "row agrees if its median error is at most the claimed one. Below 1 MiB the same collective took 10 to 60 us "
        "from one time to the next, which no constant explains: there the least of three times is compared, and the "
        "90th percentile is large. The measurements are other people's and not included."
    ),
    "collectives-served": (
        "Collectives by NCCL (nccl-tests) and all-reduces by vLLM over 2, 4 and 8 GPUs in one server, measured by "
        "aiconfigurator, against `accelsim collective` with shipped constants, which are fitted to two thirds of the "
        "rows; the other third, by a hash of names, is compared. A row is one kind on one machine with its claimed "
        "mean error, or the share of a machine's rows inside their 90 % intervals, which should be 85 to 95 % (few "
        "rows: within two standard deviations). Remarks give another machine's constants on these links, with the "
        "interval for unmeasured chips, which should hold 80 %. The switch sums fp16 all-reduces over eight H100 or "
        "H200, but not int8. vLLM on B200 has too few rows for its many kernels; nothing is claimed about its eager "
        "calls. The measurements are other people's and not included."
    ),
    "serving": (
        "A layer of Llama 2 70B on eight A100 and eight H100, split by tensors: products and all-reduces against "
        "Vidur's profiles, with shipped chips and libraries (fitted to these profiles among others); and a whole "
        "GPT-3 layer on four A100 (LLMCompass), kernel by kernel, with constants of single kernels from the same lab. "
        "A row is a time; it agrees if its error is at most the claimed one. Nothing is claimed about an all-reduce "
        "whose measured times fall with size by more than the claim: below 1 MiB they jump by half and more. Whole "
        "generations on several GPUs were not compared."
    ),
    "training": (
        "Training steps of GPTs on clusters, simulated op by op, against measured times. From before FlashAttention "
        "(scores in memory, dropout): vTrain on several nodes and on one, table 5 of Korthikanti et al. (Selene, full "
        "and selective recomputation), Megatron-LM's weak scaling (SC21), GPipe's pipelines, and GPT-3's 25 days on "
        "240 p4d. A row is a set; it agrees if its median or mean error is at most the claimed one. The chip is "
        "fitted to products on another A100 (Vidur), the network to collectives on a DGX A100 (Vidur). Two constants "
        "come from here: the host's time per kernel and the share that the device waits (every eighth row of vTrain's "
        "single nodes, which are not compared). vTrain does not state its recomputation: all fits on several nodes, "
        "none on one. Small microbatches on several nodes with tensor parallelism of 2 over 8 and 16 stages took half "
        "as long again as neighbouring rows, which nothing here explains. The plan of the 25 days is not published: 8 "
        "x 8 x 30 is taken. Later training, as a user asks for it (`accelsim run --train`), with attention in one "
        "kernel: MPT by PyTorch's FSDP on 8 to 128 A100 and H100, and Megatron-LM's table of 2024 on 48 to 3,072 "
        "H100. None of these steps is refused for its memory. Every second row of MPT with at least 7 billion "
        "parameters and at most 8,192 tokens determines three constants (how much longer a pass takes beside ZeRO 3's "
        "collectives; attention's backward pass on Hopper; how much A100 clocks fall in training) and is not "
        "compared; no row of Megatron-LM determines any. MPT's attention was a kernel of 2023, slow on long sequences "
        "and on Hopper, without compilation: smaller models and longer sequences are a separate set."
    ),
    "gpu-power": (
        "Simulated joules per inference at the wall (GPU, host, fans, supply losses) against MLPerf's servers. These "
        "limit the GPUs' power to where an inference takes the least energy (MaxQ), by an unknown amount: of a few "
        "simulated clocks, the one with the least joules is taken. A host's 300 W is fitted to the median of half the "
        "submissions, by a hash; the others are compared. No GPU constant is fitted to any."
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
    "area": (
        "The area that `accelsim sweep` gives to a chip which states no die, against eleven published ones from 65 to 7 "
        "nm: whole dies, and blocks where only these were published, which are compared without the share for the rest "
        "of a die. TPU v1 gave all factors and is not among them. Most published figures are recalled, those of TPUs "
        "are upper bounds, and what is on those dies beyond arrays, vector units, buffers and DRAM is not known."
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
    "ranking": (
        "How sure `accelsim.account.odds` is that one chip is faster than another on a workload, against measured pairs. "
        "Most pairs are far apart and trivially right. So each pair is also asked at another price: by which factor may "
        "the slower chip be cheaper until the ranking is 90 % sure? That factor is compared with the measured ratio, both "
        "ways round. A row is a source; it agrees if 85 to 95 % are right there, or the claimed share. MLPerf offline "
        "tells the correlation of two chips' errors: pairs of ResNet-50 are judged by the correlation of BERT's pairs, and "
        "the other way round; other sources by the one that ships, which is the last row. MLPerf offline and "
        "DeepLearningExamples also had a part in the widths of intervals. A chip has the median of all its submissions. "
        "Pairs share chips, so they tell less than as many independent ones would."
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
    "money": (
        "What 1,000 predictions or a training cost on instances, predicted against published. Both sides have the prices "
        "of `hwspecs/instances`, so only times differ: T4 against V100 (DeepLearningExamples; MLPerf inference has no "
        "V100), MLPerf offline on AWS, ResNet-50 training on dl1, p4d and p3, BERT on Inferentia2 and Trainium1. "
        "Inferentia1 has no spec: inf1 against g4dn is not compared. Vendors' own figures lie in "
        "`tests/golden/money/published.csv` with their sources. A row is a group; it agrees if its median error is at "
        "most the claimed one. The Gaudi is uncalibrated, its matrix engine a guess."
    ),
    "neuron-tables": (
        "Benchmark pages of the Neuron SDK: BERT and ResNet on Inferentia, Inferentia2 and Trainium1, time per token of "
        "Llama and Mistral decoders. Nothing of a chip's spec is fitted: six named constants (pace, time per call, per "
        "image, per all-reduce) are fitted on two configurations of three. Rows are those of the others; errors without "
        "the constants stand beside them."
    ),
    "neuroncore-v2": (
        "The rules that the vendor publishes for its tensor engine, for every size that one instruction "
        "can have, and for instructions of the other engines of NeuronCore-v2 and v3. These are rules, not measurements: equal means that the spec file leads to the "
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

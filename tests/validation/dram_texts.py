"""What the numbers of reports/dram.md mean, in plain words."""

from __future__ import annotations

HEAD = """\
# DRAM timing and energy against two simulators

Made by `{COMMAND}`, which computes every number again. Do not edit.

"""

INTRODUCTION = """\
143 runs of DRAMsim3 (with its shipped files and with aligned ones) and of Ramulator 2.1, each a named trace on one
configuration, are replayed on our spec of the same configuration (`hwspecs/dram/anchors`) through two models: `bank`
schedules every burst, `pattern` simulates windows of a long trace with it and extrapolates. Requests
are offered in order, as many per clock as there are channels; a refused one is offered again.

`shipped` configurations are what the simulators come with. In `aligned` ones both have the same geometry, mapping and
timing, so that what is left between them is how they schedule. The sums leave out variants (other mappings, closed
pages) and DRAMsim3's GDDR6 file, which contradicts itself; the tables at the end have every run.

"""

PICTURE = """\
![Error of the clocks by trace]({PLOT})

Errors by trace over the same runs, median (and largest):

"""

MIXES = """\
## The pattern model beside the bank model

Random places with 0, 10, 33, 50 and 80 % writes, over 256 MiB and over the whole memory, 65,536 and
262,144 accesses: |clocks of `pattern` / clocks of `bank` - 1|, median, 90th percentile and largest. 0.00 % means that a
memory's windows would be longer than the trace, so all of it was simulated.

"""

DISAGREE = """\
## How far the two simulators are from each other

The same trace with aligned parameters. Where the two differ by several percent, no model can be within 1 % of both:
what differs is the policy of the scheduler (queues per bank against one queue; whether a precharge may go before hits
that still wait), not the DRAM.

"""

RANKS = """\
## Random mixes of reads and writes, on one and on two ranks

65,536 different places anywhere in 256 MiB. Errors of the clocks of `bank` by scheduler, on the specs of DRAMsim3's
configurations: `queues` as they state it, the other two on one window of 40. The clocks are not DRAMsim3's own: a
program that states its rules a second time made them, which gives all of its 52 runs on DDR3 and DDR4 above to the
clock (one, in which it counts the end, apart). What `queues` has too much is the last writes, of which DRAMsim3 leaves
some in its queues.

One rank is held up by tFAW and tRC, and the order of commands matters little. Two ranks fill the bus: there it decides
how often the direction changes. In DRAMsim3 reads and writes that have left the window compete for the bus, and a read
of the other rank may follow a write sooner than another write, so the bus turns round several times as often as with
the other two, which drain writes without a read between. With few writes that costs time; with many, the others wait
for reads one by one between two drains.

"""

LESSONS = """\
## What is behind the errors

- `conflict`, `chase`, sequential streams: device timing and refresh decide, and little is left. In `chase` DRAMsim3
  takes about a clock more to hand over the next request; the latency of the read itself agrees.
- `tile3` and `stream3`: several rows of one bank are wanted at a time, and the order is a matter of policy. With
  `scheduler: bursts`, the default, waiting hits go before a precharge; Ramulator 2.1 treats both alike and opens up to
  twice as many rows. The specs of its configurations say `scheduler: commands`, which does the same. Those of DRAMsim3
  say `scheduler: queues`: a queue of eight commands for each bank, whose banks take turns, and a row that gives way
  after four accesses. On DDR3 and DDR4 that is command for command the same, so streams and tiles agree to the clock.
- What is left of DRAMsim3: reads of one place that wait together are served by one RD (random reads), the last writes
  are never sent (`seq_write`), GDDR keeps precharges tPPD apart, which our tables do not have.
- HBM1 and HBM2 of Ramulator 2.1: an activation holds the bus for commands of rows for two clocks, and two
  pseudo-channels share queue and buses, so random reads wait for commands (`act_clocks: 2`, `shared: 2`). The spec
  of HBM3 counts half clocks as the simulator does: an activation holds the bus for three, and precharges may lie at
  either edge (`act_clocks: 3`, `edge: 2`).
- The latency under load is queueing in queues of different sizes (the two simulators differ up to threefold), and is
  not compared. `chase` is not for the pattern model, which knows nothing of requests that wait for each other.

"""

COLUMNS = """\
## Every run

`error`: ours / theirs - 1. `hits` are bursts that found their row open; DRAMsim3 counts a burst as a hit when it is
not the first since the activation, Ramulator 2.1 and we by what a burst finds when it is first looked at. The latency
is that of a lone read, from acceptance to its last data, in clocks. `energy of our counts`: energy of the dies from
the bank model's own commands and standby, against DRAMsim3's total.
"""

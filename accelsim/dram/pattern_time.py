"""When the blocks of a stream are done: the timing half of the ``pattern`` model.

Every resource of a channel works through the blocks of the stream (see ``pattern_work``) one after the other::

    free[resource] = max(free[resource], admission of its first burst) + busy[block, resource]

and a block is done when its last resource is. The window couples them: a burst is admitted when no more than
``window`` - 1 older ones are left in the queue of its channel, in the order of the stream over all channels
(head-of-line blocking). Stretches of the stream (*lanes*) advance side by side, each after a short warm-up on the
blocks before it, so one NumPy operation serves hundreds of blocks. All times are clocks without refresh.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accelsim.dram.device import Device
from accelsim.dram.pattern_rows import Found, Groups, Turns
from accelsim.dram.pattern_visits import Course, Few, Ramp
from accelsim.dram.pattern_work import Costs, Shape, Work, work

Array = np.ndarray[Any, Any]
STEPS = 32
"""Blocks of a lane."""
WARM_UP = 6
"""Blocks before a lane that are repeated to find out what is under way when it begins: three windows."""
LATE = 3
"""Most bursts of a block are done near its middle and a few, of the bank that is wanted most, long after: the time at
which a share of the second half is done is that share to this power."""
NEVER = np.float32(-1e9)


class Past:
    """State of some lanes; arrays end in the axis of the lanes, the one before it are channels.

    ``free``: clock at which each resource is. ``admitted``: the last admission of all channels; ``own``: of each
    channel for itself, NEVER where its queue is not full. ``mean``, ``end``: mean and last completion of the last
    block, ``_before`` of the one before. ``served``: last completion. ``opening``: clocks from a precharge to the
    column command, in proportion to the activations of the last block.
    """

    def __init__(self, channels: int, resources: int, lanes: int) -> None:
        each = (channels, lanes)
        self.free: Array = np.zeros((channels, resources, lanes), np.float32)
        self.admitted: Array = np.zeros(lanes, np.float32)
        self.own: Array = np.full(each, NEVER)
        self.mean: Array = np.zeros(each, np.float32)
        self.mean_before, self.end, self.end_before = (self.mean.copy() for _ in range(3))
        self.served, self.opening = self.mean.copy(), self.mean.copy()

    def put(self, lane: int, other: Past, shift: float) -> None:
        """Copy the last lane of ``other`` into ``lane``, with all clocks ``shift`` later."""
        for name, values in vars(self).items():
            values[..., lane] = getattr(other, name)[..., -1] + (
                0 if name == "opening" else np.float32(shift)
            )


class Plan:
    """What is known of each block before its times; arrays (steps, channels, lanes + 1) of float32.

    ``recent``, ``earlier``: share of this channel in the last block, and in the one before, of what the two brought to
    its queue. ``reach`` (steps, queues, lanes + 1): how far in these two the completion lies that admits the last burst
    of this block, from -1 (their begin) over 0 (middle) to 1 (end); ``free``: NEVER where nothing need be waited
    for. ``inject`` (steps, lanes + 1): clocks that the stream takes to offer the block. ``behind`` (steps, channels,
    groups, lanes + 1): least clocks from the admission before the block to its end in a group, NEVER without
    bursts: older bursts go first, and it gets what they leave of the bus. ``half``: see ``Work.half``. ``opening``:
    see ``Past``.
    """

    def __init__(
        self, costs: Costs, work_: Work, window: int, shared: int, turns: Turns, carried: Array
    ) -> None:
        shape = work_.shape
        queues = shape.channels // shared
        bursts = work_.bursts[:, :, 1:].transpose(2, 0, 1).reshape(-1, shape.channels)
        last = np.vstack([carried[:1], bursts[:-1]])
        before = np.vstack([carried[1:2], last[:-1]])
        last[turns.block], before[turns.block] = 0, 0
        after = turns.block[turns.block + 1 < len(bursts)] + 1
        before[after] = 0
        own = last + before
        waiting, arriving = (each.reshape(-1, shared, queues).sum(1) for each in (own, bursts))
        share = np.clip((waiting + arriving - window) / np.maximum(waiting, 1), 0, 1)
        full = (waiting > 0) & (waiting + arriving > window)
        remaining = own * (1 - np.tile(share, shared)) + bursts
        left = np.vstack([carried[2:], remaining[:-1]])
        queued = np.tile(np.maximum(waiting, 1), shared)
        end = turns.blocks - 1
        self.carried = np.vstack([bursts[end], last[end], remaining[end]])
        self.shared = shared
        self.recent, self.earlier = self._laid(shape, last / queued), self._laid(shape, before / queued)
        reach = 2 * share - 1
        self.reach = self._laid(shape, np.where(reach > 0, reach**LATE, reach))
        self.free = self._laid(shape, np.where(full, 0, NEVER))
        self.inject = self._laid(shape, np.repeat(bursts.sum(1, keepdims=True), shape.channels, 1))[:, 0]
        self.inject /= shape.channels
        spare = 1 / costs.bus[0] - 1 / costs.cas[0]  # bursts per clock that one group leaves to the others
        count = work_.group_bursts
        behind = self._laid(shape, left)[:, :, None] * costs.bus[0] + count * costs.bus[0]
        if spare > 0:
            behind = np.minimum(behind, count / spare)
        self.half = work_.half()
        self.opening = work_.acts / np.maximum(work_.bursts, 1) * np.float32(costs.rp + costs.to_cas[0])
        self.behind = np.where(count > 0, behind, NEVER).astype(np.float32)

    @staticmethod
    def _laid(shape: Shape, values: Array) -> Array:
        """(blocks, n) -> (steps, n, lanes + 1)."""
        width = values.shape[1]
        laid = np.zeros((shape.steps, width, shape.lanes + 1), np.float32)
        laid[:, :, 1:] = values.reshape(shape.lanes, shape.steps, width).transpose(1, 2, 0)
        return laid


class Timeline:
    """The clocks of a device's channels; ``served``: of the last column command so far, without refresh."""

    def __init__(self, device: Device) -> None:
        geometry = device.geometry
        self.costs = Costs(device)
        self.window, self.shared = device.controller.window, device.controller.shared
        self._device = device
        self._past = Past(geometry.channels, Shape(1, 1, *self._sizes).resources, 1)
        self._carried = np.zeros((3, geometry.channels))
        self.served = 0.0
        self.spread = 1.0  # see Work, of the last part
        self._origin = 0.0
        self._course = Course(self.costs, self._sizes, self.window, self.shared)

    @property
    def _sizes(self) -> tuple[int, int, int, int]:
        geometry = self._device.geometry
        return geometry.channels, geometry.ranks, geometry.groups, geometry.banks

    def wait(self, clock: float) -> None:
        """Nothing is admitted before ``clock``."""
        self._past.admitted[-1] = max(self._past.admitted[-1], np.float32(clock - self._origin))
        self.served = max(self.served, clock)

    def advance(self, groups: Groups, bank: Array, acts: Array, found: Found, turns: Turns) -> float:
        """Serve groups that have been split into blocks; ``bank``: flat bank of each, ``acts``: its activations.

        Returns ``served``."""
        steps = min(turns.blocks, STEPS)
        shape = Shape(steps, -(-turns.blocks // steps), *self._sizes)
        work_ = work(self.costs, shape, groups, bank, acts, found, turns)
        self.spread = work_.spread
        plan = Plan(self.costs, work_, self.window, self.shared, turns, self._carried)
        self._carried = plan.carried
        lanes = Past(shape.channels, shape.resources, shape.lanes)
        rebase = self._origin - self.served
        lanes.put(0, self._past, rebase)
        bus = (lanes.free[:, -1, 0] + work_.busy[:, :, -1].sum((0, 2), dtype=np.float64)).max()
        for step in range(-min(WARM_UP, steps) if shape.lanes > 1 else 0, 0):
            _advance(lanes, work_, plan, self.costs, steps + step, slice(0, shape.lanes))
        begin = lanes.served.max(0)
        begin[0] = 0
        for step in range(steps):
            _advance(lanes, work_, plan, self.costs, step, slice(1, shape.lanes + 1))
        end = np.maximum(lanes.served.max(0), 0)
        taken = max(float((end - begin).sum(dtype=np.float64)), float(bus))
        self._past = Past(shape.channels, shape.resources, 1)
        self._past.put(0, lanes, -float(end[-1]))
        self.served += taken
        self._origin = self.served
        return self.served

    def few(self, stream: Few, met: list[int], again: list[int], write: bool, turn: bool) -> float:
        """Serve a stream of few visits; ``met``, ``again``: see ``pattern_visits.openings``; ``turn``: the direction
        changes. Returns ``served``."""
        course, past, shift = self._course, self._past, self._origin - self.served
        free = (past.free[:, :, -1] + np.float32(shift)).tolist()
        recent = self._carried[:2].sum(0)
        end = past.end[:, -1].astype(float) + shift
        pace = np.maximum(end - past.mean_before[:, -1] - shift, 0) / np.maximum(0.75 * recent, 1)
        ramps = map(Ramp, (end - pace * recent).tolist(), end.tolist(), recent.tolist())
        course.load(free, list(ramps), float(past.admitted[-1]) + shift)
        if turn:
            course.turn(write)
        else:
            course.admit()
        self.spread = course.serve(stream, met, again, write)
        self._keep(course)
        return self.served

    def _keep(self, course: Course) -> None:
        """The state of ``course`` becomes that of the timeline."""
        half = max(self.window // 2, 1)
        last = [channel.ramps[0] for channel in course.channels]
        done = np.array([channel.done for channel in course.channels])
        taken = max(0.0, float(done.max()))
        past = self._past
        past.free[:, :, -1] = [channel.free() for channel in course.channels]
        past.free -= np.float32(taken)
        ends = done - taken
        bursts = np.array([min(ramp.bursts, half) for ramp in last])
        pace = np.array([(ramp.done - ramp.begin) / max(ramp.bursts, 1) for ramp in last]) * bursts
        past.own[:], past.opening[:] = NEVER, 0
        past.admitted[:] = course.admitted - taken
        for name, back in (("mean", 0.5), ("end", 0), ("mean_before", 1.5), ("end_before", 1), ("served", 0)):
            getattr(past, name)[:, -1] = ends - back * pace
        self._carried = np.array([bursts, bursts, 2 * bursts], float)
        self.served += taken
        self._origin = self.served


def _turn(lanes: Past, costs: Costs, turn: Array, first_group: int, first_rank: int) -> None:
    """The bus and the bank groups change direction when all older bursts are done.

    Rows may be opened for the new direction as early as the older bursts only wait for theirs.
    """
    groups = slice(first_group, first_rank)
    done = np.where(turn.any(0), lanes.served, NEVER)
    lanes.free[:, groups] += np.tensordot(costs.turn_group, turn, 1).astype(np.float32)
    for part in (groups, slice(-1, None)):
        np.maximum(lanes.free[:, part], done[:, None], out=lanes.free[:, part])
    banks = slice(0, first_group)
    np.maximum(lanes.free[:, banks], (done - lanes.opening)[:, None], out=lanes.free[:, banks])


def _pooled(values: Array, plan: Plan, by: np.ufunc) -> Array:
    """(channels, lanes) -> (queues, lanes): channel c uses queue c modulo their number."""
    if plan.shared == 1:
        return values
    return np.asarray(by.reduce(values.reshape(plan.shared, -1, values.shape[-1]), axis=0))


def _advance(lanes: Past, work_: Work, plan: Plan, costs: Costs, step: int, where: slice) -> None:
    """All lanes, one block further."""
    _, first_group, first_rank, _ = work_.shape.kinds
    groups = slice(first_group, first_rank)
    free, share = lanes.free, work_.share[step, :, :, where]
    before, own = lanes.admitted, lanes.own
    if work_.turn is not None:
        _turn(lanes, costs, work_.turn[step, :, where], first_group, first_rank)
    middle = _pooled(
        lanes.mean_before * plan.earlier[step, :, where] + lanes.mean * plan.recent[step, :, where],
        plan,
        np.add,
    )
    last = _pooled(np.maximum(lanes.end, lanes.end_before), plan, np.maximum)
    admits = middle + plan.reach[step, :, where] * (last - middle) + plan.free[step, :, where]
    lanes.admitted = np.maximum(before + plan.inject[step, where], admits.max(0))
    each = admits if plan.shared == 1 else np.tile(admits, (plan.shared, 1))
    lanes.own = np.where(each > NEVER / 2, np.maximum(own, each), NEVER)
    # a resource that has all bursts of the block starts with the first of them, one that has few when it is complete
    np.maximum(free, lanes.admitted - share * (lanes.admitted - before), out=free)
    free += work_.busy[step, :, :, where]
    np.maximum(free[:, groups], own[:, None] + plan.behind[step, :, :, where], out=free[:, groups])
    lanes.mean_before, lanes.end_before = lanes.mean, lanes.end
    end = (free - work_.tail[step, :, :, where]).max(1)
    mean = (np.add.reduceat(share * free, work_.shape.kinds, axis=1) - plan.half[step, :, :, where]).max(1)
    lanes.end = np.where(work_.bursts[step, :, where] > 0, np.maximum(end, lanes.admitted), lanes.end_before)
    lanes.mean = np.maximum(mean, (lanes.admitted + before) / 2)
    lanes.served = np.maximum(lanes.served, lanes.end)
    lanes.opening = plan.opening[step, :, where]

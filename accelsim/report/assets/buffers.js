"use strict";
// What lay in each on-chip memory: a map of time and addresses.

const MAP_PX = 250, LISTED = 12;
const HUES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"];

class MemoryMap {
  constructor(view, mount, memory, end) {
    Object.assign(this, { view, memory });
    this.start = running(memory.start);
    this.stop = this.start.map((from, index) => from + memory.span[index]);
    mount.append(el("h3", {}, memory.title));
    const step = 2 ** Math.ceil(Math.log2(memory.top / 5)), top = step * Math.ceil(memory.top / step);
    this.painted = new Painted(view, mount, {
      label: `Contents of ${memory.title}`,
      high: Math.max(end, 1), least: view.data.timeline.clock_fs, name: "time", left: 92, height: MAP_PX, places: [0, top],
      across: (colours) => valueAxis(colours, {
        min: 0, max: top, name: memory.axis || "address", nameLocation: "middle", nameGap: 76, interval: step,
        axisLabel: { color: colours.ink, formatter: (value) => bytes(value) },
      }),
      axis: (low, high) => axisText(low, high, "s", 1e-15),
      sets: () => [this.set()],
      find: (time, place) => this.find(time, place),
    });
  }

  set() {
    const { memory } = this;
    return {
      start: this.start, end: this.stop, layer: memory.layer, outlined: true,
      low: (i) => memory.offset[i], high: (i) => memory.offset[i] + memory.size[i],
      fill: (i) => (memory.colours ? memory.colours[memory.tensor[i]] : HUES[memory.tensor[i] % HUES.length]), text: (i) => memory.texts[memory.tensor[i]],
    };
  }

  find(time, place) {
    const { memory } = this, there = [];
    for (let i = 0; i < this.start.length && this.start[i] <= time; i += 1) if (this.stop[i] >= time) there.push(i);
    const under = there.filter((i) => memory.offset[i] <= place && place < memory.offset[i] + memory.size[i]).pop();
    const used = sum(there.map((i) => memory.size[i]));
    const text = (i) => {
      const [tensor, place] = [memory.texts[memory.tensor[i]], memory.texts[memory.place[i]]];
      const by = memory.colours ? "" : `, written by ${this.view.nameOf(memory.layer[i])}`;
      return `${i === under ? "▸ " : ""}${tensor}: ${bytes(memory.size[i])}${place === tensor ? "" : `, ${place}`}${by}`;
    };
    const largest = [...there].sort((a, b) => (b === under) - (a === under) || memory.size[b] - memory.size[a]);
    const more = there.length > LISTED ? `and ${there.length - LISTED} more` : "";
    const title = `${memory.name} at ${seconds(time)}: ${bytes(used)} in use`;
    return { layer: under === undefined ? null : memory.layer[under], html: tip(title, [...largest.slice(0, LISTED).map(text), more, there.length ? "" : "nothing in use"]) };
  }
}

PARTS.buffers = (view, mount) => {
  const { memories, end } = view.data.buffers;
  for (const memory of memories) new MemoryMap(view, mount, memory, end);
};

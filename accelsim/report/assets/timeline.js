"use strict";
// The timeline: a row for the critical path, one for each engine, down to single clock edges.

const ROW_PX = 30;

class Rows {
  constructor(view, mount) {
    const { timeline } = view.data;
    this.view = view;
    this.timeline = timeline;
    this.sets = timeline.rows.map((row, number) => this.setOf(row, number));
    this.cursor = [0, -1];
    keyOf(mount, timeline.rows[0].legend || []);
    this.painted = new Painted(view, mount, {
      label: `Timeline: ${timeline.rows.map((row) => row.name).join(", ")}; arrows up and down choose a row, comma and full stop its slices`,
      high: Math.max(timeline.end, 1), least: timeline.clock_fs, name: "time", left: 118, right: 84,
      height: timeline.rows.length * ROW_PX + 72,
      places: [0, timeline.rows.length],
      across: (colours) => this.across(colours),
      axis: (low, high) => axisText(low, high, "s", 1e-15),
      sets: (colours) => this.coloured(colours),
      behind: (pen, frame) => this.edges(pen, frame),
      find: (time, place, reach) => this.find(time, place, reach),
      keys: (key) => this.key(key),
    });
  }

  setOf(row, number) {
    const start = running(row.start);
    const end = start.map((from, index) => from + row.span[index]);
    const base = this.timeline.rows.length - 1 - number;
    return { row, start, end, layer: row.layer, low: () => base + 0.12, high: () => base + 0.88 };
  }

  across(colours) {
    const { rows } = this.timeline;
    const label = { color: colours.ink, fontSize: 11, width: 104, overflow: "truncate", interval: 0 };
    const axis = { type: "category", inverse: true, axisTick: { show: false }, axisLine: { show: false } };
    return [
      { ...axis, data: rows.map((row) => row.name), axisLabel: label },
      { ...axis, position: "right", data: rows.map((row) => (row.busy ? `busy ${row.busy}` : "")), axisLabel: { ...label, width: 80 } },
    ];
  }

  // Requests first, pale; then what moved or computed, light and dark by layer.
  coloured(colours) {
    if (this.inPaper === colours.paper) return this.ready;
    this.inPaper = colours.paper;
    this.ready = this.sets.flatMap((set) => {
      const { row } = set;
      const text = (i) => (row.moves || row.layer[i] < 0 ? this.timeline.texts[row.label[i]] : this.view.nameOf(row.layer[i]));
      if (row.colours) return [{ ...set, text, outlined: true, fill: (i) => visible(row.colours[row.tint[i]], colours) }];
      const shades = [row.colour, mixed(row.colour, colours.paper, 0.6)], pale = mixed(row.colour, colours.paper, 0.22);
      const busy = { ...set, text, outlined: true, fill: (i) => shades[Math.abs(row.layer[i]) % 2] };
      const asked = { ...set, text: () => "", fill: () => pale, start: set.start.map((from, i) => from - row.request[i]), end: set.start };
      return [asked, busy];
    });
    return this.ready;
  }

  edges(pen, frame) {
    const clock = this.timeline.clock_fs, pixels = (clock / (frame.high - frame.low)) * frame.width;
    if (pixels < EDGE_PX) return;
    pen.fillStyle = mixed(frame.colours.soft, frame.colours.paper, 0.5);
    for (let edge = Math.ceil(frame.low / clock); edge * clock <= frame.high; edge += 1) pen.fillRect(frame.x(edge * clock), 0, 1, frame.height);
  }

  find(time, place, reach) {
    const number = this.timeline.rows.length - 1 - Math.floor(place);
    const set = this.sets[number];
    if (!set) return null;
    let behind = set.start.length, nearest = -1;
    for (let i = 0; i < set.start.length; i += 1) {
      if (set.start[i] - reach <= time && time <= set.end[i] + reach) nearest = nearest < 0 || set.start[i] <= time ? i : nearest;
      if (set.start[i] > time) { behind = i; break; }
    }
    return nearest >= 0 ? this.ofSlice(set, nearest) : this.ofGap(set, behind);
  }

  ofSlice(set, i) {
    const { row } = set, { texts } = this.timeline, layer = row.layer[i];
    const joined = row.count && row.count[i] > 1 ? `${row.count[i]} slices drawn as one` : "";
    const when = `${seconds(set.end[i] - set.start[i])}, from ${seconds(set.start[i])} to ${seconds(set.end[i])}`;
    const lines = row.wait
      ? [texts[row.label[i]], when, row.request[i] ? `held the engine ${seconds(row.request[i])} before its data moved` : "", `waited for: ${texts[row.wait[i]]}`, joined]
      : [row.told ? texts[row.label[i]] : `the run waited for ${texts[row.label[i]]}`, when, joined];
    const title = `${row.name}: ${this.view.nameOf(layer)}`;
    return { layer, html: tip(title, lines), words: [title, ...lines.filter(Boolean)].join("; ") };
  }

  ofGap(set, behind) {
    const { row } = set, { texts } = this.timeline;
    const from = behind ? set.end[behind - 1] : 0;
    if (behind >= set.start.length) return { layer: null, html: tip(row.name, [`has no more to do from ${seconds(from)} on`]) };
    const lines = [`no work for ${seconds(set.start[behind] - from)}`, row.wait ? `its next slice, ${texts[row.label[behind]]}, waits for: ${texts[row.wait[behind]]}` : ""];
    return { layer: null, html: tip(row.name, lines) };
  }

  key(key) {
    const rows = this.sets.length, [number, slice] = this.cursor;
    const to = { ArrowDown: [(number + 1) % rows, -1], ArrowUp: [(number + rows - 1) % rows, -1], ".": [number, slice + 1], ",": [number, slice - 1] }[key];
    return to ? () => this.goTo(to) : null;
  }

  // The keys' way to a slice: it comes into view, and is told.
  goTo([number, slice]) {
    const set = this.sets[number];
    this.cursor = [number, Math.max(-1, Math.min(slice, set.start.length - 1))];
    const i = this.cursor[1], { told, window: [low, high] } = this.painted;
    if (i < 0) {
      told.textContent = `${set.row.name}: ${set.start.length} slices`;
      return;
    }
    if (set.start[i] < low || set.end[i] > high) this.painted.show(set.start[i] - (high - low) / 2, set.start[i] + (high - low) / 2);
    const found = this.ofSlice(set, i);
    told.textContent = found.words;
    this.view.point(found.layer);
  }
}

PARTS.timeline = (view, mount) => new Rows(view, mount);

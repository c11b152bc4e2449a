"use strict";
// What the timeline and the maps of memories do beside the usual.

const EDGE_PX = 7, LISTED = 12;

PLUGS.timeline = {
  behind({ panel, colours, window: [low, high] }, pen, frame) {
    const clock = panel.zoom;
    if ((clock / (high - low)) * frame.width < EDGE_PX) return;
    pen.fillStyle = mixed(colours.soft, colours.paper, 0.5);
    for (let edge = Math.ceil(low / clock); edge * clock <= high; edge += 1) pen.fillRect(frame.x(edge * clock), 0, 1, frame.height);
  },

  // The slice at a time in a row; between two, what the next one waits for.
  find(chart, time, place, reach) {
    const mark = chart.marks.filter((each) => each.start && !each.passive)[Math.round(place)];
    if (!mark) return null;
    let behind = mark.start.length, nearest = -1;
    for (let i = 0; i < mark.start.length; i += 1) {
      if (mark.start[i] - reach <= time && time <= mark.end[i] + reach) nearest = nearest < 0 || mark.start[i] <= time ? i : nearest;
      if (mark.start[i] > time) { behind = i; break; }
    }
    if (nearest >= 0) return chart.said({ mark, i: nearest });
    const from = behind ? mark.end[behind - 1] : 0, last = behind >= mark.start.length;
    const lines = last ? [`has no more to do from ${seconds(from)} on`]
      : [`no work for ${seconds(mark.start[behind] - from)}`, mark.gap ? filled(mark.gap, chart, mark, behind) : ""];
    return { layer: null, html: tip(mark.name, lines) };
  },

  // Keys go to a row, and to its slices: each comes into view, and is told.
  keys(chart, key) {
    const rows = chart.marks.filter((each) => each.start && !each.passive), [number, slice] = chart.row || [0, -1];
    const to = { ArrowDown: [(number + 1) % rows.length, -1], ArrowUp: [(number + rows.length - 1) % rows.length, -1], ".": [number, slice + 1], ",": [number, slice - 1] }[key];
    return to && (() => {
      const mark = rows[to[0]], i = Math.max(-1, Math.min(to[1], mark.start.length - 1)), [low, high] = chart.window;
      chart.row = [to[0], i];
      if (i < 0) {
        chart.told.textContent = `${mark.name}: ${mark.start.length} slices`;
        return;
      }
      if (mark.start[i] < low || mark.end[i] > high) chart.show(mark.start[i] - (high - low) / 2, mark.start[i] + (high - low) / 2);
      const found = chart.said({ mark, i });
      chart.told.textContent = found.words;
      chart.view.point(found.layer);
    });
  },
};

// All that lies in a memory at a time, what is under the pointer first.
PLUGS.buffers = {
  find(chart, time, place) {
    const [mark] = chart.marks, there = [];
    for (let i = 0; i < mark.start.length && mark.start[i] <= time; i += 1) if (mark.end[i] >= time) there.push(i);
    const under = there.filter((i) => mark.low(i) <= place && place < mark.high(i)).pop(), size = (i) => at(mark.size, i);
    const largest = [...there].sort((a, b) => (b === under) - (a === under) || size(b) - size(a)).slice(0, LISTED);
    const lines = largest.map((i) => `${i === under ? "▸ " : ""}${filled(mark.title, chart, mark, i)}`);
    const more = there.length > LISTED ? `and ${there.length - LISTED} more` : there.length ? "" : "nothing in use";
    const used = there.reduce((total, i) => total + size(i), 0);
    return { layer: under === undefined ? null : lineOf(mark, under), html: tip(`${mark.name} at ${seconds(time)}: ${bytes(used)} in use`, [...lines, more]) };
  },
};

"use strict";
/* Points to explore: new Explorer(view, mount, data). A scatter over two columns; a rectangle that is drawn in it leaves
points within it, and so does each one that was drawn over other columns; the table lists what is left.

`data` is what accelsim/report/page/points.py packs. Points are the "layers" of the page (base.js), by their numbers. */
const LISTED_FIRST = 25, DOTS = [[500, 10], [2000, 8], [Infinity, 5]], KEY_STEP = 0.05, LOG_FROM = 20, MOVED_PX = 4, MOST_COLOURS = 8, FEW = 12;
const TICKS = [[6, [1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]], [300, [1, 2, 5]], [Infinity, [1]]];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

// A column: figures, or texts by their codes. All have a place on an axis; texts that are no numbers that of their code.
class Column {
  placeOf = (code) => (this.places ? this.places[code] : code);
  text = (i) => (this.codes ? this.texts[this.codes[i]] : this.spelled(this.at[i]));
  spelled = (value) => (isNaN(value) ? "–" : this.unit ? si(value, this.unit) : String(Number(value.toPrecision(4))));

  constructor(packed) {
    Object.assign(this, packed);
    this.named = Boolean(this.codes) && !this.places;
    this.at = Float64Array.from(this.codes ? this.codes.map((code) => this.placeOf(code)) : this.values, (value) => value ?? NaN);
    this.ends = this.at.reduce(([low, high], value) => (isNaN(value) ? [low, high] : [Math.min(low, value), Math.max(high, value)]), [Infinity, -Infinity]);
    if (this.ends[0] > this.ends[1]) this.ends = [0, 1]; // no point has a figure
    this.positive = !this.named && this.ends[0] > 0;
    this.log = this.positive && (this.best !== 0 || this.ends[1] / this.ends[0] >= LOG_FROM);
  }

  // What a range holds: the texts in it, or from where to where it goes.
  range([low, high]) {
    if (!this.codes) return `${this.spelled(low)} to ${this.spelled(high)}`;
    return shortened(this.texts.filter((_, code) => low <= this.placeOf(code) && this.placeOf(code) <= high).join(", ") || "none", 40);
  }

  // All points by this column, those without a figure last.
  sorted(descending) {
    const order = [...(this.texts || [])].sort(inOrder), keys = this.named ? this.codes.map((code) => order.indexOf(this.texts[code])) : this.at;
    return [...keys.keys()].sort((a, b) => isNaN(keys[a]) - isNaN(keys[b]) || (descending ? keys[b] - keys[a] : keys[a] - keys[b]) || a - b);
  }

  axis(zoomed) {
    const [first, last] = this.ends, room = this.named ? 0.5 : this.log ? (last > first ? (last / first) ** 0.04 : 2) : 0.04 * (last - first) || Math.abs(first) || 1;
    const [low, high] = zoomed || (this.log ? [first / room, last * room] : [first - room, last + room]);
    const few = this.named || (this.codes && this.texts.length <= FEW), told = () => this.texts.map((text, code) => [this.placeOf(code), text]);
    const names = few ? told().filter(([place]) => low <= place && place <= high) : this.log && high / low > 1.5 ? this.ticks(low, high) : null;
    return { label: this.title, unit: this.unit, factor: 1, log: this.log && names !== null, low, high, names, grid: true };
  }

  ticks(low, high) {
    const parts = TICKS.find(([most]) => high / low < most)[1], from = Math.floor(Math.log10(low)), count = Math.ceil(Math.log10(high)) - from + 1;
    const found = [...Array(count).keys()].flatMap((power) => parts.map((part) => Number(`${part}e${from + power}`)));
    return found.filter((value) => low <= value && value <= high).map((value) => [value, this.spelled(value)]);
  }
}

// Points that are left out are pale; the one that is pointed at has a ring. Many are squares, which take a fifth of the time.
PAINTERS.points = (pen, frame, { x, y, columns: { line, tint }, colours, owner }, lit) => {
  const [, size] = DOTS.find(([most]) => x.length <= most), round = size > DOTS[DOTS.length - 1][1], half = size / 2, found = lit === null ? -1 : line.indexOf(lit);
  for (const kept of [0, 1]) {
    pen.globalAlpha = kept ? 0.8 : 0.13;
    colours.forEach((colour, rank) => {
      pen.fillStyle = visible(colour, frame.colours);
      for (let i = 0; i < x.length; i += 1) {
        if (tint[i] !== rank || owner.kept[line[i]] !== kept) continue;
        if (round) dot(pen, "o", frame.x(x[i]), frame.y(y[i]), half);
        else pen.fillRect(Math.round(frame.x(x[i]) - half), Math.round(frame.y(y[i]) - half), size, size);
      }
    });
  }
  pen.globalAlpha = 1;
  if (found < 0) return;
  [pen.strokeStyle, pen.lineWidth] = [frame.colours.ink, 2];
  pen.beginPath();
  pen.arc(frame.x(x[found]), frame.y(y[found]), size, 0, 7);
  pen.stroke();
};

class Explorer {
  column = (key) => this.columns.find((column) => column.key === key);
  button = (text, click, more = {}) => el("button", { type: "button", click, ...more }, text);

  constructor(view, mount, data) {
    Object.assign(this, { view, data, ranges: new Map(), zoomed: new Map(), most: LISTED_FIRST, count: data.commands.length });
    this.columns = data.columns.map((packed) => new Column(packed));
    [this.x, this.y, this.tint] = [data.x, data.y, data.tint].map((key) => this.column(key));
    [this.sorted, this.kept] = [this.x.sorted(false), new Uint8Array(this.count)];
    view.nameOf = (i) => `Point ${this.columns[0].text(i)}`;
    view.told = (i) => this.columns.slice(1).filter((column) => column.text(i)).map((column) => `${column.title}: ${column.text(i)}`);
    view.choose = (i) => { View.prototype.choose.call(view, i); this.tellPick(); };
    [this.legend, this.chips, this.pick, this.body] = [el("div"), el("div", { class: "controls" }), el("div", { class: "pick" }), el("tbody")];
    const box = el("div", { class: "brushed" }), help = "; arrows move a rectangle that selects points, with Shift its upper right corner; Escape drops it";
    this.said = el("p", { class: "lead", "aria-live": "polite" });
    this.more = this.button("", () => { this.most *= 4; this.rows(); });
    mount.append(this.controls(), this.legend, box, this.chips, this.said, this.pick, this.table(), this.more);
    this.chart = new Chart(view, box, this.panel(), { help, behind: (chart, pen, frame) => this.paintBrush(pen, frame), keys: (chart, key, shift) => this.keys(key, shift) });
    this.listen();
    this.draw();
    this.select();
  }

  controls() {
    const axes = this.columns.filter((column, i) => (i && column.ends[0] < column.ends[1]) || column === this.x || column === this.y), front = this.column("front");
    const tints = this.columns.filter((column) => column === this.tint || (column.codes && column.texts.length <= MOST_COLOURS && column.texts.length > 1));
    const choice = (label, name, columns) => {
      const options = columns.map((column) => el("option", { value: column.key, ...(column === this[name] ? { selected: "" } : {}) }, column.title));
      return el("label", {}, `${label} `, el("select", { change: (event) => { this[name] = this.column(event.target.value); this.draw(); this.tell(); } }, ...options));
    };
    const log = (name) => this.button("log", () => { this[name].log = !this[name].log; this.draw(); }, { "aria-label": `logarithmic axis ${name}` });
    const zoom = () => { for (const { key } of [this.x, this.y]) if (this.ranges.has(key)) this.zoomed.set(key, this.ranges.get(key)); this.draw(); };
    this.logs = { x: log("x"), y: log("y") };
    const found = [choice("across", "x", axes), this.logs.x, choice("up", "y", axes), this.logs.y, choice("colour", "tint", tints),
      this.button("zoom to the selection", zoom), this.button("show all", () => { this.zoomed.clear(); this.draw(); })];
    if (front?.texts.includes("yes")) found.push(this.button("front only", () => this.select([[front, Array(2).fill(front.texts.indexOf("yes"))]])));
    return el("div", { class: "controls" }, ...found);
  }

  panel() {
    const { x, y, tint, data: { limits, fronts, colours } } = this, line = [...x.at.keys()].filter((i) => !isNaN(x.at[i]) && !isNaN(y.at[i]));
    const places = (list) => ({ x: list.map((i) => x.at[i]), y: list.map((i) => y.at[i]) }), counts = tint.texts.map(() => 0), ranks = [], keys = [];
    for (const i of line) counts[tint.codes[i]] += 1;
    [...counts.keys()].sort((a, b) => counts[b] - counts[a]).filter((code) => counts[code]).forEach((code, rank) => {
      ranks[code] = Math.min(rank, MOST_COLOURS - 1);
      keys[ranks[code]] = rank < MOST_COLOURS ? tint.texts[code] || "none" : "others";
    });
    const [across, up] = [x, y].map((column) => column.axis(this.zoomed.get(column.key))), best = fronts[`${x.key} ${y.key}`] || fronts[`${y.key} ${x.key}`];
    const cloud = { kind: "points", marker: "o", ...places(line), columns: { line, tint: line.map((i) => ranks[tint.codes[i]]) }, colours, keys, told: [], owner: this };
    const lined = { kind: "line", colour: INK, wide: 1.5, dash: "-", passive: true, columns: {} }, limit = { ...lined, dash: "--", label: "limit (dashed)" }, marks = [cloud];
    if (best) marks.push({ ...lined, ...places(best.front), label: "front (line)" });
    if (best && best.knee !== null) marks.push({ ...lined, ...places([best.knee]), dash: "none", marker: "*", size: 20, label: "knee (star)" });
    if (limits[x.key]) marks.push({ ...limit, x: [limits[x.key], limits[x.key]], y: [up.low, up.high] });
    if (limits[y.key]) marks.push({ ...limit, x: [across.low, across.high], y: [limits[y.key], limits[y.key]] });
    return { title: "", label: `${y.title} over ${x.title}`, height: 420, x: across, y: up, marks };
  }

  draw() {
    const panel = this.panel();
    for (const [name, button] of Object.entries(this.logs)) {
      button.setAttribute("aria-pressed", String(this[name].log));
      button.disabled = !this[name].positive;
    }
    this.legend.replaceChildren();
    keyOf(this.legend, [panel]);
    this.chart.take(panel);
    this.chart.redraw();
  }

  // The rectangle that was drawn, a band where only one of both axes has a range.
  paintBrush(pen, { x, y, width, height, colours }) {
    const [across, up] = [this.x, this.y].map(({ key }) => this.ranges.get(key));
    if (!across && !up) return;
    const [left, right] = across ? across.map(x) : [-2, width + 2], [bottom, top] = up ? up.map(y) : [height + 2, -2];
    [pen.fillStyle, pen.strokeStyle] = [mixed(colours.soft, colours.paper, 0.18), colours.soft];
    pen.fillRect(left, top, right - left, bottom - top);
    pen.strokeRect(left, top, right - left, bottom - top);
  }

  // Values at a place of the window, within the axes.
  values(event) {
    const { area, panel, ends, box } = this.chart, { left, top } = box.getBoundingClientRect();
    const shares = [(event.clientX - left - area.x) / area.width, 1 - (event.clientY - top - area.y) / area.height];
    return [panel.x, panel.y].map(({ log }, axis) => {
      const [low, high] = ends[axis], value = low + Math.min(1, Math.max(0, shares[axis])) * (high - low);
      return log ? 10 ** value : value;
    });
  }

  // Dragging draws a rectangle, at most one a frame; a click beside all points drops it.
  listen() {
    const { box } = this.chart, sorted = (a, b) => [Math.min(a, b), Math.max(a, b)];
    let down = null, start = null, to = null;
    const drawn = () => { this.select([[this.x, sorted(start[0], to[0])], [this.y, sorted(start[1], to[1])]]); to = null; };
    box.addEventListener("pointerdown", (event) => { if (!event.button) [down, start] = [event, this.values(event)]; });
    box.addEventListener("pointermove", (event) => {
      if (!down || !event.buttons || (!box.hasPointerCapture(event.pointerId) && Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) < MOVED_PX)) return;
      box.setPointerCapture(event.pointerId);
      if (!to) requestAnimationFrame(drawn);
      to = this.values(event);
    });
    box.addEventListener("pointerup", (event) => {
      const { left, top } = box.getBoundingClientRect(), moved = box.hasPointerCapture(event.pointerId);
      if (down && !moved && !this.chart.at(event.clientX - left, event.clientY - top)) this.select([[this.x, null], [this.y, null]]);
      down = null;
    });
  }

  keys(key, shift) {
    const step = ARROWS[key], { ends, panel } = this.chart;
    if (key === "Escape" && this.ranges.size) return () => this.select(this.columns.map((column) => [column, null]));
    return step && (() => this.select([this.x, this.y].map((column, axis) => {
      const [first, last] = ends[axis], { log } = panel["xy"[axis]], by = step[axis] * KEY_STEP * (last - first);
      const [low, high] = this.ranges.get(column.key)?.map(placed({ log })) || [0.75 * first + 0.25 * last, 0.25 * first + 0.75 * last];
      const moved = shift ? [low, Math.max(low, high + by)] : [low + by, high + by];
      return [column, log ? moved.map((value) => 10 ** value) : moved];
    })));
  }

  // Other ranges of columns, or none of them (null); then all that follows from them.
  select(ranges = []) {
    for (const [{ key }, range] of ranges) if (range) this.ranges.set(key, range); else this.ranges.delete(key);
    this.kept.fill(1);
    for (const [key, [low, high]] of this.ranges) this.column(key).at.forEach((place, i) => { if (!(low <= place && place <= high)) this.kept[i] = 0; });
    this.inside = this.sorted.filter((i) => this.kept[i]);
    this.most = LISTED_FIRST;
    const chip = (column, range) => this.button(`${column.title}: ${column.range(range)} ✕`, () => this.select([[column, null]]), { title: "drop this range" });
    this.chips.replaceChildren(...[...this.ranges].map(([key, range]) => chip(this.column(key), range)));
    this.tell();
    this.rows();
  }

  // The best points of the selection in what the axes show, else in the first objective.
  bests() {
    const shown = [...new Set([this.x, this.y])].filter((column) => column.best);
    return (shown.length ? shown : this.columns.filter((column) => column.best).slice(0, 1)).flatMap((column) => {
      const best = this.inside.reduce((a, b) => (column.best * (column.at[b] - column.at[a]) > 0 || isNaN(column.at[a]) ? b : a), this.inside[0]);
      return best === undefined || isNaN(column.at[best]) ? [] : [[column, best]];
    });
  }

  tell() {
    const where = (i) => this.data.axes.map((key) => `${this.column(key).title} ${this.column(key).text(i)}`).join(", ") || "the only point";
    const best = this.bests().map(([column, i]) => ` Best ${column.title}: ${column.text(i)} (${where(i)}).`);
    this.said.textContent = `${this.inside.length.toLocaleString("en")} of ${this.count.toLocaleString("en")} points.${best.join("")}`;
    this.tellPick();
  }

  // The command of the point that was chosen, else of the best one.
  tellPick() {
    const { chosen } = this.view, [column, best] = this.bests()[0] || [], i = chosen ?? best;
    if (i === undefined) return this.pick.replaceChildren();
    const code = el("code", {}, this.data.commands[i]), done = el("output", { "aria-live": "polite" });
    const copy = () => navigator.clipboard.writeText(code.textContent).then(() => { done.textContent = " copied"; }, () => {
      window.getSelection().selectAllChildren(code);
      done.textContent = " marked: press Ctrl+C";
    });
    const title = `${this.view.nameOf(i)}, ${chosen === null ? `the best ${column.title}` : "chosen"}: `;
    return this.pick.replaceChildren(el("strong", {}, title), code, " ", this.button("copy the command", copy), done);
  }

  table() {
    const heads = this.columns.map((column) => el("th", column.codes ? {} : { class: "n" }, column.title));
    const made = el("table", { class: "layers" }, el("thead", {}, el("tr", {}, ...heads)), this.body);
    sortable(made, (_, column, descending) => { this.sorted = this.columns[column].sorted(descending); this.select(); }, (column) => this.columns[column].best > 0);
    heads[this.columns.indexOf(this.x)].setAttribute("aria-sort", "ascending");
    pointable(this.view, made);
    return el("div", { class: "scroll brushed" }, made);
  }

  rows() {
    const cells = (i) => this.columns.map((column) => el("td", column.codes ? {} : { class: "n" }, column.text(i))), count = this.inside.length;
    const rows = this.inside.slice(0, this.most).map((i) => el("tr", { "data-layer": i, tabindex: "-1" }, ...cells(i)));
    if (rows.length) rows[0].tabIndex = 0;
    this.body.replaceChildren(...rows);
    this.more.hidden = count <= rows.length;
    this.more.textContent = `show more: ${rows.length.toLocaleString("en")} of ${count.toLocaleString("en")} are listed`;
    this.view.light();
  }
}

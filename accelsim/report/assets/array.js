"use strict";
/* A systolic array as an animation: new Player(element, data).

`data` is what accelsim/explore/array_frames.py makes. A frame of a clip lists numbers of planes: for each of
`registers`, in their order, two of an operand (the indices of its element) or four of a sum (its row, its column, the
first k that is added, how many are), and last what the PEs do (0 nothing, 1 a product with padding, 2 a product).
A plane is numbers of rows. An index is 0 where the register is empty, 1 for a zero that pads the fold, else 2 more.

A Player has {root, choose(clip), show(edge), play(), stop()}; edges count from 1. It never plays by itself. */
const PADDING = 1, FIRST = 2, WORKS = 2, PADS = 1;
const CELL = 100, GAP = 14, LINE = 27, SLOT = 78, DROP = 31, MOST_QUEUED = 5, MOST_ABOVE = 4;
const SPEEDS = [[0.5, "slow"], [1, "1 edge/s"], [2, "2 edges/s"], [5, "5 edges/s"], [15, "fast"]];

const svg = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};
const number = (value, digits) => {
  const whole = Number.isInteger(value) && Math.abs(value) < 1e5;
  return String(whole ? value : Number(value.toPrecision(digits))).replace("-", "\u2212");
};
/* What a clip says, unpacked: words, names, values. */
class Clip {
  constructor(clip) {
    Object.assign(this, clip);
    [this.edges, this.unpacked] = [clip.frames.length, []];
    [this.R, this.C] = clip.array;
    this.pes = this.R * this.C;
    this.origin = { m: clip.from[0], n: clip.from[1], k: clip.from[2] };
    this.axes = { a: "mk", b: "kn", y: "mn" };
    this.known = clip.a !== null;
    this.stays = clip.registers.held || "y";
    this.lanes = this.frame(1).top[0].length;
    this.busiest = clip.busy.indexOf(Math.max(...clip.busy)) + 1;
  }

  /* Register -> its planes [rows][columns], and `work`, behind an edge; null outside of the clip. */
  frame(edge) {
    if (edge < 1 || edge > this.edges) return null;
    if (this.unpacked[edge]) return this.unpacked[edge];
    const planes = this.frames[edge - 1].map((id) => this.planes[id].map((row) => this.rows[row]));
    const found = this.unpacked[edge] = { work: planes[planes.length - 1] };
    let next = 0;
    for (const [name, matrix] of Object.entries(this.registers)) {
      found[name] = planes.slice(next, next += matrix === "y" ? 4 : 2);
    }
    return found;
  }

  /* A word in a register: {matrix, zero} or {matrix, at, first, terms}; null where there is none. */
  word(frame, name, row, column) {
    const [one, two, first, terms] = frame === null ? [] : frame[name].map((plane) => plane[row][column]);
    if (!one) return null;
    const matrix = this.registers[name];
    if (one === PADDING) return { matrix, zero: true };
    return { matrix, at: [one - FIRST, two - FIRST], first: first - FIRST, terms: terms - FIRST };
  }

  value({ matrix, at: [row, column], first, terms }) {
    if (matrix !== "y") return this[matrix][row][column];
    let sum = 0;
    for (let k = first; k < first + terms; k++) sum += this.a[row][k] * this.b[k][column];
    return sum;
  }

  called({ matrix, at }) {
    const [one, two] = [...this.axes[matrix]].map((axis, index) => at[index] + this.origin[axis]);
    return `${matrix.toUpperCase()}[${one},${two}]`;
  }

  /* Terms that a sum gets in the array, in one fold. */
  terms(sum) {
    return this.stays === "y" ? this.size[2] : Math.min(this.R, this.size[2] - sum.first);
  }

  text(word, names) {
    if (word.zero) return "0";
    return names || !this.known ? this.called(word) : number(this.value(word), 2).replace(/^(\u2212?)0\./, "$1.");
  }

  doing(edge) {
    const [fold, row] = this.stream[edge - 1];
    const which = this.folds > 1 ? `Fold ${fold + 1} of ${this.folds}` : "The fold";
    const rows = this.stream.reduce((most, each) => Math.max(most, each[1] + 1), 0);
    return fold < 0 ? "" : row < 0 ? `${which} has entered.` : `${which} streams row ${row + 1} of ${rows}.`;
  }

  /* What one PE does at an edge, in words. */
  told(edge, row, column) {
    const frame = this.frame(edge), work = frame.work[row][column];
    const head = `PE in row ${row}, column ${column}: `;
    if (work === PADS) return `${head}multiplies a zero that only fills up the fold.`;
    if (work !== WORKS) return `${head}does not multiply at this edge.`;
    const pair = ["moving", this.registers.down ? "down" : "held"].map((name) => this.word(frame, name, row, column));
    pair.sort((x, y) => (x.matrix < y.matrix ? -1 : 1));
    const sum = this.word(frame, "sum", row, column);
    const product = pair.map((word) => this.called(word)).join(" \u00d7 ");
    const end = `(term ${sum.terms} of ${this.terms(sum)}).`;
    if (!this.known) return `${head}${product}, added to ${this.called(sum)} ${end}`;
    const [x, y] = pair.map((word) => this.value(word)), [one, two, both] = [x, y, x * y].map((value) => number(value, 4));
    return `${head}${product} = ${one} \u00d7 ${two} = ${both}, added to ${this.called(sum)}: ${number(this.value(sum), 4)} ${end}`;
  }
}

/* A coloured box with a text for the word of one register; `fill` is the share of it that is complete. */
class Token {
  constructor(parent, name, at, ahead, x, y, width) {
    const height = LINE - 4;
    Object.assign(this, { name, at, ahead, width, box: svg("rect", { x, y, width, height, rx: 7 }) });
    this.done = svg("rect", { x, y, width: 0, height, rx: 7, class: "done" });
    this.label = svg("text", { x: x + width / 2, y: y + height / 2 + 1 });
    this.group = svg("g", {}, this.box, this.done, this.label);
    parent.append(this.group);
  }

  set(word, text, fill) {
    this.group.style.display = word ? "" : "none";
    if (!word) return;
    this.group.setAttribute("class", `t t-${word.matrix}${word.zero ? " zero" : ""}${this.name === "waiting" ? " waits" : ""}`);
    this.done.setAttribute("width", this.width * fill);
    this.label.textContent = text;
    this.label.setAttribute("class", text.length > 5 ? "long" : "");
  }

  slide([dx, dy], ms) {
    if (ms && (dx || dy)) this.group.animate([{ transform: `translate(${dx}px,${dy}px)` }, { transform: "none" }], { duration: ms, easing: "ease-in-out" });
  }
}

/* The array as a picture of one edge. */
class Picture {
  constructor(clip, choose) {
    this.clip = clip;
    this.inside = ["moving", "down", "held", "sum", "waiting"].filter((name) => clip.registers[name]);
    this.high = this.inside.length * LINE + 13;
    [this.before, this.above] = [Math.min(clip.R + 1, MOST_QUEUED), Math.min(clip.C + 1, MOST_ABOVE)];
    this.x = (column) => this.x0 + column * (CELL + GAP);
    this.y = (row) => this.y0 + row * (this.high + GAP);
    this.label = Math.max(21, 4 * clip.C);
    this.x0 = 2.2 * this.label + this.before * SLOT + 8;
    this.y0 = 1.5 * this.label + this.above * DROP * clip.lanes + 8;
    [this.wide, this.bottom] = [this.x(clip.C), this.y(clip.R)];
    this.tall = this.bottom + this.above * DROP + 1.5 * this.label;
    this.root = svg("svg", { viewBox: `0 0 ${this.wide} ${this.tall}`, role: "img" });
    this.root.style.maxWidth = `${Math.round(0.72 * this.wide)}px`;
    this.steps = { left: [-SLOT, 0], top: [0, -DROP * clip.lanes], out: [0, -DROP] };
    [this.pes, this.tokens] = [[], []];
    this.labels();
    for (let row = 0; row < clip.R; row++) for (let column = 0; column < clip.C; column++) this.pe(row, column, choose);
    this.ports();
  }

  labels() {
    const { left, top, out } = this.clip.registers, up = (matrix) => matrix.toUpperCase();
    const middle = (this.x0 + this.wide - GAP) / 2, texts = [
      [1.05 * this.label, (this.y0 + this.bottom) / 2, `${up(left)} \u2192`], [middle, 0.8 * this.label, `${up(top)} \u2193`],
      [middle, this.tall - 0.7 * this.label, `${up(out)} \u2193`],
    ];
    const style = `font-size:${this.label}px`;
    for (const [x, y, text] of texts) this.root.append(svg("text", { x, y, style, class: "label" }, text));
  }

  pe(row, column, choose) {
    const x = this.x(column), y = this.y(row);
    const group = svg("g", { class: "pe", "data-row": row, "data-column": column });
    group.append(svg("rect", { x, y, width: CELL, height: this.high, rx: 9, class: "box" }));
    group.addEventListener("click", () => choose(row, column));
    this.root.append(group);
    this.pes.push({ group, row, column });
    this.inside.forEach((name, line) => this.tokens.push(new Token(group, name, [row, column], 0, x + 8, y + 8 + line * LINE, CELL - 16)));
  }

  /* Words that wait before the ports, and those that have left. */
  ports() {
    const { clip: { R, C, lanes } } = this, port = (...where) => this.tokens.push(new Token(this.root, ...where));
    for (let ahead = 1; ahead <= this.before; ahead++) {
      for (let row = 0; row < R; row++) port("left", [0, row], ahead, this.x0 - 8 - ahead * SLOT, this.y(row) + 8, SLOT - 6);
    }
    for (let ahead = 1; ahead <= this.above; ahead++) {
      for (let column = 0; column < C; column++) {
        const x = this.x(column) + 8;
        for (let lane = 0; lane < lanes; lane++) port("top", [lane, column], ahead, x, this.y0 - 6 - (ahead * lanes - lane) * DROP, CELL - 16);
        port("out", [0, column], -ahead, x, this.bottom + (ahead - 1) * DROP, CELL - 16);
      }
    }
  }

  show(edge, names, chosen, ms) {
    const { clip } = this, { work } = clip.frame(edge), before = clip.frame(edge - 1);
    for (const { group, row, column } of this.pes) {
      const picked = chosen[0] === row && chosen[1] === column ? " chosen" : "", kind = work[row][column];
      group.setAttribute("class", `pe${kind === WORKS ? " works" : kind === PADS ? " pads" : ""}${picked}`);
    }
    for (const token of this.tokens) {
      const { name, at, ahead } = token, then = clip.frame(edge + ahead), word = then && clip.word(then, name, ...at);
      token.set(word, word ? clip.text(word, names) : "", word && word.terms > 0 ? word.terms / clip.terms(word) : 0);
      if (word && ms) token.slide(ahead ? this.steps[name] : this.origin(before, name, word, ...at), ms);
    }
  }

  /* From where a word came into this register at the edge: a neighbour that held it before, a port, or nowhere. */
  origin(before, name, word, row, column) {
    const { clip } = this, key = (each) => each && `${each.matrix}${each.at}`, same = key(word);
    const held = (from, i, j) => i >= 0 && j >= 0 && before && key(clip.word(before, from, i, j)) === same;
    const line = (from) => (this.inside.indexOf(from) - this.inside.indexOf(name)) * LINE;
    if (held(name, row, column) && name !== "moving") return [0, 0];
    if (name === "moving") return [column ? -CELL - GAP : -SLOT, 0];
    if (name === "held" && clip.registers.waiting) return held("waiting", row, column) ? [0, line("waiting")] : [0, 0];
    if (held(name, row - 1, column) || (row < clip.lanes && name !== "sum")) return [0, -this.high - GAP];
    return [0, 0];
  }
}

/* The PEs that multiply at each edge, as bars, and the phases below; a click goes to an edge. */
class Busy {
  constructor(clip, go) {
    const wide = 10 * clip.edges, bars = svg("svg", { class: "chart", viewBox: `0 0 ${wide} 56`, preserveAspectRatio: "none", "aria-hidden": "true" });
    for (let index = 0; index < clip.edges; index++) {
      const [busy, pads] = [clip.busy[index], clip.pads[index]].map((count) => 50 * count / clip.pes), x = 10 * index + 1;
      bars.append(svg("rect", { x, y: 54 - busy, width: 8, height: busy, fill: "var(--a)" }));
      if (pads) bars.append(svg("rect", { x, y: 54 - busy - pads, width: 8, height: pads, fill: "var(--line)" }));
    }
    this.cursor = svg("rect", { class: "cursor", y: 1, width: 10, height: 54 });
    bars.append(svg("rect", { x: 0, y: 54, width: wide, height: 2, fill: "var(--line)" }), this.cursor);
    bars.addEventListener("click", (event) => go(1 + Math.floor(event.offsetX / bars.getBoundingClientRect().width * clip.edges)));
    this.phases = clip.phases.map(([name, first], index) => {
      const [, end] = clip.phases[index + 1] || [name, clip.edges + 1];
      return { made: el("span", { title: name, style: `flex: ${end - first} 0 0` }, name), first, end };
    });
    this.root = el("div", {}, bars, el("div", { class: "phases" }, ...this.phases.map(({ made }) => made)));
  }

  show(edge) {
    this.cursor.setAttribute("x", 10 * (edge - 1));
    for (const { made, first, end } of this.phases) made.className = first <= edge && edge < end ? "on" : "";
  }
}

/* Controls, texts, and the picture of the edge that is shown. */
class Player {
  constructor(element, data) {
    Object.assign(this, { data, edge: 1, names: false, timer: 0 });
    this.clips = data.clips.map((clip) => new Clip(clip));
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    const label = "The systolic array, clock edge by clock edge. Space plays, arrows step.";
    this.root = el("section", { class: "sysarr", tabindex: 0, role: "group", "aria-label": label }, this.controls(), this.texts());
    this.listen();
    element.append(this.root);
    this.choose(0);
  }

  button(text, label, click) {
    return el("button", { type: "button", title: label, "aria-label": label, click }, text);
  }

  select(label, options, action) {
    const made = el("select", { title: label, "aria-label": label, change: () => action(made.value) });
    made.append(...options.map(([value, text]) => el("option", { value }, text)));
    return made;
  }

  controls() {
    const layers = this.clips.map((clip, index) => [index, `${clip.number}. ${clip.title}`]);
    this.pick = this.select("Layer", layers, (value) => this.choose(Number(value)));
    this.playing = this.button("\u25b6 Play", "Play", () => (this.timer ? this.stop() : this.play()));
    this.playing.classList.add("play");
    this.pace = this.select("Speed", SPEEDS, () => this.timer && this.play());
    this.pace.value = "1";
    this.naming = this.button("Names", "Names or values of the elements", () => {
      this.names = !this.names;
      this.naming.textContent = this.names ? "Numbers" : "Names";
      this.show(this.edge);
    });
    const step = (by) => () => (this.stop(), this.show(this.edge + by, by === 1));
    return el("div", { class: "bar" }, this.pick, this.button("\u25c0", "One edge back", step(-1)), this.playing,
      this.button("\u25b6|", "One edge on", step(1)), this.pace, this.naming);
  }

  texts() {
    [this.head, this.flow, this.story, this.doing, this.use, this.asked, this.notes, this.key] =
      ["soft", "", "", "", "", "asked soft", "soft", "soft key"].map((name) => el("p", { class: name }));
    this.now = el("p", { class: "now", role: "status" });
    const seek = () => (this.stop(), this.show(Number(this.slider.value)));
    this.slider = el("input", { type: "range", min: 1, step: 1, "aria-label": "Clock edge", input: seek });
    [this.stage, this.chart] = [el("div", { class: "stage" }), el("div")];
    const hint = "Space plays, \u2190 \u2192 step, Home and End jump; a click on a PE explains it.";
    const side = el("div", { class: "side" }, this.story, this.doing, this.use, this.key, this.asked);
    return el("div", {}, this.head, this.chart, this.slider, this.now, this.flow,
      el("div", { class: "both" }, this.stage, side), this.notes, el("p", { class: "soft hint" }, hint));
  }

  legend() {
    const { clip } = this, { moving, down, held, waiting } = clip.registers, words = { a: "activations A", b: "weights B" };
    const entries = [
      [moving, `${words[moving]}: move right`], down ? [down, `${words[down]}: move down`] : [held, `${words[held]}: stay`],
      ["y2", "sums Y; the fuller, the more terms are in"], ["work", "PE that multiplies at this edge"],
      waiting && ["bg", "Dashed: waits to be taken over by its PE"],
      clip.pads.some((count) => count) && ["pad", "Grey 0: fills up the fold, no use"],
    ];
    this.key.replaceChildren(...entries.filter(Boolean).map(([colour, text]) => el("div", {}, el("i", { style: `background: var(--${colour})` }), text)));
  }

  listen() {
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    let kept = 1;
    const paper = () => (this.stop(), (kept = this.edge), this.show(this.clip.busiest));
    addEventListener("beforeprint", paper);
    addEventListener("afterprint", () => this.show(kept));
    new ResizeObserver(() => this.fit()).observe(this.stage);
  }

  pressed(event) {
    const { tagName } = event.target, keys = {
      " ": () => (this.timer ? this.stop() : this.play()), Home: () => this.show(1), End: () => this.show(this.clip.edges),
      ArrowRight: () => this.show(this.edge + 1, true), ArrowLeft: () => this.show(this.edge - 1),
    };
    const own = tagName === "SELECT" || (tagName === "BUTTON" && event.key === " ");
    if (!keys[event.key] || own || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (event.key !== " ") this.stop();
    keys[event.key]();
  }

  /* Texts are left out where they would be too small to read. */
  fit() {
    const drawn = this.picture.root.getBoundingClientRect().width;
    this.picture.root.classList.toggle("tiny", drawn > 0 && 20 * drawn / this.picture.wide < 7);
  }

  choose(index) {
    this.stop();
    const clip = (this.clip = this.clips[index]);
    this.chosen = [0, 0];
    this.picture = new Picture(clip, (row, column) => ((this.chosen = [row, column]), this.show(this.edge)));
    this.bars = new Busy(clip, (edge) => (this.stop(), this.show(edge)));
    this.stage.replaceChildren(this.picture.root);
    this.chart.replaceChildren(this.bars.root);
    this.slider.max = clip.edges;
    this.pick.value = String(index);
    this.naming.hidden = !clip.known;
    for (const name of ["head", "flow"]) this[name].textContent = clip[name];
    const left = this.data.left_out, more = left ? [`${left} more shapes of products are not shown.`] : [];
    this.notes.textContent = [...clip.notes, ...more].join(" ");
    this.legend();
    this.show(1);
    this.fit();
  }

  show(edge, moves = false) {
    const { clip } = this;
    this.edge = Math.max(1, Math.min(clip.edges, edge));
    const pace = Number(this.pace.value), smooth = pace <= (clip.pes > 64 ? 1 : 5) && !this.still.matches;
    const ms = moves && smooth && this.edge === edge ? Math.min(450, 700 / pace) : 0;
    this.picture.show(this.edge, this.names, this.chosen, ms);
    this.slider.value = this.edge;
    const busy = clip.busy[this.edge - 1], pads = clip.pads[this.edge - 1], [phase] = clip.phases.filter(([, first]) => first <= this.edge).pop();
    this.bars.show(this.edge);
    this.now.replaceChildren(`Edge ${this.edge} of ${clip.edges}`, el("span", { class: "phase" }, phase));
    this.story.textContent = clip.story[phase];
    this.doing.textContent = clip.doing(this.edge);
    const all = clip.busy.reduce((sum, count) => sum + count, 0) / (clip.edges * clip.pes);
    this.use.textContent = `${busy} of ${clip.pes} PEs multiply: ${percent(busy / clip.pes)}`
      + `${pads ? ` (${pads} more multiply padding)` : ""}. Over all edges: ${percent(all)}.`;
    this.asked.textContent = clip.told(this.edge, ...this.chosen);
    const said = `Edge ${this.edge} of ${clip.edges}, ${phase}: ${busy} of ${clip.pes} PEs multiply`;
    this.picture.root.setAttribute("aria-label", said);
    Object.assign(this.root.dataset, { edge: this.edge, phase });
  }

  play() {
    clearInterval(this.timer);
    if (this.edge === this.clip.edges) this.show(1);
    this.timer = setInterval(() => {
      this.show(this.edge + 1, true);
      if (this.edge === this.clip.edges) this.stop();
    }, 1000 / Number(this.pace.value));
    this.mode("off", "\u275a\u275a", "Pause");
  }

  mode(live, sign, label) {
    this.now.setAttribute("aria-live", live);
    this.playing.textContent = `${sign} ${label}`;
    for (const name of ["title", "aria-label"]) this.playing.setAttribute(name, label);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.mode("polite", "\u25b6", "Play");
  }
}

"use strict";
// Draws panels of pictures as accelsim/report/page/pictures.py declares them. ECharts has the axes, the zoom and the
// tooltips; marks are painted on a canvas that it shows within its grid: as many as 100,000, narrow ones of a pixel as one.

const FONT_PX = 12, NARROW_PX = 620, TEXT_PX = 34, NEAR_PX = 22, SIGN_PX = 6.4, FADED = 0.22, LEAST = 5e-4;
const DASHES = { "--": [6, 4], ":": [2, 3], "-.": [6, 3, 2, 3] };
const PLUGS = {}; // name of a picture -> what its charts do beside the usual: find, keys, behind

const at = (values, i) => (Array.isArray(values) ? values[i] : values);
const lineOf = (mark, i) => at(mark.columns.line, i) ?? null;

// Starts that are kept as differences, as they are.
function running(differences) {
  let total = 0;
  return differences.map((step) => (total += step));
}

// A mark as it is painted and found: of boxes the ends on both axes, and one more for what each begins with.
function prepared(mark) {
  const { kind, size = 1 } = mark, columns = mark.columns || {};
  if (kind !== "boxes") return [{ ...mark, columns }];
  const start = mark.steps ? running(mark.steps) : mark.start, end = start.map((from, i) => from + mark.span[i]);
  const low = (i) => at(mark.low, i), box = { ...mark, columns, start, end, low, high: (i) => low(i) + at(size, i) };
  if (!columns.lead) return [box];
  const held = columns.lead.flatMap((lead, i) => (lead ? [i] : [])), own = { line: held.map((i) => columns.line[i]) };
  return [{ ...box, passive: true, colour: mark.lead, colours: null, text: "", columns: own, start: held.map((i) => start[i] - columns.lead[i]), end: held.map((i) => start[i]) }, box];
}

const FORMS = { fs: seconds, J: (value) => si(value, "J"), s: (value) => si(value, "s"), B: bytes };

// A template with the figures of an item: {column:form}, with ? behind where the line is left out without it.
function filled(template, { view, panel }, mark, i) {
  let lacks = false;
  const text = template.replace(/\{(\w+)(?::(\w+))?(\??)\}/g, (_, name, form, may) => {
    const value = { start: mark.start?.[i], end: mark.end?.[i], span: mark.span?.[i] }[name] ?? at(mark.columns[name], i);
    const shown = form === "text" ? panel.texts[value] : form === "line" ? view.nameOf(value) : form ? FORMS[form](value) : value;
    lacks = lacks || (may !== "" && (!value || shown === ""));
    return shown;
  });
  return lacks ? "" : text;
}

const PAINTERS = {
  // Boxes narrower than a pixel are gathered by column: the fuller, the darker.
  boxes(pen, frame, mark, lit) {
    const fills = (mark.colours || [mark.colour]).map((colour) => visible(colour, frame.colours));
    let column = -1, covered = 0, last = -1;
    const flush = () => {
      if (last >= 0) paintBox(pen, frame, mark, fills, last, column, 1, Math.max(0.3, Math.min(1, covered)), lit);
      last = -1;
    };
    for (let i = 0; i < mark.start.length; i += 1) {
      const left = frame.x(mark.start[i]), width = frame.x(mark.end[i]) - left;
      if (left + width < 0 || left > frame.width) continue;
      if (width >= 1) {
        flush();
        paintBox(pen, frame, mark, fills, i, left, width, 1, lit);
      } else if (last >= 0 && Math.floor(left) === column && mark.low(i) === mark.low(last)) {
        covered += width;
        if (lineOf(mark, i) === lit) last = i;
      } else {
        flush();
        [column, covered, last] = [Math.floor(left), width, i];
      }
    }
    flush();
  },

  // A line, what it encloses, or marks at its points with their names where there is room.
  line(pen, frame, mark, lit) {
    const places = mark.x.map((x, i) => [frame.x(x), frame.y(mark.y[i])]), taken = [];
    pen.globalAlpha = mark.alpha ?? 1;
    pen.strokeStyle = pen.fillStyle = visible(at(mark.colour, 0), frame.colours);
    pen.lineWidth = mark.wide;
    pen.setLineDash(DASHES[mark.dash] || []);
    traced(pen, places);
    if (mark.fill) pen.fill();
    else if (mark.dash !== "none") pen.stroke();
    pen.setLineDash([]);
    places.forEach(([x, y], i) => {
      if (!mark.marker) return;
      const size = at(mark.size, i), name = mark.columns.name?.[i] || "", box = [x - 4 * name.length, y - size / 2 - 14, x + 4 * name.length, y - size / 2];
      pen.fillStyle = visible(at(mark.colour, i), frame.colours);
      pen.globalAlpha = (mark.alpha ?? 1) * faded(mark, i, lit);
      dot(pen, mark.marker, x, y, size / 2);
      if (!name || taken.some(([a, b, c, d]) => a < box[2] && box[0] < c && b < box[3] && box[1] < d)) return;
      taken.push(box);
      write(pen, frame.colours.ink, name, x, box[1] + 7, "center");
    });
    pen.globalAlpha = 1;
  },

  note(pen, frame, mark) {
    const [right, up] = mark.shift, x = (mark.edge ? frame.width : frame.x(mark.x[0])) + right, y = frame.y(mark.y[0]) - up;
    const wide = SIGN_PX * mark.text.length + 8, from = x - { left: 4, center: wide / 2, right: wide - 4 }[mark.side];
    if (!mark.edge && (x < -1 || x > frame.width + 1)) return;
    if (mark.box) {
      pen.fillStyle = visible(mark.box, frame.colours);
      pen.fillRect(from, y - 9, wide, 18);
    }
    write(pen, mark.box ? inkOn(pen.fillStyle) : visible(mark.colour, frame.colours), mark.text, x, y, mark.side);
  },
};

const faded = (mark, i, lit) => (lit !== null && lineOf(mark, i) !== null && lineOf(mark, i) !== lit ? FADED : 1);

function traced(pen, places) {
  pen.beginPath();
  places.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
}

function dot(pen, marker, x, y, half) {
  if (marker === "*") traced(pen, [...Array(10).keys()].map((i) => [x - (half / (1 + (i % 2))) * Math.sin((i * Math.PI) / 5), y - (half / (1 + (i % 2))) * Math.cos((i * Math.PI) / 5)]));
  else if (marker === "s" || marker === "^") traced(pen, [[x - half, y + half], [x + half, y + half], ...(marker === "s" ? [[x + half, y - half], [x - half, y - half]] : [[x, y - half]])]);
  else {
    pen.beginPath();
    pen.arc(x, y, half, 0, 7);
  }
  pen.fill();
}

function paintBox(pen, frame, mark, fills, i, left, width, strength, lit) {
  const from = Math.max(left, -2), wide = Math.min(left + width, frame.width + 2) - from;
  const [one, two] = [frame.y(mark.high(i)), frame.y(mark.low(i))], top = Math.min(one, two), tall = Math.abs(two - one);
  const fill = fills[mark.colours ? mark.columns.tint[i] : 0];
  pen.globalAlpha = strength * faded(mark, i, lit);
  pen.fillStyle = fill;
  pen.fillRect(from, top, Math.max(wide, 1), Math.max(tall, 1));
  if (mark.columns.hatched?.[i]) {
    pen.fillStyle = frame.hatch;
    pen.fillRect(from, top, wide, tall);
  }
  if (wide > 6 && !mark.passive) {
    pen.strokeStyle = frame.colours.paper;
    pen.lineWidth = 1;
    pen.strokeRect(from + 0.5, top + 0.5, wide - 1, tall - 1);
  }
  if (mark.text && wide > TEXT_PX && tall > 9) write(pen, inkOn(fill), shortened(filled(mark.text, frame.chart, mark, i), Math.floor((wide - 8) / 6.2)), from + 4, top + tall / 2, "left");
  pen.globalAlpha = 1;
}

// White strokes for boxes of which not all is known.
function hatched(pen) {
  const tile = el("canvas", { width: 6, height: 6 }), inner = tile.getContext("2d");
  inner.strokeStyle = "rgba(255,255,255,0.55)";
  for (const from of [-6, 0, 6]) inner.stroke(new Path2D(`M${from} 6L${from + 6} 0`));
  return pen.createPattern(tile, "repeat");
}

// Black or white, whichever reads better on a colour #rrggbb.
const inkOn = (colour) => (brightness(colour) > 140 ? "#000000" : "#ffffff");

function write(pen, colour, text, x, y, side) {
  pen.fillStyle = colour;
  pen.textAlign = side;
  pen.fillText(text, x, y);
}

// Places on an axis as ECharts has them: a logarithmic one is laid out here.
const placed = (axis) => (axis.log ? (value) => Math.log10(value) : (value) => value);

class Chart {
  constructor(view, mount, panel, plug = {}) {
    Object.assign(this, { view, plug, canvas: el("canvas"), range: el("output"), told: el("p", { class: "hint told", "aria-live": "polite" }) });
    this.take(panel);
    const zoom = (factor) => () => this.zoom(factor), move = (share) => () => this.move(share);
    this.zooms = { "+": zoom(0.5), "=": zoom(0.5), "-": zoom(2), ArrowLeft: move(-0.25), ArrowRight: move(0.25), Home: () => this.show(this.low, this.high), l: () => this.showLayer() };
    if (panel.zoom) mount.append(this.controls());
    const keys = plug.help || (panel.zoom ? "; keys: plus and minus zoom, arrows left and right move, Home shows all" : this.layers.length ? "; keys up and down go through its layers" : "");
    this.box = el("div", { class: "chart", role: "img", tabindex: "0", "aria-label": panel.label + keys, keydown: (event) => this.pressed(event) });
    this.box.style.height = `${panel.height}px`;
    mount.append(this.box, this.told);
    this.told.hidden = !panel.zoom;
    this.chart = echarts.init(this.box, null, { renderer: "canvas" });
    this.redraw();
    view.charts.push(this);
    this.lightWhenSeen();
    const zr = this.chart.getZr();
    zr.on("mousemove", (event) => this.pointAt(event.offsetX, event.offsetY));
    zr.on("globalout", () => this.tell(null));
    zr.on("click", (event) => this.choose(this.at(event.offsetX, event.offsetY)));
  }

  // Another panel in the place of the one before; drawn by redraw().
  take(panel) {
    Object.assign(this, { panel, marks: panel.marks.flatMap(prepared), across: placed(panel.x), up: placed(panel.y) });
    [this.low, this.high] = [panel.x.low, panel.x.high].map(this.across);
    this.window = [this.low, this.high];
    this.layers = [...new Set(this.marks.flatMap((mark) => mark.columns.line ?? []))].filter((layer) => layer >= 0).sort((a, b) => a - b);
  }

  // What nobody sees is lit when it comes into view.
  lightWhenSeen() {
    let seen = true, stale = false;
    this.view.onLayer(() => {
      if (seen) this.repaint();
      else stale = true;
    });
    new IntersectionObserver((entries) => {
      seen = entries[entries.length - 1].isIntersecting;
      if (seen && stale) this.repaint();
      stale = stale && !seen;
    }).observe(this.box);
  }

  controls() {
    const button = (text, name, key) => el("button", { type: "button", title: name, "aria-label": name, click: this.zooms[key] }, text);
    return el("div", { class: "controls" },
      button("all", "show all", "Home"), button("+", "zoom in", "+"), button("−", "zoom out", "-"),
      button("◀", "move left", "ArrowLeft"), button("▶", "move right", "ArrowRight"), button("to layer", "zoom to the chosen layer", "l"),
      this.range, el("span", { class: "mouse" }, "· Ctrl and wheel zoom, dragging moves"));
  }

  redraw() {
    this.colours = theme();
    this.chart.setOption(this.option(this.box.clientWidth), { notMerge: true });
  }

  resize() {
    this.chart.resize();
    this.redraw();
  }

  repaint() {
    this.painting = (this.painting || 0) + 1;
    if (this.area) this.chart.setOption({ series: [{ id: "marks", data: [[0, this.painting]] }] });
  }

  option(width) {
    const { colours, panel: { x, y, zoom, bare, equal, height, right } } = this, narrow = width < NARROW_PX;
    const names = (y.names || []).flatMap(([, name]) => name.split("\n")), longest = Math.max(0, ...names.map((name) => Math.min(name.length, narrow ? 18 : 36)));
    const label = y.label ? 20 : 0, left = bare ? 8 : y.names ? 14 + label + SIGN_PX * longest : 58 + label;
    const grid = { left, right: right || 20, top: 10, bottom: bare ? 8 : 26 + (x.label ? 20 : 0) + (zoom ? 22 : 0) };
    const size = [width - left - grid.right, height - grid.top - grid.bottom];
    this.ends = [x, y].map((axis, i) => [axis.low, axis.high].map(i ? this.up : this.across));
    if (equal) this.ends = this.widened(size);
    const touch = window.matchMedia("(pointer: coarse)").matches;
    const window_ = { xAxisIndex: 0, filterMode: "none", minValueSpan: zoom, startValue: this.window[0], endValue: this.window[1] };
    return {
      animation: false, backgroundColor: "transparent", grid,
      textStyle: { fontFamily: colours.font, fontSize: FONT_PX, color: colours.ink },
      tooltip: {
        trigger: "item", triggerOn: "none", confine: true, padding: 8, transitionDuration: 0, hideDelay: 0,
        backgroundColor: colours.paper, borderColor: colours.line, textStyle: { color: colours.ink, fontSize: FONT_PX },
      },
      xAxis: this.axis(x, this.ends[0], narrow ? 3 : Math.max(3, Math.round(size[0] / 160)), { nameGap: 24, text: (value) => this.text(value) }),
      yAxis: this.axis(y, this.ends[1], Math.max(2, Math.round(size[1] / 50)), { nameGap: left - 16, text: axisText(y.low, y.high, y.unit, y.factor), most: narrow ? 18 : 36, interval: y.names && !y.log ? 0 : undefined }),
      dataZoom: zoom ? [
        { ...window_, type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseMove: !touch, moveOnMouseWheel: false, preventDefaultMouseMove: false },
        { ...window_, type: "slider", height: 18, bottom: 6, showDetail: false, brushSelect: false, borderColor: colours.line },
      ] : [],
      series: [{ type: "custom", id: "marks", data: [[0, 0]], encode: { x: -1, y: -1 }, silent: true, clip: false, progressive: 0, renderItem: (params, api) => this.rendered(params, api) }],
    };
  }

  axis({ label, names, grid, log }, [low, high], splitNumber, { nameGap, text, most = 99, interval }) {
    const { colours, panel } = this, told = new Map((names || []).map(([value, name]) => [placed({ log })(value), name]));
    const customValues = names ? [...told.keys()] : undefined;
    return {
      type: "value", min: Math.min(low, high), max: Math.max(low, high), inverse: low > high, show: !panel.bare, splitNumber,
      name: label, nameLocation: "middle", nameGap, nameTextStyle: { color: colours.ink },
      axisLine: { show: true, onZero: false, lineStyle: { color: colours.soft } }, axisTick: { customValues, show: !interval },
      axisLabel: {
        customValues, interval, color: colours.ink, fontSize: 11, lineHeight: 13, hideOverlap: interval === undefined, showMinLabel: names ? undefined : low === 0, showMaxLabel: names ? undefined : false,
        formatter: (value) => (names ? (told.get(value) ?? "").split("\n").map((part) => shortened(part, most)).join("\n") : text(value)),
      },
      splitLine: { show: grid && !names, lineStyle: { color: colours.line } },
    };
  }

  // Both axes with as many units a pixel, as much around the middle as there is room.
  widened(size) {
    const scale = Math.max(...this.ends.map(([low, high], i) => (high - low) / size[i]));
    return this.ends.map(([low, high], i) => [-1, 1].map((side) => (low + high + side * scale * size[i]) / 2));
  }

  text(value) {
    const { unit, factor } = this.panel.x, [low, high] = this.window;
    return axisText(low, high, unit, factor)(Math.min(Math.max(value, this.low), this.high));
  }

  rendered(params, api) {
    const { x, y, width, height } = params.coordSys;
    this.window = this.ends[0];
    if (this.panel.zoom) {
      const [from] = api.coord([this.low, 0]), scale = (api.coord([this.high, 0])[0] - from) / (this.high - this.low);
      this.window = [x, x + width].map((pixel) => this.low + (pixel - from) / scale);
      this.range.textContent = `shown: ${this.window.map((value) => this.text(value)).join(" to ")}`;
    }
    this.area = { x, y, width, height };
    this.paint();
    return { type: "image", style: { image: this.canvas, x, y, width: this.wide, height } };
  }

  frame() {
    const { across, up, window: [low, high], ends: [, [bottom, top]], area: { width, height } } = this;
    const [wide, tall] = [width / (high - low), height / (top - bottom)];
    return {
      chart: this, width, height, colours: this.colours,
      x: (value) => (across(value) - low) * wide, y: (value) => (top - up(value)) * tall,
    };
  }

  paint() {
    const { width, height } = this.area, ratio = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d"), frame = { ...this.frame(), hatch: hatched(pen) };
    this.wide = width + (this.panel.right || 20);
    [this.canvas.width, this.canvas.height] = [Math.round(this.wide * ratio), Math.round(height * ratio)];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = `11px ${this.colours.font}`;
    pen.textBaseline = "middle";
    pen.save();
    traced(pen, [[0, 0], [width, 0], [width, height], [0, height]]);
    pen.clip();
    if (this.plug.behind) this.plug.behind(this, pen, frame);
    for (const mark of this.marks) if (mark.kind !== "note") PAINTERS[mark.kind](pen, frame, mark, this.view.layer);
    pen.restore();
    for (const mark of this.marks) if (mark.kind === "note") PAINTERS.note(pen, frame, mark);
  }

  show(low, high) {
    const span = Math.min(this.high - this.low, Math.max(Math.min(this.panel.zoom, this.high), high - low));
    const from = Math.min(Math.max(this.low, low), this.high - span);
    this.window = [from, from + span];
    this.chart.dispatchAction({ type: "dataZoom", startValue: from, endValue: from + span });
  }

  zoom(factor) {
    const [low, high] = this.window, middle = this.cursor ?? (low + high) / 2;
    const kept = middle > low && middle < high ? middle : (low + high) / 2;
    this.show(kept - (kept - low) * factor, kept + (high - kept) * factor);
  }

  move(share) {
    const [low, high] = this.window;
    this.show(low + share * (high - low), high + share * (high - low));
  }

  // From the first to the last box of the chosen layer.
  showLayer() {
    const { layer } = this.view;
    let low = Infinity, high = -Infinity;
    for (const mark of this.marks.filter((each) => each.start)) {
      mark.start.forEach((from, i) => { if (lineOf(mark, i) === layer) [low, high] = [Math.min(low, from), Math.max(high, mark.end[i])]; });
    }
    if (low < high) this.show(low - 0.05 * (high - low), high + 0.05 * (high - low));
    else this.told.textContent = layer === null ? "Choose a layer first: a click in the table, or on a picture." : "The chosen layer has nothing here.";
  }

  // What lies at a place of the box: {mark, i}, or {html, layer} of what a plug-in tells.
  at(x, y) {
    const { area } = this;
    if (!area || x < area.x || x > area.x + area.width || y < area.y || y > area.y + area.height) return null;
    const [low, high] = this.window, [bottom, top] = this.ends[1], [px, py] = [x - area.x, y - area.y];
    const value = low + (px / area.width) * (high - low), place = top + (py / area.height) * (bottom - top);
    this.cursor = value;
    if (this.plug.find) return this.plug.find(this, value, place, (2 * (high - low)) / area.width);
    if (this.panel.parts) return this.partsAt(Math.round(this.panel.parts.flat ? place : value));
    return this.nearest(this.frame(), px, py);
  }

  nearest(frame, px, py) {
    let found = null, least = NEAR_PX;
    for (const mark of this.marks) {
      if (mark.passive) continue;
      for (let i = 0; mark.start && i < mark.start.length; i += 1) {
        const [one, two] = [frame.y(mark.low(i)), frame.y(mark.high(i))];
        if (frame.x(mark.start[i]) <= px && px <= frame.x(mark.end[i]) && Math.min(one, two) <= py && py <= Math.max(one, two)) [found, least] = [{ mark, i }, -1];
      }
      for (let i = 0; mark.marker && i < mark.y.length; i += 1) {
        const distance = Math.hypot(frame.x(mark.x[i]) - px, frame.y(mark.y[i]) - py);
        if (distance < least) [found, least] = [{ mark, i }, distance];
      }
    }
    return found && this.said(found);
  }

  // A hit with its words: those that the mark declares, else the name of its series and where it is.
  said({ mark, i }) {
    const { x, y } = this.panel, layer = lineOf(mark, i), places = mark.x ? [[x, mark.x[i]], [y, mark.y[i]]] : [];
    const title = mark.title ? filled(mark.title, this, mark, i) : layer !== null ? this.view.nameOf(layer) : mark.label || this.panel.title;
    const where = places.map(([axis, value]) => `${axis.label}: ${axis.unit ? si(value * axis.factor, axis.unit) : Number(value.toPrecision(4))}`);
    const lines = mark.told ? mark.told.map((line) => filled(line, this, mark, i)) : where;
    const more = layer === null || mark.brief ? [] : this.view.told(layer);
    return { mark, i, layer, html: tip(title, [...lines, ...more]), words: [title, ...lines.filter(Boolean)].join("; ") };
  }

  // All parts of the bar at a place.
  partsAt(place) {
    const { first, count, unit, heading } = this.panel.parts, layer = place - first;
    if (layer < 0 || layer >= count) return null;
    const found = this.marks.flatMap((mark) => (mark.columns.line || []).flatMap((line, i) => (line === layer ? [[mark.label, mark.columns.value[i]]] : [])));
    const whole = found.reduce((total, [, value]) => total + value, 0);
    const lines = heading ? [heading, ...found.map(([name, value]) => `${name}: ${si(value, unit)} (${percent(value / whole)})`)] : [];
    return { layer, html: tip(this.view.nameOf(layer), [...this.view.told(layer), ...lines]) };
  }

  pointAt(x, y) {
    const found = this.at(x, y);
    this.view.point(found ? found.layer : null);
    this.tell(found, x, y);
  }

  tell(found, x, y) {
    if (found) this.chart.dispatchAction({ type: "showTip", x, y, tooltip: { formatter: () => found.html } });
    else {
      this.chart.dispatchAction({ type: "hideTip" });
      this.view.point(null);
    }
  }

  choose(found) {
    if (!found) return;
    if (found.mark?.grows) this.show(found.mark.start[found.i], found.mark.end[found.i]);
    this.view.choose(found.layer);
  }

  step(by) {
    const { layers, view } = this, now = layers.indexOf(view.layer);
    if (layers.length) view.point(layers[(now + by + layers.length + (now < 0 && by < 0 ? 1 : 0)) % layers.length]);
  }

  pressed(event) {
    const usual = { ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1), Enter: () => this.view.choose(this.view.layer), Escape: () => this.view.choose(null) };
    const action = this.plug.keys?.(this, event.key, event.shiftKey) || (this.panel.zoom && this.zooms[event.key]) || usual[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }
}

// Colours with their meaning, of what is visible; text that wraps where the page is narrow.
function keyOf(mount, panels) {
  const seen = new Map();
  for (const { marks, x, y } of panels) {
    for (const mark of marks) {
      const worth = !mark.share || mark.share >= LEAST;
      if (mark.label && worth && mark.kind !== "note") seen.set(mark.label, [at(mark.colour, 0), mark.hatched]);
      (mark.keys || []).forEach((key, i) => key && seen.set(key, [mark.colours[i], false]));
    }
  }
  const items = [...seen].map(([text, [colour, hatched]]) => {
    const deep = brightness(colour) < DEEP ? " deep" : "", patch = el("span", { class: `patch${hatched ? " hatched" : ""}${deep}` });
    patch.style.setProperty("--colour", colour);
    return el("span", { class: "entry" }, patch, text);
  });
  if (items.length) mount.append(el("p", { class: "key" }, ...items));
}

// The charts of a picture, each with its title, below each other or side by side.
function drawPicture(view, mount, picture) {
  keyOf(mount, picture.panels);
  const inside = el("div", picture.across > 1 ? { class: "halves" } : {});
  mount.append(inside);
  for (const panel of picture.panels) {
    const own = el("div", { class: "half" });
    inside.append(own);
    if (panel.title) own.append(el("h3", {}, panel.title));
    if (panel.note) own.append(el("p", { class: "caption" }, panel.note));
    new Chart(view, own, { ...panel, texts: picture.texts }, PLUGS[picture.name]);
  }
}

"use strict";
// Spans along an axis, painted on a canvas that ECharts shows within its grid: as many as 100,000, the narrow ones of a
// pixel as one. The axis zooms by buttons, keys, slider, Ctrl and wheel, and by dragging.

const TEXT_PX = 34, EDGE_PX = 7, FADED = 0.22;

// A set of spans: start, end (arrays), low, high (functions: place across the axis), layer (array or null),
// fill, text, hatched (functions of the index).
function paintSpans(pen, frame, set, lit) {
  let column = -1, covered = 0, last = -1;
  const flush = () => {
    if (last < 0) return;
    paintOne(pen, frame, set, last, column, 1, Math.max(0.3, Math.min(1, covered)), lit);
    last = -1;
  };
  for (let i = 0; i < set.start.length; i += 1) {
    if (set.end[i] < frame.low || set.start[i] > frame.high) continue;
    const left = frame.x(set.start[i]), width = frame.x(set.end[i]) - left;
    if (width >= 1) {
      flush();
      paintOne(pen, frame, set, i, left, width, 1, lit);
    } else if (last >= 0 && Math.floor(left) === column && set.low(i) === set.low(last)) {
      covered += width;
      if (set.layer[i] === lit) last = i;
    } else {
      flush();
      [column, covered, last] = [Math.floor(left), width, i];
    }
  }
  flush();
}

function paintOne(pen, frame, set, i, left, width, strength, lit) {
  const from = Math.max(left, -2), to = Math.min(left + width, frame.width + 2);
  const [top, bottom] = [frame.y(set.high(i)), frame.y(set.low(i))];
  const dim = lit !== null && set.layer[i] !== null && set.layer[i] !== lit;
  pen.globalAlpha = strength * (dim ? FADED : 1);
  pen.fillStyle = set.fill(i);
  pen.fillRect(from, top, Math.max(to - from, 1), Math.max(bottom - top, 1));
  if (set.hatched && set.hatched(i)) hatch(pen, from, top, to - from, bottom - top);
  if (to - from > 6 && set.outlined) {
    pen.strokeStyle = frame.colours.paper;
    pen.lineWidth = 1;
    pen.strokeRect(from + 0.5, top + 0.5, to - from - 1, bottom - top - 1);
  }
  if (to - from > TEXT_PX && bottom - top > 9) write(pen, frame, set.text(i), from, (top + bottom) / 2, to - from, set.fill(i));
  pen.globalAlpha = 1;
}

function hatch(pen, x, y, width, height) {
  if (width < 3) return;
  pen.save();
  pen.beginPath();
  pen.rect(x, y, width, height);
  pen.clip();
  pen.strokeStyle = "rgba(255,255,255,0.55)";
  pen.lineWidth = 1;
  pen.beginPath();
  for (let at = x - height - ((x - height) % 6); at < x + width; at += 6) {
    pen.moveTo(at, y + height);
    pen.lineTo(at + height, y);
  }
  pen.stroke();
  pen.restore();
}

// Black or white, whichever reads better on a colour #rrggbb.
function inkOn(colour) {
  return brightness(colour) > 140 ? "#000000" : "#ffffff";
}

function write(pen, frame, text, x, y, width, colour) {
  const most = Math.floor((width - 8) / 6.2);
  if (!text || most < 3) return;
  pen.fillStyle = inkOn(colour);
  pen.fillText(shortened(text, most), x + 4, y);
}

class Painted {
  // high: end of the axis; least: narrowest window; across: ECharts y axis (function of colours); places: [low, high]
  // of what is painted across; sets: function (colours) -> sets; axis: function (low, high) -> text of a value;
  // find: function (value, place, reach) -> {html, layer, choose, words} or null; behind: paints first
  constructor(view, mount, options) {
    Object.assign(this, { behind: () => {}, keys: () => null }, options, { view });
    this.low = 0;
    this.window = [0, this.high];
    this.canvas = document.createElement("canvas");
    this.range = el("output", {});
    mount.append(this.controls());
    this.drawing = new Drawing(view, mount, {
      label: `${options.label}; keys: plus and minus zoom, arrows left and right move, Home shows all`,
      height: options.height,
      option: (colours, width) => this.option(colours, width),
      pick: (x, y) => this.at(x, y),
      lit: () => this.repaint(),
    });
    this.told = el("p", { class: "hint told", "aria-live": "polite" });
    mount.append(this.told);
    this.drawing.box.addEventListener("keydown", (event) => this.pressed(event));
  }

  controls() {
    const button = (text, name, action) => el("button", { type: "button", title: name, "aria-label": name, click: action }, text);
    return el("div", { class: "controls" },
      button("all", "show all", () => this.show(0, this.high)),
      button("+", "zoom in", () => this.zoom(0.5)), button("−", "zoom out", () => this.zoom(2)),
      button("◀", "move left", () => this.move(-0.25)), button("▶", "move right", () => this.move(0.25)),
      button("to layer", "zoom to the chosen layer", () => this.showLayer()),
      this.range, el("span", { class: "mouse" }, "· Ctrl and wheel zoom, dragging moves"));
  }

  option(colours, width) {
    this.colours = colours;
    const left = width < 560 ? Math.min(this.left, 92) : this.left;
    const zoom = { xAxisIndex: 0, filterMode: "none", minValueSpan: this.least, startValue: this.window[0], endValue: this.window[1] };
    const touch = window.matchMedia("(pointer: coarse)").matches;
    return {
      grid: { left, right: this.right || 16, top: 8, bottom: 64 },
      xAxis: valueAxis(colours, {
        min: 0, max: this.high, name: this.name, nameLocation: "middle", nameGap: 24, splitNumber: width < 560 ? 3 : 6,
        axisLabel: { color: colours.ink, hideOverlap: true, showMinLabel: false, showMaxLabel: false, formatter: (value) => this.axis(...this.window)(value) },
      }),
      yAxis: this.across(colours, left),
      dataZoom: [
        { ...zoom, type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseMove: !touch, moveOnMouseWheel: false, preventDefaultMouseMove: false },
        { ...zoom, type: "slider", height: 18, bottom: 8, showDetail: false, brushSelect: false, borderColor: colours.line, textStyle: { color: colours.ink } },
      ],
      series: [{ type: "custom", id: "spans", data: [[0, 0]], encode: { x: -1, y: -1 }, silent: true, clip: true, progressive: 0,
        renderItem: (params, api) => this.rendered(params, api) }],
    };
  }

  rendered(params, api) {
    const { x, y, width, height } = params.coordSys;
    const [zero] = api.coord([0, 0]), [end] = api.coord([this.high, 0]);
    const scale = (end - zero) / this.high;
    this.window = [(x - zero) / scale, (x + width - zero) / scale];
    this.area = { x, y, width, height };
    const text = this.axis(...this.window);
    this.range.textContent = `shown: ${this.window.map((value) => text(Math.min(Math.max(value, 0), this.high))).join(" to ")}`;
    this.paint();
    return { type: "image", style: { image: this.canvas, x, y, width, height } };
  }

  frame() {
    const [low, high] = this.window, { width, height } = this.area, [bottom, top] = this.places;
    return {
      low, high, width, height, colours: this.colours,
      x: (value) => ((value - low) / (high - low)) * width,
      y: (place) => (1 - (place - bottom) / (top - bottom)) * height,
    };
  }

  paint() {
    const ratio = window.devicePixelRatio || 1, frame = this.frame();
    this.canvas.width = Math.max(1, Math.round(frame.width * ratio));
    this.canvas.height = Math.max(1, Math.round(frame.height * ratio));
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, frame.width, frame.height);
    pen.font = `11px ${this.colours.font}`;
    pen.textBaseline = "middle";
    this.behind(pen, frame);
    for (const set of this.sets(this.colours)) paintSpans(pen, frame, set, this.view.layer);
  }

  repaint() {
    this.painting = (this.painting || 0) + 1;
    if (this.area) this.drawing.chart.setOption({ series: [{ id: "spans", data: [[0, this.painting]] }] });
  }

  show(low, high) {
    const least = Math.min(this.least, this.high);
    const span = Math.min(this.high, Math.max(least, high - low));
    const from = Math.min(Math.max(0, low), this.high - span);
    this.window = [from, from + span];
    this.drawing.chart.dispatchAction({ type: "dataZoom", startValue: from, endValue: from + span });
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

  // From the first to the last span of the chosen layer.
  showLayer() {
    const { layer } = this.view;
    let low = Infinity, high = -Infinity;
    for (const set of this.sets(this.colours)) {
      for (let i = 0; i < set.start.length; i += 1) {
        if (set.layer[i] === layer) [low, high] = [Math.min(low, set.start[i]), Math.max(high, set.end[i])];
      }
    }
    if (low < high) this.show(low - 0.05 * (high - low), high + 0.05 * (high - low));
    else this.told.textContent = layer === null ? "Choose a layer first: a click in the table, or on a picture." : "The chosen layer has nothing here.";
  }

  at(x, y) {
    if (!this.area || x < this.area.x || x > this.area.x + this.area.width) return null;
    if (y < this.area.y || y > this.area.y + this.area.height) return null;
    const [low, high] = this.window, [bottom, top] = this.places;
    const value = low + ((x - this.area.x) / this.area.width) * (high - low);
    const place = top - ((y - this.area.y) / this.area.height) * (top - bottom);
    this.cursor = value;
    return this.find(value, place, (2 * (high - low)) / this.area.width);
  }

  pressed(event) {
    const action = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), Home: () => this.show(0, this.high),
      ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25), Escape: () => this.view.choose(null),
    }[event.key] || this.keys(event.key);
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }
}

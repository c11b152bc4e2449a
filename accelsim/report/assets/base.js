"use strict";
// What all parts of the page share: unpacking, numbers as text, colours, and which layer is pointed at.

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function el(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") found.addEventListener(name, value);
    else found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
}

// A tooltip: a title, then lines.
const tip = (title, lines) => el("div", { class: "tip" }, el("strong", {}, title), ...lines.filter(Boolean).map((line) => el("div", {}, line)));

const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"],
  [1e-9, "n"], [1e-12, "p"], [1e-15, "f"], [1e-18, "a"]];

// Of areas mm², of money no prefix, as accelsim/units.py writes them.
function prefixOf(value, unit = "") {
  if (unit === "m²") return [1e-6, "m"];
  if (unit.startsWith("USD")) return [1, ""];
  return PREFIXES.find(([factor]) => Math.abs(value) >= factor * 0.9995) || PREFIXES[PREFIXES.length - 1];
}

function si(value, unit, digits = 3) {
  if (!value) return `0 ${unit}`;
  const [factor, prefix] = prefixOf(value, unit);
  return `${Number((value / factor).toPrecision(digits))} ${prefix}${unit}`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const index = value ? Math.min(units.length - 1, Math.floor(Math.log2(Math.abs(value)) / 10)) : 0;
  return `${Number((value / 1024 ** index).toPrecision(4))} ${units[index]}`;
}

const seconds = (fs) => si(fs * 1e-15, "s");
const percent = (share) => (share > 0 && share < 5e-4 ? "<0.1%" : `${(100 * share).toFixed(1)}%`);
const shortened = (name, most) => (name.length <= most ? name : `${name.slice(0, most - 1)}…`);

// Marks on an axis from low to high: as many digits as tell neighbours apart.
function axisText(low, high, unit, scale) {
  const [factor, prefix] = unit ? prefixOf(Math.max(Math.abs(low), Math.abs(high)) * scale || 1, unit) : [1, ""];
  const step = (Math.abs(high - low) * scale) / factor / 8;
  const digits = Math.max(0, Math.min(12, Math.ceil(1 - Math.log10(step || 1))));
  return (value) => `${Number(((value * scale) / factor).toFixed(digits))} ${prefix}${unit}`.trim();
}

const DEEP = 70; // colours that are darker are made lighter on a dark page

function brightness(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue;
}

// So much of a colour #rrggbb, the rest of another.
function mixed(colour, other, share) {
  const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  return `#${[1, 3, 5].map((at) => Math.round(share * part(colour, at) + (1 - share) * part(other, at)).toString(16).padStart(2, "0")).join("")}`;
}

const INK = "#222222"; // of texts and lines, on paper

// A colour #rrggbb or #rrggbbaa as it is on the page: aa is the share that is not paper; it stands out, be that light or dark.
function visible(colour, { paper, ink }) {
  if (colour === INK) return ink;
  const plain = colour.slice(0, 7), share = colour.length > 7 ? parseInt(colour.slice(7), 16) / 255 : 1;
  const seen = brightness(paper) < 128 && brightness(plain) < DEEP ? mixed(plain, "#ffffff", 0.55) : plain;
  return share < 1 ? mixed(seen, paper, share) : seen;
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ink: of("ink"), soft: of("soft"), line: of("line"), paper: of("paper"), font: style.fontFamily || "sans-serif" };
}

// A run on the page: its data, its article, its charts, and the layer that is pointed at or was chosen.
class View {
  constructor(data, article) {
    Object.assign(this, { data, article, charts: [], listeners: [], layer: null, chosen: null });
  }

  onLayer(listener) {
    this.listeners.push(listener);
  }

  point(layer) {
    const next = layer === null || layer < 0 ? this.chosen : layer;
    if (next === this.layer) return;
    if (!this.waiting) requestAnimationFrame(() => this.light());
    this.waiting = true;
    this.layer = next;
  }

  light() {
    this.waiting = false;
    for (const listener of this.listeners) listener(this.layer);
  }

  choose(layer) {
    this.chosen = layer === null || layer < 0 || layer === this.chosen ? null : layer;
    this.point(this.chosen);
  }

  // What is said of a layer wherever it is pointed at.
  told(layer) {
    return layer < 0 ? [] : this.data.lines.told[layer];
  }

  nameOf(layer) {
    return layer < 0 ? this.data.none || "no layer" : this.data.lines.names[layer];
  }
}

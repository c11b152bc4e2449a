"use strict";
// Where every joule comes from: an icicle from component over figure and layer to tensor.

const LEVELS = ["component", "figure", "layer", "tensor"], LEVEL_PX = 46;

class Icicle {
  constructor(view, mount) {
    this.view = view;
    this.tree = view.data.joules;
    this.levels = LEVELS.map(() => []);
    let at = 0;
    for (const part of this.tree.parts) at = this.place(part, 0, at, [], false);
    this.seen = this.levels.map((nodes, level) => this.setOf(nodes, level));
    keyOf(mount, [...this.tree.categories, ["not verified", "#777777", true]]);
    this.painted = new Painted(view, mount, {
      label: `Energy by ${LEVELS.join(", ")}`,
      high: this.tree.total || 1, least: (this.tree.total || 1) * 1e-9, name: "energy", left: 86,
      height: LEVELS.length * LEVEL_PX + 72, places: [0, LEVELS.length],
      across: (colours) => ({ type: "category", inverse: true, data: LEVELS, axisTick: { show: false }, axisLine: { show: false }, axisLabel: { color: colours.ink, interval: 0 } }),
      axis: (low, high) => axisText(low, high, "J"),
      sets: (colours) => this.coloured(colours),
      find: (value, place) => this.find(value, place),
    });
  }

  // Puts a part and those within it beside each other from ``at`` on; returns where it ends.
  place(part, level, at, path, doubtful, above) {
    const [, weak] = this.tree.trust[part.trust] || ["", doubtful];
    const colour = part.colour || above;
    const node = { part, path: [...path, part], start: at, end: at + part.J, colour, weak };
    this.levels[level].push(node);
    let inner = at;
    for (const each of part.parts || []) inner = this.place(each, level + 1, inner, node.path, weak, colour);
    return node.end;
  }

  setOf(nodes, level) {
    const base = LEVELS.length - 1 - level;
    const layerOf = ({ path }) => (path.length > 2 ? path[2].layer : null);
    return {
      nodes, start: nodes.map((node) => node.start), end: nodes.map((node) => node.end), layer: nodes.map(layerOf), outlined: true,
      low: () => base + 0.03, high: () => base + 0.97, text: (i) => nodes[i].part.name, hatched: (i) => nodes[i].weak,
    };
  }

  coloured(colours) {
    const light = (node, i) => (i % 2 ? mixed(visible(node.colour, colours), colours.paper, 0.72) : visible(node.colour, colours));
    return this.seen.map((set) => ({ ...set, fill: (i) => light(set.nodes[i], i) }));
  }

  find(value, place) {
    const level = LEVELS.length - 1 - Math.floor(place);
    const nodes = this.levels[level] || [];
    const i = nodes.findIndex((node) => node.start <= value && value <= node.end);
    if (i < 0) return null;
    const { part, path, start, end } = nodes[i], figure = path[1];
    const told = figure && figure.trust ? `trust: ${figure.trust}, ${this.tree.trust[figure.trust][0]}` : "";
    const lines = [
      `${si(part.J, "J")}, ${percent(part.J / this.tree.total)} of the run`,
      path.length > 1 ? `in ${path.slice(0, -1).map((each) => each.name).join(" → ")}` : "",
      figure ? `each: ${figure.each}` : "", told,
    ];
    const layer = path.length > 2 ? path[2].layer : null;
    return { layer, html: tip(part.name, lines), choose: () => { this.painted.show(start, end); this.view.choose(layer); } };
  }
}

PARTS.joules = (view, mount) => new Icicle(view, mount);

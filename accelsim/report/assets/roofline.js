"use strict";
// Rooflines: one chart a memory, a mark a layer.

const ROOF_PX = 340, NEAREST_PX = 22;

class Roof {
  constructor(view, mount, roof) {
    this.view = view;
    this.roof = roof;
    this.points = roof.points.filter(([, intensity, rate]) => intensity > 0 && rate > 0);
    this.whole = sum(view.data.layers.time_fs) || 1;
    const without = roof.points.length - this.points.length;
    const box = el("div", { class: "half" }, el("h3", {}, roof.title));
    mount.append(box);
    this.drawing = new Drawing(view, box, {
      label: `Roofline of ${roof.title}: ${this.points.length} layers; keys up and down go through them`,
      height: ROOF_PX,
      option: (colours) => this.option(colours),
      pick: (x, y) => this.at(x, y),
      lit: (layer) => this.light(layer),
      layers: this.points.map(([layer]) => layer),
    });
    if (without) box.append(el("p", { class: "hint" }, `${without} of ${roof.points.length} layers moved nothing here, or took no time, and have no mark.`));
  }

  size(layer) {
    return 5 + 40 * Math.sqrt(this.view.data.layers.time_fs[layer] / this.whole);
  }

  option(colours) {
    const { peak, bandwidth } = this.roof;
    const knee = peak / bandwidth;
    const xs = [...this.points.map((point) => point[1]), knee], ys = [...this.points.map((point) => point[2]), peak];
    const low = 10 ** Math.floor(Math.log10(Math.min(...xs) / 1.5)), high = 10 ** Math.ceil(Math.log10(Math.max(...xs) * 1.5));
    const bottom = 10 ** Math.floor(Math.log10(Math.min(...ys, low * bandwidth))), top = 10 ** Math.ceil(Math.log10(peak * 1.2));
    const axis = (name, min, max, unit) => valueAxis(colours, {
      type: "log", name, min, max, nameLocation: "middle", axisLabel: { color: colours.ink, hideOverlap: true, formatter: (value) => (value < 1 ? `${Number(value.toPrecision(3))} ${unit}` : si(value, unit)).trim() },
    });
    return {
      grid: { left: 88, right: 24, top: 22, bottom: 52 },
      xAxis: { ...axis("operations per byte of this memory", low, high, ""), nameGap: 28 },
      yAxis: { ...axis("operations per second", bottom, top, "OPS"), nameGap: 62 },
      series: [
        { type: "line", silent: true, showSymbol: false, lineStyle: { color: colours.ink, width: 2 }, data: [[low, low * bandwidth], [knee, peak], [high, peak]] },
        { type: "scatter", id: "layers", silent: true, data: this.points.map(([, x, y]) => [x, y]),
          symbolSize: (_, params) => this.size(this.points[params.dataIndex][0]),
          itemStyle: { color: "#0072B2", opacity: 0.65, borderColor: colours.paper },
          label: { show: true, position: "top", distance: 1, fontSize: 10, color: colours.ink, formatter: (params) => this.number(this.points[params.dataIndex][0]) },
          labelLayout: { hideOverlap: true } },
      ],
    };
  }

  number(layer) {
    const { columns, cells } = this.view.data.layers;
    return cells[layer][columns.findIndex(([title]) => title === "#")];
  }

  light(layer) {
    const found = this.points.find((point) => point[0] === layer);
    if (!found) return this.drawing.mark("ring", 0, null);
    const [x, y] = this.drawing.chart.convertToPixel({ gridIndex: 0 }, found.slice(1)), size = this.size(layer) + 10;
    return this.drawing.mark("ring", 0, { left: x - size / 2, top: y - size / 2, width: size, height: size });
  }

  at(x, y) {
    let found = null, nearest = NEAREST_PX;
    for (const point of this.points) {
      const [px, py] = this.drawing.chart.convertToPixel({ gridIndex: 0 }, [point[1], point[2]]);
      const distance = Math.hypot(px - x, py - y);
      if (distance < nearest) [nearest, found] = [distance, point];
    }
    if (!found) return null;
    const [layer, intensity, rate] = found;
    const roof = Math.min(this.roof.peak, intensity * this.roof.bandwidth);
    const lines = [`${si(rate, "OPS")} at ${si(intensity, "")}operations per byte`, `${percent(rate / roof)} of the roof there, ${si(roof, "OPS")}`];
    return { layer, html: tip(this.view.nameOf(layer), [...lines, ...this.view.told(layer)]) };
  }
}

PARTS.rooflines = (view, mount) => {
  mount.classList.add("halves");
  for (const roof of view.data.rooflines) new Roof(view, mount, roof);
};

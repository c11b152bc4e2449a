"use strict";
// Time and energy by layer: stacked bars, side by side where there is room.

const BAR_PX = 15, NARROW_PX = 620, MOST_BARS = 90, NAME_SIGNS = 34;

function shortened(name, most) {
  return name.length <= most ? name : `${name.slice(0, most - 1)}…`;
}

// Two panels of bars over the same lines; panels: [{title, unit, scale, series: [[name, colour, values]]}].
class Bars {
  constructor(view, mount, names, panels, tell) {
    Object.assign(this, { names, panels, tell });
    this.shown = Math.min(names.length, MOST_BARS);
    for (const panel of panels) keyOf(mount, [[`${panel.title}:`, "transparent"], ...panel.series.map(([name, colour]) => [name, colour])]);
    this.drawing = new Drawing(view, mount, {
      label: `Bars of ${panels.map((panel) => panel.title).join(" and ")} by layer; keys up and down go through them`,
      height: (width) => (this.shown * BAR_PX + 90) * (width < NARROW_PX ? panels.length : 1),
      option: (colours, width) => this.option(colours, width),
      pick: (x, y) => this.at(x, y),
      lit: (layer) => this.light(layer),
      layers: names.map((_, layer) => layer),
    });
    this.drawing.chart.on("datazoom", () => this.light(view.layer));
  }

  option(colours, width) {
    const narrow = width < NARROW_PX;
    const names = this.names.map((name) => shortened(name, narrow ? 18 : NAME_SIGNS));
    const left = 12 + 6.6 * Math.max(...names.map((name) => name.length));
    const room = (width - left - 70) / this.panels.length;
    const height = this.shown * BAR_PX;
    const grid = this.panels.map((_, index) => (narrow
      ? { left, right: 34, top: 34 + index * (height + 90), height }
      : { left: left + index * (room + 24), width: room, top: 34, height }));
    const zoomed = this.names.length > this.shown;
    this.places = grid.map((each) => [each.left, each.top, each.width ?? width - each.left - each.right, height]);
    return {
      grid,
      xAxis: this.panels.map((panel, gridIndex) => valueAxis(colours, {
        gridIndex, name: `${panel.title} (${panel.unit})`, nameLocation: "middle", nameGap: 26, splitNumber: narrow ? 3 : 4,
        axisLabel: { color: colours.ink, hideOverlap: true, formatter: (value) => `${Number(value.toPrecision(4))}` },
      })),
      yAxis: this.panels.map((_, gridIndex) => ({
        gridIndex, type: "category", inverse: true, data: names, axisTick: { show: false },
        axisLine: { lineStyle: { color: colours.soft } },
        axisLabel: { show: narrow || !gridIndex, interval: 0, color: colours.ink, fontSize: 11 },
      })),
      dataZoom: zoomed ? [{ type: "slider", yAxisIndex: this.panels.map((_, index) => index), right: 0, width: 14, startValue: 0,
        endValue: this.shown - 1, showDetail: false, filterMode: "none" }] : [],
      series: this.panels.flatMap((panel, index) => this.stack(panel, index, colours)),
    };
  }

  stack(panel, index, colours) {
    return panel.series.map(([name, colour, values]) => ({
      type: "bar", name, stack: panel.grouped ? `${index} ${name}` : `${index}`, xAxisIndex: index, yAxisIndex: index, barCategoryGap: "22%",
      silent: true, itemStyle: { color: visible(colour, colours), borderColor: colours.paper, borderWidth: 0.4 },
      data: values.map((value) => (value === null ? null : value * panel.scale)),
    }));
  }

  // A band over the bars of the layer that is pointed at.
  light(layer) {
    const { chart } = this.drawing;
    this.panels.forEach((_, gridIndex) => {
      const [x, y, width, height] = this.places[gridIndex];
      const size = height / this.shown;
      const middle = layer === null || layer >= this.names.length ? -1 : chart.convertToPixel({ yAxisIndex: gridIndex }, layer);
      const inside = middle > y && middle < y + height;
      this.drawing.mark("band", gridIndex, inside ? { left: x, top: middle - size / 2, width, height: size } : null);
    });
  }

  at(x, y) {
    const { chart } = this.drawing;
    const index = this.panels.findIndex((_, gridIndex) => chart.containPixel({ gridIndex }, [x, y]));
    if (index < 0) return null;
    const layer = chart.convertFromPixel({ gridIndex: index }, [x, y])[1];
    return layer >= 0 && layer < this.names.length ? { layer, html: this.tell(layer, this.panels[index]) } : null;
  }
}

// A scale by which the largest value of a panel has no long number, with its unit.
function scaled(values, unit, base = 1) {
  const [factor, prefix] = prefixOf(Math.max(...values, 0) * base || 1);
  return { scale: base / factor, unit: `${prefix}${unit}` };
}

PARTS.bars = (view, mount) => {
  const { layers } = view.data;
  const panels = [
    { title: "time", series: layers.reasons, ...scaled(layers.time_fs, "s", 1e-15) },
    { title: "energy", series: layers.categories, ...scaled(layers.energy_J, "J") },
  ].filter((panel) => panel.series.length);
  const tell = (layer, panel) => {
    const parts = panel.series.filter(([, , values]) => values[layer]);
    const total = sum(parts.map(([, , values]) => values[layer]));
    const lines = parts.map(([name, , values]) => {
      const text = panel.title === "time" ? seconds(values[layer]) : si(values[layer], "J");
      return `${name}: ${text} (${percent(values[layer] / total)})`;
    });
    return tip(layers.names[layer], [...view.told(layer), `${panel.title} goes to`, ...lines]);
  };
  new Bars(view, mount, layers.names, panels, tell);
};

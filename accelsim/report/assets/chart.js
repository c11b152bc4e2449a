"use strict";
// A chart: an ECharts instance in a box that can have the focus. What lies under the pointer is found by ``pick``.

const FONT_PX = 12;

class Drawing {
  // label: what it shows, read out; height: px; option: function (theme, width) -> ECharts option;
  // pick: function (x, y) -> {html, layer, choose} of what lies there, or null; lit: shows the layer that is pointed at;
  // layers: those that the keys up and down go through
  constructor(view, mount, { label, height, option, pick, lit = () => {}, layers = [] }) {
    this.view = view;
    this.option = option;
    this.heightOf = typeof height === "function" ? height : () => height;
    this.pick = pick;
    this.box = el("div", { class: "chart", role: "img", tabindex: "0", "aria-label": label });
    mount.append(this.box);
    this.fit();
    this.chart = echarts.init(this.box, null, { renderer: "canvas" });
    this.redraw();
    view.drawings.push(this);
    this.lit = lit;
    this.lightWhenSeen();
    if (layers.length) this.box.addEventListener("keydown", (event) => this.step(event, layers));
    const zr = this.chart.getZr();
    zr.on("mousemove", (event) => this.pointAt(event.offsetX, event.offsetY));
    zr.on("globalout", () => this.leave());
    zr.on("click", (event) => this.chooseAt(event.offsetX, event.offsetY));
  }

  // What nobody sees is lit when it comes into view.
  lightWhenSeen() {
    let seen = true, stale = false;
    this.view.onLayer((layer) => {
      if (seen) this.lit(layer);
      else stale = true;
    });
    new IntersectionObserver((entries) => {
      seen = entries[entries.length - 1].isIntersecting;
      if (seen && stale) this.lit(this.view.layer);
      stale = stale && !seen;
    }).observe(this.box);
  }

  step(event, layers) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key], at = layers.indexOf(this.view.layer);
    if (by) this.view.point(layers[(at + by + layers.length + (at < 0 && by < 0 ? 1 : 0)) % layers.length]);
    else if (event.key === "Enter") this.view.choose(this.view.layer);
    else if (event.key === "Escape") this.view.choose(null);
    else return;
    event.preventDefault();
  }

  // A mark over the chart, px; it takes no part in its drawing.
  mark(kind, number, place) {
    this.marks = this.marks || [];
    if (!this.marks[number]) this.box.append(this.marks[number] = el("div", { class: kind, "aria-hidden": "true" }));
    const found = this.marks[number];
    found.hidden = !place;
    for (const [side, value] of Object.entries(place || {})) found.style[side] = `${value}px`;
  }

  fit() {
    this.box.style.height = `${this.heightOf(this.box.clientWidth)}px`;
  }

  redraw() {
    const colours = theme();
    const base = {
      animation: false,
      backgroundColor: "transparent",
      textStyle: { fontFamily: colours.font, fontSize: FONT_PX, color: colours.ink },
      tooltip: {
        trigger: "item", triggerOn: "none", confine: true, padding: 8, transitionDuration: 0, hideDelay: 0,
        backgroundColor: colours.paper, borderColor: colours.line, textStyle: { color: colours.ink, fontSize: FONT_PX },
      },
    };
    this.chart.setOption({ ...base, ...this.option(colours, this.box.clientWidth) }, { notMerge: true });
  }

  resize() {
    this.fit();
    this.chart.resize();
    this.redraw();
    this.lit(this.view.layer);
  }

  pointAt(x, y) {
    const found = this.pick(x, y);
    this.view.point(found ? found.layer : null);
    if (found) this.tell(found, x, y);
    else this.chart.dispatchAction({ type: "hideTip" });
  }

  tell(found, x, y) {
    this.chart.dispatchAction({ type: "showTip", x, y, tooltip: { formatter: () => found.html } });
  }

  leave() {
    this.chart.dispatchAction({ type: "hideTip" });
    this.view.point(null);
  }

  chooseAt(x, y) {
    const found = this.pick(x, y);
    if (!found) return;
    if (found.choose) found.choose();
    else this.view.choose(found.layer);
  }
}

function valueAxis(colours, more) {
  return {
    type: "value",
    axisLine: { show: true, lineStyle: { color: colours.soft } },
    axisLabel: { color: colours.ink, hideOverlap: true },
    nameTextStyle: { color: colours.ink },
    splitLine: { lineStyle: { color: colours.line } },
    ...more,
  };
}

// Colours with their meaning, as text that wraps where the page is narrow.
function keyOf(mount, entries) {
  const items = entries.map(([text, colour, hatched]) => {
    const deep = colour.startsWith("#") && brightness(colour) < DEEP ? " deep" : "";
    const patch = el("span", { class: `patch${hatched ? " hatched" : ""}${deep}` });
    patch.style.setProperty("--colour", colour);
    return el("span", { class: "entry" }, patch, text);
  });
  mount.append(el("p", { class: "key" }, ...items));
}

"use strict";
// Builds the page: each run when it is shown first, again where light and dark or the width change.

const VIEWS = new Map();

// A picture that cannot be drawn leaves the others alone.
function failed(mount, error) {
  mount.replaceChildren(el("p", { class: "hint" }, `This picture cannot be drawn: ${error.message}`));
  console.error(error);
}

// One part after the other; between two of them the page answers.
async function build(view) {
  statusLine(view);
  for (const section of view.article.querySelectorAll(".part")) {
    const mount = section.querySelector(".mount"), { part } = section.dataset;
    try {
      if (part === "table") tablePart(view, mount);
      else if (part === "points") new Explorer(view, mount, view.data.points);
      else if (part === "array") new Player(mount, view.data.array);
      else drawPicture(view, mount, view.data.pictures.find((picture) => picture.name === part));
    } catch (error) {
      failed(mount, error);
    }
    await new Promise((go) => { setTimeout(go); });
  }
}

// At the lower edge of the window: the layer that is pointed at.
function statusLine(view) {
  const line = document.getElementById("status");
  view.onLayer((layer) => {
    line.hidden = layer === null;
    if (layer !== null) line.textContent = [view.nameOf(layer), ...view.told(layer)].join(" · ");
  });
}

async function dataOf(name) {
  return JSON.parse(await unpacked(name === "comparison" ? "comparison-data" : `run-data-${name}`));
}

async function show(name) {
  for (const article of document.querySelectorAll("article")) article.hidden = (article.dataset.run || "comparison") !== name;
  for (const button of document.querySelectorAll("nav.runs button")) button.setAttribute("aria-pressed", String(button.dataset.show === name));
  if (VIEWS.has(name)) {
    for (const chart of VIEWS.get(name).charts) chart.resize();
    return;
  }
  const article = name === "comparison" ? document.querySelector("article.comparison") : document.querySelector(`article[data-run="${name}"]`);
  const view = new View(await dataOf(name), article);
  VIEWS.set(name, view);
  await build(view);
}

function redrawn() {
  for (const view of VIEWS.values()) {
    if (view.article.hidden) continue;
    for (const chart of view.charts) chart.resize();
  }
}

// Light, and as wide as paper, while the page is printed.
function onPaper(printed) {
  document.documentElement.toggleAttribute("data-print", printed);
  redrawn();
}

async function begin() {
  document.body.append(el("p", { id: "status", hidden: "", "aria-live": "polite" }));
  document.body.append(el("script", {}, await unpacked("library")));
  for (const button of document.querySelectorAll("nav.runs button")) button.addEventListener("click", () => show(button.dataset.show));
  await show(document.querySelector("article.comparison") ? "comparison" : "0");
  window.addEventListener("resize", redrawn);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawn);
  window.addEventListener("beforeprint", () => onPaper(true));
  window.addEventListener("afterprint", () => onPaper(false));
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

begin().catch((error) => failed(document.body.insertBefore(el("div"), document.body.firstChild), error));

"use strict";
// Runs side by side: bars of each layer, a colour a run, and a table that sorts and filters.

function comparisonPart(comparison, view, mount) {
  const { runs, lines, colours } = comparison;
  const series = (key) => runs.map((name, run) => [name, colours[run], lines.map((line) => line[key][run])]);
  const known = (key) => lines.flatMap((line) => line[key].filter((value) => value !== null));
  const panels = [
    { title: "time", grouped: true, series: series("time_s"), ...scaled(known("time_s"), "s") },
    { title: "energy", grouped: true, series: series("energy_J"), ...scaled(known("energy_J"), "J") },
  ];
  const tell = (index) => {
    const line = lines[index];
    const text = (name, run) => (line.time_s[run] === null ? `${name}: not there`
      : `${name}: ${si(line.time_s[run], "s")}, ${si(line.energy_J[run], "J")}, bound by ${line.bound[run]}`);
    return tip(line.name, [line.title === line.name ? "" : line.title, ...runs.map(text)]);
  };
  const table = view.article.querySelector("table.layers");
  sortable(table);
  filterable(table, mount);
  pointable(view, table);
  new Bars(view, mount, lines.map((line) => line.name), panels, tell);
}

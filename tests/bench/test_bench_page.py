"""How long the page of a run with 100,000 slices takes until it can be read and used, and the page of ResNet-50 to make."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import accelsim
from accelsim.account.latency import layers
from accelsim.report.page.data import packed, page_data
from accelsim.report.page.document import Entry, html
from accelsim.report.write import facts_of
from tests.helpers.chromium import chromium, opened

SLICES = 100_000
ROUNDS = 3


def crowded() -> dict[str, Any]:
    """The data of a small run whose engines have that many slices in all."""
    run = accelsim.run("cnn", "edu-4x4", values="off")
    data = page_data(run, layers(run), facts_of(run, None))
    (timeline,) = (
        panel for picture in data["pictures"] if picture["name"] == "timeline" for panel in picture["panels"]
    )
    rows = [mark for mark in timeline["marks"] if "lead" in mark["columns"]]
    each, count = SLICES // len(rows), len(data["layers"]["names"])
    step = int(timeline["x"]["high"]) // each
    for row in rows:
        row |= {
            "steps": [0, *[step] * (each - 1)],
            "span": [step - 1 - number % 7 for number in range(each)],
            "columns": {
                "line": [number * count // each for number in range(each)],
                "tint": [number % 2 for number in range(each)],
                "count": [0] * each,
                "lead": [0] * each,
                "label": [number % 3 for number in range(each)],
                "wait": [number % 2 for number in range(each)],
            },
        }
    return data


def test_a_page_with_many_slices(benchmark: Any, figure: Any, tmp_path: Path) -> None:
    data = crowded()
    file = tmp_path / "page.html"
    file.write_text(html([Entry(data, packed(data))]))
    ready, zoomed = [], []
    with chromium() as browser:
        for _ in range(ROUNDS):
            with opened(browser, file) as found:
                ready.append(float(found.page.evaluate("document.documentElement.dataset.ready")) / 1e3)
                zoomed.append(found.page.evaluate(ZOOM) / 1e3)
    benchmark.pedantic(lambda: None, rounds=1)
    figure(f"page with {SLICES:,} slices: a zoom of its timeline", min(zoomed), " s", None)
    assert figure(f"page with {SLICES:,} slices: until all is drawn", min(ready), " s", 2.0).holds


ZOOM = """() => {
  const chart = VIEWS.get("0").charts.find((each) => each.box.ariaLabel.startsWith("Timeline")).chart;
  const begun = performance.now();
  for (let turn = 0; turn < 10; turn += 1) {
    chart.dispatchAction({ type: "dataZoom", start: 2 * turn, end: 100 - 2 * turn });
    chart.getZr().flush();
  }
  return (performance.now() - begun) / 10;
}"""


def test_the_page_of_resnet50(benchmark: Any, figure: Any) -> None:
    run = accelsim.run("resnet50", "tpu-v1", values="off")
    rows, facts = layers(run), facts_of(run, None)

    def make() -> str:
        data = page_data(run, rows, facts)
        return html([Entry(data, packed(data))])

    begun = time.process_time()
    size = len(benchmark.pedantic(make, rounds=1))
    assert figure("page of ResNet-50 on a TPU v1: its size", size / 1e6, " MB", 3.0).holds
    assert figure("page of ResNet-50 on a TPU v1: to make it", time.process_time() - begun, " s", 1.0).holds

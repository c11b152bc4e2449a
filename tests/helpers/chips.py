"""Chips by kind."""

from __future__ import annotations

from accelsim.spec.yaml.load import list_chips

GPUS = [found.name for found in list_chips() if found.kind == "gpu"]

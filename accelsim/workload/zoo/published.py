"""Published language models by name: the fields that matter of their configurations, as ``published.json`` has them.

``source``: the repository of Hugging Face whose ``config.json`` states these facts.
"""

from __future__ import annotations

import json
from pathlib import Path

from accelsim.workload.zoo.config_facts import Facts
from accelsim.workload.zoo.configs import read_entry
from accelsim.workload.zoo.entry import register

FILE = Path(__file__).with_suffix(".json")
TEXT = FILE.read_text(encoding="utf-8")

for _name, _row in json.loads(TEXT).items():
    _description = f"{_row['description']} (config.json of {_row['source']})"
    register(read_entry(_name, _description, Facts(str(FILE), TEXT, _row["config"])))

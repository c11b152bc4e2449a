"""Where the elements of a tensor lie among the ranks of a group, and what each operator makes of that.

One module per family of operators; what they register with ``@rule`` is found here.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from accelsim.cluster.plan.placing.base import RULES, WHOLE, Ask, Choice, Place, choices, partial, split

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["RULES", "WHOLE", "Ask", "Choice", "Place", "choices", "partial", "split"]

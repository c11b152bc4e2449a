"""Update rules as nodes of the graph, in the order of operations of PyTorch.

Each rule keeps slots per weight (tensors of its shape) and scalars per step; all start at 0. The arithmetic is fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from accelsim.errors import Problem, UsageError, nearest
from accelsim.workload.training.emit import Emitter

Names = Mapping[str, str]


class Optimiser(Protocol):
    """An update rule: ``slots`` per weight, ``scalars`` per step, and what it writes into the graph."""

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the states of each weight."""

    @property
    def scalars(self) -> tuple[str, ...]:
        """Names of the states that all weights share."""

    def advance(self, e: Emitter, scalars: Names) -> dict[str, str]:
        """Write the new scalars: name -> tensor."""

    def update(self, e: Emitter, weight: str, grad: str, lr: str, slots: Names, scalars: Names) -> dict[str, str]:
        """Write the update of ``weight``: '' -> the tensor of the new weight, slot -> that of its new value.

        ``scalars`` are the new ones. Weights named in no decay rule (biases too) decay alike, as in PyTorch.
        """


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent as ``torch.optim.SGD`` (dampening 0): decay, momentum, Nesterov.

    g += decay * w; buffer = momentum * buffer + g; g = g + momentum * buffer (Nesterov) or buffer; w -= lr * g.
    ``lr`` is the start value: the rate is an input of the graph.
    """

    lr: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        problems = [*_signs({"lr": self.lr, "weight_decay": self.weight_decay}), *_share("momentum", self.momentum)]
        if self.nesterov and not self.momentum:
            problems.append(Problem("nesterov without momentum", expected="momentum above 0"))
        UsageError.raise_for(problems)

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the states of each weight: the momentum buffer, if there is momentum."""
        return ("momentum",) if self.momentum else ()

    @property
    def scalars(self) -> tuple[str, ...]:
        """Names of shared states: SGD has none."""
        return ()

    def advance(self, e: Emitter, scalars: Names) -> dict[str, str]:
        """Return no scalars: SGD has none."""
        return {}

    def update(self, e: Emitter, weight: str, grad: str, lr: str, slots: Names, scalars: Names) -> dict[str, str]:
        """Write the update of ``weight`` by the formula of the class; see ``Optimiser.update``."""
        grad = _decayed(e, weight, grad, self.weight_decay)
        new: dict[str, str] = {}
        if self.momentum:
            kept = e.pair("Mul", slots["momentum"], e.number(self.momentum), f"{weight}.momentum.kept")
            new["momentum"] = e.pair("Add", kept, grad, f"{weight}.momentum.sum")
            if self.nesterov:
                ahead = e.pair("Mul", new["momentum"], e.number(self.momentum), f"{weight}.nesterov.part")
                grad = e.pair("Add", grad, ahead, f"{weight}.nesterov")
            else:
                grad = new["momentum"]
        return {"": _moved(e, weight, e.pair("Mul", grad, lr, f"{weight}.step")), **new}


@dataclass(frozen=True)
class Adam:
    """Adam as ``torch.optim.Adam`` (Kingma and Ba 2015, algorithm 1, with the bias corrections factored out).

    m += (1 - b1) (g - m); v = b2 v + (1 - b2) g g; w -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps), where
    c = 1 - b^t. The corrections are states, c <- b c + (1 - b), which keeps their precision in fp32 while c is small.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        problems = [*_signs({"lr": self.lr, "eps": self.eps, "weight_decay": self.weight_decay})]
        problems += [problem for beta in self.betas for problem in _share("beta", beta)]
        UsageError.raise_for(problems)

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the states of each weight: first and second moment."""
        return ("moment1", "moment2")

    @property
    def scalars(self) -> tuple[str, ...]:
        """Names of the shared states: 1 - beta^t of both moments."""
        return ("correction1", "correction2")

    def advance(self, e: Emitter, scalars: Names) -> dict[str, str]:
        """Write the bias corrections of this step: name -> tensor."""
        new = {}
        for name, beta in zip(self.scalars, self.betas, strict=True):
            kept = e.pair("Mul", scalars[name], e.number(beta), f"adam.{name}.kept")
            new[name] = e.pair("Add", kept, e.number(1 - beta), f"adam.{name}.sum")
        e.op("Sqrt", [new["correction2"]], "adam.root2")
        return new

    def update(self, e: Emitter, weight: str, grad: str, lr: str, slots: Names, scalars: Names) -> dict[str, str]:
        """Write the update of ``weight`` by the formula of the class; see ``Optimiser.update``."""
        (beta1, beta2), m, v = self.betas, slots["moment1"], slots["moment2"]
        grad = _decayed(e, weight, grad, self.weight_decay)
        change = e.pair("Mul", e.pair("Sub", grad, m, f"{weight}.m.gap"), e.number(1 - beta1), f"{weight}.m.part")
        m = e.pair("Add", m, change, f"{weight}.m.sum")
        kept = e.pair("Mul", v, e.number(beta2), f"{weight}.v.kept")
        part = e.pair("Mul", grad, e.number(1 - beta2), f"{weight}.v.part")
        v = e.pair("Add", kept, e.pair("Mul", part, grad, f"{weight}.v.square"), f"{weight}.v.sum")
        root = e.pair("Div", e.op("Sqrt", [v], f"{weight}.v.sqrt"), "adam.root2", f"{weight}.v.root")
        rate = e.pair("Add", root, e.number(self.eps), f"{weight}.denominator")
        size = "adam.step"
        if size not in e.graph.tensors:
            e.pair("Div", lr, scalars["correction1"], size)
        scaled = e.pair("Mul", m, size, f"{weight}.m.scaled")
        new = _moved(e, weight, e.pair("Div", scaled, rate, f"{weight}.step"))
        return {"": new, "moment1": m, "moment2": v}


OPTIMISERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}
"""Update rules by name."""


def optimiser_of(name: str, lr: float | None = None) -> SGD | Adam:
    """The rule of that name for a command line: 'sgd' (momentum 0.9, lr 0.05) or 'adam' (lr 0.001).

    Raises UsageError for another name (with the nearest one) or a learning rate below 0.
    """
    if name not in OPTIMISERS:
        expected = "one of " + ", ".join(OPTIMISERS)
        raise UsageError(f"no optimiser {name!r}", "", expected, nearest(name, OPTIMISERS))
    return SGD(0.05 if lr is None else lr, momentum=0.9) if name == "sgd" else Adam(1e-3 if lr is None else lr)


def _decayed(e: Emitter, weight: str, grad: str, decay: float) -> str:
    if not decay:
        return grad
    return e.pair("Add", grad, e.pair("Mul", weight, e.number(decay), f"{weight}.decay"), f"{weight}.decayed")


def _moved(e: Emitter, weight: str, step: str) -> str:
    return e.pair("Sub", weight, step, f"{weight}.moved")


def _signs(values: Mapping[str, float]) -> list[Problem]:
    return [
        Problem(f"{name} is {value}", expected="a finite number, 0 or more")
        for name, value in values.items()
        if not 0 <= value < float("inf")
    ]


def _share(name: str, value: float) -> list[Problem]:
    return [] if 0 <= value < 1 else [Problem(f"{name} is {value}", expected="at least 0 and below 1")]

"""Plausible wrong answers to lesson 15."""

WRONG = {
    "strictly better in both": ("one[0] <= other[0] and one[1] <= other[1]", "one[0] < other[0] and one[1] < other[1]", r"beats"),
    "better in one": ("one[0] <= other[0] and one[1] <= other[1]", "(one[0] < other[0] or one[1] < other[1])", r"beats"),
    "equal designs beat each other": (" and one != other", "", r"beats"),
    "larger is better": ("one[0] <= other[0] and one[1] <= other[1]", "one[0] >= other[0] and one[1] >= other[1]", r"beats"),
    "latency alone": (" and one[1] <= other[1]", "", r"beats"),
    "the beaten ones": ("if not any(", "if any(", r"front"),
    "all": ("if not any(", "if True or any(", r"front"),
    "unsorted": ("return sorted(kept, key=lambda at: (designs[at][0], at))", "return kept", r"front"),
    "the slowest first": ("(designs[at][0], at))", "(-designs[at][0], at))", r"front"),
    "designs instead of numbers": (
        "return sorted(kept, key=lambda at: (designs[at][0], at))",
        "return [designs[at] for at in sorted(kept, key=lambda at: (designs[at][0], at))]",
        r"front",
    ),
    "one of equal designs": (
        "return sorted(kept, key=lambda at: (designs[at][0], at))",
        "return sorted({designs[at]: at for at in reversed(kept)}.values(), key=lambda at: (designs[at][0], at))",
        r"front",
    ),
    "the worst of the front": ("scaled.index(min(scaled))", "scaled.index(max(scaled))", r"knee"),
    "place on the front": ("return kept[scaled.index(min(scaled))]", "return scaled.index(min(scaled))", r"knee"),
    "the fastest within the limit": ("designs[at][1]) if fits", "designs[at][0]) if fits", r"smallest"),
    "no limit kept": ("return min(fits, key=lambda at: designs[at][1]) if fits else -1",
                      "return min(fits, key=lambda at: designs[at][1]) if fits else 0", r"smallest"),
    "below the limit only": ("if own[0] <= limit", "if own[0] < limit", r"smallest"),
    "upside down": (
        "ANSWER = DESIGNS[smallest(DESIGNS, LIMIT / 2)][1] / DESIGNS[smallest(DESIGNS, LIMIT)][1]",
        "ANSWER = DESIGNS[smallest(DESIGNS, LIMIT)][1] / DESIGNS[smallest(DESIGNS, LIMIT / 2)][1]",
        "ANSWER",
    ),
}  # fmt: skip

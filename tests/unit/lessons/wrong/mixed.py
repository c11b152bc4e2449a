"""Plausible wrong answers to lesson 10."""

WRONG = {
    "exact": ("    return trunc(total / last) * last", "    return sum(terms)", r"block"),
    "rounded at the end": ("return trunc(total / last) * last", "return round(total / last) * last", r"block"),
    "terms rounded": (
        "sum(trunc(term / unit) for term in terms)",
        "sum(round(term / unit) for term in terms)",
        r"block|dot",
    ),
    "terms floored": (
        "sum(trunc(term / unit) for term in terms)",
        "sum(floor(term / unit) for term in terms)",
        r"block",
    ),
    "the exponent of the product": (
        "[exponent(x) + exponent(y) for x, y in zip(a, b)]",
        "[exponent(x * y) for x, y in zip(a, b)]",
        r"block|dot",
    ),
    "c does not count": ("max([exponent(c)] + [", "max([-1000] + [", r"block"),
    "c is forgotten": ("terms = [c] + [", "terms = [0.0] + [", r"block"),
    "one bit more": ("unit = 2.0 ** (top - BITS)", "unit = 2.0 ** (top - BITS - 1)", r"block|dot"),
    "a bit too few": ("exponent(total) - 23", "exponent(total) - 22", r"block"),
    "no carry from block to block": (
        "c = block(a[at : at + SIZE], b[at : at + SIZE], c)",
        "c += block(a[at : at + SIZE], b[at : at + SIZE], 0.0)",
        r"dot",
    ),
    "blocks of eight times": ("for at in range(0, len(a), SIZE):", "for at in range(0, len(a), 2 * SIZE):", r"dot"),
    "doubled at once": ("== 8:", "== 1:", r"update"),
    "one step late": ("if good + 1 == ", "if good == ", r"update"),
    "the count goes on": ("return (scale / 2, 0)", "return (scale / 2, good)", r"update"),
    "quartered": ("return (scale / 2, 0)", "return (scale / 4, 0)", r"update"),
    "never halved": ("return (scale / 2, 0)", "return (scale, 0)", r"update"),
    "subnormal is enough": ("ceil(-14 - log2", "ceil(-24 - log2", "ANSWER"),
}

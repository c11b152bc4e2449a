"""Plausible wrong answers to lesson 4."""

WRONG = {
    "rounding down": ("-(-N // 8)", "N // 8", r"words\('ws'.*words of A"),
    "a fraction of a fold": ("-(-N // 8)", "N / 8", r"words\('ws'.*words of A"),
    "sums are never read back": ("(2 * tiles_k - 1)", "tiles_k", r"words\('ws'.*sums"),
    "the first fold reads too": ("(2 * tiles_k - 1)", "2 * tiles_k", r"words\('ws'.*sums"),
    "sums leave once": ("partial = M * N * (2 * tiles_k - 1)", "partial = M * N", r"words\('ws'.*sums"),
    "ws streams B": (
        "return M * K * tiles_n, K * N, partial",
        "return M * K, K * N * tiles_m, partial",
        r"words\('ws'",
    ),
    "ws fetches A once": (
        "return M * K * tiles_n, K * N, partial",
        "return M * K, K * N, partial",
        r"words\('ws'.*words of A",
    ),
    "the other tiles": (
        "return M * K, K * N * tiles_m, partial",
        "return M * K, K * N * tiles_n, partial",
        r"words\('is'.*words of B",
    ),
    "os fetches once": ("return M * K * tiles_n, K * N * tiles_m, M * N", "return M * K, K * N, M * N", r"words\('os'"),
    "os writes partial sums": ("K * N * tiles_m, M * N\n", "K * N * tiles_m, partial\n", r"words\('os'.*sums"),
    "the worst": ("return min((", "return max((", r"best"),
    "by operands alone": ("sum(words(name, M, N, K))", "sum(words(name, M, N, K)[:2])", r"best"),
    "picojoules": ("/ 1000", "", "ANSWER"),
    "the best alone": ("(max(totals) - min(totals))", "min(totals)", "ANSWER"),
}

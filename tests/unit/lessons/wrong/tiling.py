"""Plausible wrong answers to lesson 5."""

TOTAL = "return A + B + M * N"
WRONG = {
    "two tiles": ("return tm * tk + tk * tn + tm * tn <= buffer", "return tm * tk + tk * tn <= buffer", r"fits"),
    "a full buffer does not fit": ("+ tm * tn <= buffer", "+ tm * tn < buffer", r"fits"),
    "each on its own": (
        "return tm * tk + tk * tn + tm * tn <= buffer",
        "return max(tm * tk, tk * tn, tm * tn) <= buffer",
        r"fits",
    ),
    "a number, no truth": ("+ tm * tn <= buffer", "+ tm * tn", r"fits"),
    "no result": (TOTAL, "return A + B", r"dram_bytes"),
    "each operand once": (TOTAL, "return M * K + K * N + M * N", r"dram_bytes"),
    "B is never kept": ("(m if k > 1 else 1)", "m", r"dram_bytes"),
    "A is never kept": ("(n if m * k > 1 else 1)", "n", r"dram_bytes"),
    "rounding down": ("-(-N // tn)", "N // tn", r"dram_bytes"),
    "the result comes back": (TOTAL, "return A + B + 2 * M * N", r"dram_bytes"),
    "overwritten": ("] += A[m", "] = A[m", r"multiply"),
    "whole tiles only": ("range(0, B.shape[1], tn)", "range(0, B.shape[1] - tn + 1, tn)", r"multiply"),
    "the smallest tile": ("return best\n", "return (4, 4, 4)\n", r"choose"),
    "too large": ("return best\n", "return (M, N, K)\n", r"choose"),
    "no multiples of four": ("return best\n", "return (best[0] - 1, best[1], best[2])\n", r"choose"),
    "the wrong way round": (") < least", ") > least", r"choose"),
    "after by before": ("ANSWER = ", "ANSWER = 1 / ", "ANSWER"),
}

"""Plausible wrong answers to lesson 3."""

STEP = "return a_in, b_in if loading else b, y_in + a_in * b"
WRONG = {
    "weights never stay": (STEP, "return a_in, b_in, y_in + a_in * b", r"pe_step.*register b"),
    "weights never move": (STEP, "return a_in, b, y_in + a_in * b", r"pe_step.*register b"),
    "the new weight is multiplied": (
        STEP,
        "b2 = b_in if loading else b\n    return a_in, b2, y_in + a_in * b2",
        r"pe_step.*register y",
    ),
    "no sum": (STEP, "return a_in, b_in if loading else b, a_in * b", r"pe_step.*register y"),
    "a is multiplied first": (STEP, "return a_in * b, b_in if loading else b, y_in + a_in * b", r"pe_step.*register a"),
    "two registers": (STEP, "return a_in, y_in + a_in * b", r"pe_step"),
    "nothing while loading": (
        STEP,
        "return (a_in, b_in, y_in) if loading else (a_in, b, y_in + a_in * b)",
        r"pe_step.*register y",
    ),
    "no skew": ("m = edge - 5 - row", "m = edge - 5", r"edge 5, left port of row 1"),
    "too early": ("m = edge - 5 - row", "m = edge - 4 - row", r"edge 4, left port of row 0"),
    "column of A": ("A[m][row]", "A[row][m]", r"left port|array.py"),
    "the first row first": (
        "B[4 - edge][column] if edge <= 4",
        "B[edge - 1][column] if edge <= 4",
        r"edge 1, top port",
    ),
    "weights for ever": (
        "B[4 - edge][column] if edge <= 4 else 0",
        "B[4 - edge][column]",
        r"edge [5-8], top port|array.py",
    ),
    "no drain": ("return 4 + M + 3 + 3", "return 4 + M", r"cycles\(1\)"),
    "one too many": ("return 4 + M + 3 + 3", "return 4 + M + 4 + 3", r"cycles\(1\)"),
    "no loading": ("return 4 + M + 3 + 3", "return M + 3 + 3", r"cycles\(1\)"),
    "a fraction": ("ANSWER = M", "ANSWER = M - 0.5", "ANSWER"),
}

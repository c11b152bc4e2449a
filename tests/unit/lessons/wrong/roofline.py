"""Plausible wrong answers to lesson 2."""

WRONG = {
    "multiplications, no operations": ("return 2 * M * K * N", "return M * K * N", r"work.*operations"),
    "weights alone": ("M * K + K * N + M * N", "K * N", r"work.*bytes"),
    "no results": ("M * K + K * N + M * N", "M * K + K * N", r"work.*bytes"),
    "bytes of four": ("M * K + K * N + M * N", "4 * (M * K + K * N + M * N)", r"work.*bytes"),
    "the other order": (
        "return 2 * M * K * N, M * K + K * N + M * N",
        "return M * K + K * N + M * N, 2 * M * K * N",
        r"work",
    ),
    "max": ("return min(", "return max(", r"attainable"),
    "always the peak": (
        'min(chip["peak"], operations / bytes_moved * chip["bandwidth"])',
        'chip["peak"]',
        r"attainable",
    ),
    "no peak": (
        'min(chip["peak"], operations / bytes_moved * chip["bandwidth"])',
        'operations / bytes_moved * chip["bandwidth"]',
        r"attainable",
    ),
    "bytes per operation": (
        'min(chip["peak"], operations / bytes_moved',
        'min(chip["peak"], bytes_moved / operations',
        r"attainable",
    ),
    "swapped words": ('return "memory" if', 'return "compute" if', r"limit"),
    "capitals": ('"memory" if', '"Memory" if', r"limit"),
    "no batch in the bytes": ("ANSWER = knee * W / (2 * (W - knee))", "ANSWER = knee / 2", "ANSWER"),
}

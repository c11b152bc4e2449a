"""Plausible wrong answers to lesson 9."""

WRONG = {
    "nothing is cut": ("    return best\n", "    return 512\n", r"amax_bins"),
    "the fewest": ("    return best\n", "    return 128\n", r"amax_bins"),
    "zeros count": ("    counts[0] = counts[1]\n", "    counts[0] *= 20\n", r"amax_bins"),
    "what is beyond is lost": ("        P[-1] += counts[i:].sum()\n", "", r"amax_bins"),
    "empty bins get their share": (
        "Q[a:b][filled] = counts[a:b].sum() / filled.sum()",
        "Q[a:b] = counts[a:b].sum() / (b - a)",
        r"amax_bins",
    ),
    "Q with what was added": ("counts[a:b].sum() / filled.sum()", "P[a:b].sum() / filled.sum()", r"amax_bins"),
    "stretches rounded down": ("-(-j * i // 128)", "j * i // 128", r"amax_bins"),
    "the largest divergence": ("if found <= least:", "if best == len(counts) or found > least:", r"amax_bins"),
    "the other direction": ("divergence(P, Q)\n        if", "divergence(Q, P)\n        if", r"amax_bins"),
    "not cut": (
        "np.clip(np.rint(x / scale), -most, most) * scale",
        "np.rint(x / scale) * scale",
        r"fake_quant with scale 0.5",
    ),
    "codes": ("-most, most) * scale", "-most, most)", r"fake_quant with scale 0.5"),
    "cut before it is rounded": (
        "np.clip(np.rint(x / scale), -most, most)",
        "np.floor(np.clip(x / scale, -most, most))",
        r"fake_quant",
    ),
    "one code too many": (
        "np.clip(np.rint(x / scale), -most, most)",
        "np.clip(np.rint(x / scale), -most - 1, most)",
        r"fake_quant",
    ),
    "everything passes": ("np.where(np.abs(np.rint(x / scale)) <= most, upstream, 0)", "upstream", r"gradient"),
    "the true derivative": ("np.where(np.abs(np.rint(x / scale)) <= most, upstream, 0)", "0 * upstream", r"gradient"),
    "cut without rounding": ("np.abs(np.rint(x / scale)) <= most", "np.abs(x / scale) <= most", r"gradient"),
    "coarser": ("ANSWER = 512 / ", "ANSWER = 1 / 512 * ", "ANSWER"),
}

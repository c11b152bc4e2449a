"""Plausible wrong answers to lesson 11."""

WRONG = {
    "two of the whole row": ("groups = np.abs(W).reshape(-1, 4)", "groups = np.abs(W)", r"mask, row 0"),
    "three stay": ("order[:, :2]", "order[:, :3]", r"mask, row 0"),
    "one stays": ("order[:, :2]", "order[:, :1]", r"mask, row 0"),
    "down the columns": ("groups = np.abs(W).reshape(-1, 4)", "groups = np.abs(W.T).reshape(-1, 4)", r"mask"),
    "the largest numbers, not sizes": ("np.abs(W).reshape", "W.reshape", r"mask, row"),
    "the smallest": ("np.argsort(-groups", "np.argsort(groups", r"mask, row"),
    "the last of equal ones": (
        'np.argsort(-groups, axis=1, kind="stable")',
        'np.argsort(groups, axis=1, kind="stable")[:, ::-1]',
        r"mask, row",
    ),
    "columns for positions": ("columns % 4", "columns", r"compress, positions"),
    "positions from one": ("columns % 4", "columns % 4 + 1", r"compress, positions"),
    "sizes": ("np.take_along_axis(W, columns", "np.take_along_axis(np.abs(W), columns", r"compress, values"),
    "groups of two": ("4 * (j // 2) + positions", "2 * (j // 2) + positions", r"multiply"),
    "the group is forgotten": ("4 * (j // 2) + positions[:, j]", "positions[:, j]", r"multiply"),
    "a group for each value": ("4 * (j // 2) +", "4 * j +", r"multiply|sparsity.py"),
    "no positions": ("(bits + 2) / 8", "bits / 8", r"compressed_bytes"),
    "bits": ("(bits + 2) / 8", "(bits + 2)", r"compressed_bytes"),
    "everything is faster": ("FASTER = ", "FASTER = [1, 2, 3, 4, 5]  # ", r"FASTER"),
    "two": ("ANSWER = ", "ANSWER = 2  # ", "ANSWER"),
}

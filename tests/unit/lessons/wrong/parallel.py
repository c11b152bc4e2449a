"""Plausible wrong answers to lesson 13."""

WRONG = {
    "the first micro-batch first": ('("B", i) for i in reversed(range(microbatches))]', '("B", i) for i in range(microbatches)]', r"gpipe\(0, 2, 3\), operation 3"),
    "no backward": (' + [("B", i) for i in reversed(range(microbatches))]', "", r"gpipe.*number of operations"),
    "one ahead too many": ("min(stages - 1 - stage, microbatches)", "min(stages - stage, microbatches)", r"one_f_one_b\(0, 2, 3\)"),
    "all stages alike": ("min(stages - 1 - stage, microbatches)", "min(stages - 1, microbatches)", r"one_f_one_b\(1, 2, 3\)"),
    "more ahead than there are": ("min(stages - 1 - stage, microbatches)", "stages - 1 - stage", r"one_f_one_b\(\d, 4, 2\)"),
    "backward first": ('ops += [("F", ahead + i), ("B", i)]', 'ops += [("B", i), ("F", ahead + i)]', r"one_f_one_b"),
    "nothing left": (' + [("B", i) for i in range(microbatches - ahead, microbatches)]', "", r"one_f_one_b.*number of operations"),
    "of the work": ("(stages - 1) / (microbatches + stages - 1)", "(stages - 1) / microbatches", r"bubble\(2, 3\)"),
    "one stage too many": ("(stages - 1) / (microbatches + stages - 1)", "stages / (microbatches + stages)", r"bubble\(2, 3\)"),
    "as GPipe": ('microbatches if schedule == "gpipe" else min(microbatches, stages - stage)', "microbatches", r"activations\('one_f_one_b'"),
    "more than there are": ("min(microbatches, stages - stage)", "stages - stage", r"activations\('one_f_one_b', 0, 4, 2\)"),
    "to the left": ("right, left, moves = (rank + 1) % ranks, (rank - 1) % ranks, []", "left, right, moves = (rank + 1) % ranks, (rank - 1) % ranks, []", r"ring\(0, 3\), partner"),
    "own chunk again": ('moves.append(("send", right, (rank - step) % ranks))', 'moves.append(("send", right, rank))', r"ring of 3 ranks, rank \d, chunk"),
    "added twice": ('(rank - step) % ranks, "copy"))', '(rank - step) % ranks, "add"))', r"ring of 2 ranks, rank \d, chunk"),
    "never handed round": ("(rank - step + 1) % ranks", "(rank - step) % ranks", r"ring of 2 ranks, rank \d, chunk"),
    "receives first": ('moves.append(("send", right, (rank - step) % ranks))\n        moves.append(("recv", left, (rank - step - 1) % ranks, "add"))', 'moves.append(("recv", left, (rank - step - 1) % ranks, "add"))\n        moves.append(("send", right, (rank - step) % ranks))', r"ring of 2 ranks, rank 0"),
    "half of it": ("2 * (ranks - 1) * nbytes // ranks", "(ranks - 1) * nbytes // ranks", r"link_bytes"),
    "all of it": ("2 * (ranks - 1) * nbytes // ranks", "2 * (ranks - 1) * nbytes", r"link_bytes"),
    "a fraction": ("nbytes // ranks", "nbytes / ranks", r"link_bytes"),
    "one less": ("ANSWER = ", "ANSWER = -1 + ", "ANSWER"),
}  # fmt: skip

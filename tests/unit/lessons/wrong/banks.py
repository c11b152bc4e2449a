"""Plausible wrong answers to lesson 7."""

WRONG = {
    "the byte is not dropped": ("rest, found = address >> 6, {}", "rest, found = address, {}", r"place"),
    "the other end first": ("(6, 4, 2, 0)", "(0, 2, 4, 6)", r"place"),
    "a bit too many": (
        "found[field] = rest % (1 << BITS[field])",
        "found[field] = rest % (2 << BITS[field])",
        r"place",
    ),
    "nothing is taken away": ("        rest >>= BITS[field]\n", "", r"place"),
    "bits as a number": ("rest % (1 << BITS[field])", "rest % BITS[field]", r"place"),
    "any bank": ('bank = (found["bg"], found["ba"])', "bank = 0", r"row_hits"),
    "four banks": ('bank = (found["bg"], found["ba"])', 'bank = found["ba"]', r"row_hits"),
    "misses": ('hits += rows.get(bank) == found["ro"]', 'hits += rows.get(bank) != found["ro"]', r"row_hits"),
    "the first row stays open": ('rows[bank] = found["ro"]', 'rows.setdefault(bank, found["ro"])', r"row_hits"),
    "columns": ('rows.get(bank) == found["ro"]', 'rows.get(bank, 0) == found["ro"]', r"row_hits"),
    "one bank at a time": ('ROW = "rocobabg"', 'ROW = "robabgco"', r"ROW"),
    "the row lowest": ('ROW = "rocobabg"', 'ROW = "cobabgro"', r"ROW"),
    "a field twice": ('ROW = "rocobabg"', 'ROW = "rorobabg"', r"ROW"),
    "the same for both": ('COLUMN = "', 'COLUMN = "robabgco"  # "', r"COLUMN"),
    "bytes": ("/ 1e6", "", "ANSWER"),
    "no precharge": (" + 18)", ")", "ANSWER"),
    "clocks for seconds": ("e-9)", ")", "ANSWER"),
}

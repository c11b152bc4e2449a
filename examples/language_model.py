"""A small decoder token by token: what it writes, how fast, and why a batch is cheaper per token."""

from __future__ import annotations

import accelsim

MODEL = "llama?layers=1,hidden=32,heads=4,kv_heads=2,ffn=48,vocab=64,prompt=8,new=4"

for batch in (1, 4, 16):
    found = accelsim.generate(MODEL, "edu-4x4", batch=batch)
    assert found.tokens is not None and found.tokens_per_s is not None and found.energy_per_token_J is not None
    print(
        f"batch {batch}: first token after {found.time_to_first_token_s * 1e6:.0f} us, then "
        f"{found.tokens_per_s:,.0f} tokens/s at {found.energy_per_token_J * 1e6:.2f} uJ; "
        f"wrote {found.tokens[0].tolist()}"
    )

"""One matrix product in many number formats: how far off the result is, how long it takes, what it costs."""

import numpy as np

import accelsim
from accelsim.account.energy import energy_table, total_J
from accelsim.formats import codec

PRODUCT = "gemm?M=256,N=256,K=256"

print("3.14159 in fp8:", codec.cast(np.float32(3.14159), "fp8_e4m3fn"))
real = accelsim.run(PRODUCT, "edu-mixed", dtype="fp32").outputs["y"]
print(f"{'format':<12}{'us':>8}{'uJ':>8}  error (share of the largest result)")
for dtype in ("fp32", "tf32", "bf16", "fp16", "fp8_e4m3fn", "int8", "int4xint8", "int4", "int1"):
    run = accelsim.run(PRODUCT, "edu-mixed", dtype=dtype, edges="outside")
    error = np.abs(run.outputs["y"] - real).max() / np.abs(real).max()
    print(f"{dtype:<12}{run.seconds * 1e6:8.1f}{total_J(energy_table(run)) * 1e6:8.1f}  {error:.1e}")

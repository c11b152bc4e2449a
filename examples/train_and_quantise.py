"""Train a small network on 8 x 8 digits, quantise it, train it for four bits, and see what a chip makes of each.

Needs scikit-learn for the digits: pip install 'accelsim[data]'.
"""

import tempfile
from pathlib import Path

import accelsim
from accelsim.explore.training import save_model
from accelsim.workload.training import QuantConfig

learnt = accelsim.train("digits-mlp", "digits", steps=200, on="edu-mixed", precision="mixed")
print(f"{learnt.test_accuracy:.1%} of the test digits; a step takes {learnt.step_s * 1e6:.1f} us on edu-mixed")

with tempfile.TemporaryDirectory() as folder:
    path = save_model(learnt, Path(folder) / "digits.onnx")
    codes = accelsim.quantize(path, dtype="int8", ranges="entropy", data="digits", format="qoperator")
    codes.save(Path(folder) / "digits-int8.onnx")
    print(f"int8: {codes.bytes_before:,} B become {codes.bytes_after:,} B")
    table = accelsim.accuracy(path, ["edu-mixed"], "digits", dtypes=["fp16", "int8", "int4"], batch=36)
for row in table.rows:
    print(f"{row.dtype}: {row.accuracy:.1%}, {row.chip_s * 1e6:.2f} us, {row.chip_J * 1e6:.2f} uJ per digit")

four = accelsim.train(learnt.graph, "digits", steps=100, optimiser="adam", fake_quant=QuantConfig("int4", "int4"))
print(f"trained for int4: {four.test_accuracy:.1%}")

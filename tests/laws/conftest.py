import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "dram"))
sys.path.insert(0, str(Path(__file__).parents[2]))

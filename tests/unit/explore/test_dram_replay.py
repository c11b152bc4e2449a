"""One trace on one DRAM: figures agree with the models below, whatever the model, trace or file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accelsim.dram import bank
from accelsim.dram.energy import energy
from accelsim.dram.traces import named
from accelsim.errors import SpecError, UsageError
from accelsim.explore.dram_compare import TRACES, compare
from accelsim.explore.dram_replay import MODELS, Offer, accesses_of, replay
from accelsim.spec.dram_device import device
from accelsim.spec.yaml.parts import load_dram
from tests.validation.golden import anchor

ACCESSES = 2_000


def test_figures_are_those_of_the_bank_model() -> None:
    found = replay("ddr4-3200", "tile3", limit=ACCESSES)
    made = device(load_dram("ddr4-3200"), "ddr4-3200")
    trace = named("tile3", made)
    served = bank.serve(made, trace.addresses[:ACCESSES], trace.writes[:ACCESSES], record=True, commands=True)
    assert found.served.counts == served.counts
    assert found.seconds == served.elapsed * made.clock_fs * 1e-15
    assert found.bandwidth_Bps == pytest.approx(ACCESSES * 64 / found.seconds)
    assert found.energy == energy(served, made)
    assert served.done is not None and served.arrived is not None and found.latencies_s is not None
    reads = (served.done - served.arrived)[~trace.writes[:ACCESSES]]
    assert np.allclose(found.latencies_s, reads * made.clock_fs * 1e-15)


def test_unloaded_read_is_that_of_the_device() -> None:
    found = replay("ddr4-3200", limit=1)
    assert found.unloaded_s == pytest.approx((found.device.unloaded_read + 1) * found.clock_s)
    assert found.latencies_s is not None
    assert found.latencies_s.tolist() == [found.unloaded_s]


def test_simpler_models_are_never_slower() -> None:
    times = {
        name: replay("ddr4-3200", "seq_read", name, limit=ACCESSES).seconds for name in ("ideal", "bandwidth", "bank")
    }
    assert 0 == times["ideal"] < times["bandwidth"] < times["bank"]


@pytest.mark.parametrize("model", MODELS)
def test_every_model_gives_json(model: str) -> None:
    found = replay("ddr4-3200", "rand_mix", model, limit=500)
    facts = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert facts["rd"] + facts["wr"] == facts["accesses"] == 500
    assert ("bus" in facts) is MODELS[model].timed
    assert (facts["latency_s"] is None) is not MODELS[model].timed


def test_clocks_of_a_file_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "slow.trace"
    file.write_text("0x0 R 0\n0x40 R 5000\n0x80 W 9000\n", encoding="utf-8")
    found = replay("ddr4-3200", str(file), refresh="none")
    assert found.served.arrived is not None
    assert found.served.arrived.tolist() == [0, 5000, 9000]
    assert found.served.end > 9000
    assert found.served.commands is not None
    assert (np.diff(found.served.commands[:, 0]) >= 0).all()
    assert replay("ddr4-3200", str(file), "pattern").served.end > 9000
    assert len(accesses_of(str(file), found.device, 2).addresses) == 2


def test_one_outstanding_access_is_slower() -> None:
    many = replay("ddr4-3200", "rand_read", limit=500)
    one = replay("ddr4-3200", "rand_read", limit=500, offer=Offer(outstanding=1))
    assert one.seconds > 5 * many.seconds


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(UsageError, match="did you mean 'tile3'"):
        replay("ddr4-3200", "tile4")
    with pytest.raises(UsageError, match="did you mean 'bank'"):
        replay("ddr4-3200", "tile3", "banc")
    with pytest.raises(SpecError, match="no DRAM"):
        replay("sram")


def test_memory_without_currents_has_no_energy() -> None:
    assert replay(anchor("ramulator2-ddr4-3200"), limit=100).energy is None


def test_compare_is_a_replay_of_each() -> None:
    (row,) = compare({"ddr3-1600": load_dram("ddr3-1600")}, limit=500)
    assert set(row.replays) == set(TRACES)
    alone = replay("ddr3-1600", "tile3", limit=500)
    assert row.share("tile3") == alone.share_of_peak
    assert alone.energy is not None
    assert row.pJ_per_bit("tile3") == alone.energy.pJ_per_bit
    assert not row.doubtful
    assert json.loads(json.dumps(row.as_dict()))["share_of_peak"]["tile3"] == alone.share_of_peak

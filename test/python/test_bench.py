# SPDX-License-Identifier: MIT
import json

import pytest
import shmem
from conftest import TORCH
from shmem import bench


@pytest.fixture
def measured(capsys, monkeypatch):
    """The status, what PE 0 prints as JSON, and what this PE says of faults."""
    monkeypatch.setattr(bench, "BATCH", 1e-4) # a test of what is measured, not of times

    def run(*words):
        status = bench.main(["--json", "--runs", "2", *([] if TORCH else ["--numpy"]), *words])
        said = capsys.readouterr()
        return status, json.loads(said.out) if shmem.my_pe() == 0 else None, said.err

    return run


def test_rows(measured, n):
    status, found, err = measured("--sizes", "8:4k", "--step", "64")
    assert status == 0 and not err
    if found is None:
        return
    rows = found["rows"]
    assert (found["pes"], found["wrong"], found["complete"], found["notes"]) == (n, 0, True, [])
    assert list(dict.fromkeys(r["op"] for r in rows)) == list(bench.OPS)
    for op in bench.OPS:
        sizes = [r["bytes"] for r in rows if r["op"] == op]
        whole = [-(-size // 4 // n) * n * 4 for size in (8, 512, 4096)] # a block for each PE
        assert sizes == {"atomic_fetch_add": [8], "barrier": [0], "reduce_scatter": whole,
                         "all_to_all": whole}.get(op, [8, 512, 4096])
    for row in rows:
        alone = row["op"] in ("put", "get", "atomic_fetch_add")
        peers = {"peer()[...]"} if row["op"] in ("put", "get") else (
            {found["torch"].split()[1]} if TORCH and not alone else set())
        assert peers <= row["us"].keys() <= {"python", "C", "symm_mem"} | peers
        assert all(us > 0 for us in row["us"].values()) and row["python_us"] < 1e5


def test_wrong(measured, monkeypatch):
    """A call that does nothing, and one of a peer."""
    monkeypatch.setattr(shmem, "all_gather", lambda dest, source: dest)
    status, found, err = measured("--op", "all_gather,barrier", "--sizes", "64", "--no-peer")
    assert status == 1 and f"PE {shmem.my_pe()}: all_gather of 64 bytes by python: element 0" in err
    assert found is None or (found["wrong"], [r["op"] for r in found["rows"]]) == (1, ["barrier"])
    monkeypatch.undo()
    if TORCH:
        import torch.distributed as dist

        monkeypatch.setattr(dist, "all_gather_into_tensor", lambda dest, source: dest)
        status, found, err = measured("--op", "all_gather", "--sizes", "64")
        assert status == 0 and "element 0 is -1.0, expected" in err
        if found:
            assert list(found["rows"][0]["us"]) == ["python", "C"]
            assert "is left out: all_gather of 64 bytes is wrong" in found["notes"][0]


def test_no_room(measured, monkeypatch):
    empty = shmem.empty # which grows the heap of the CPU platform as far as memory goes

    def small(count, **words):
        if count > 2:
            raise shmem.Error(f"PE {shmem.my_pe()}: shmem.empty: no room for {4 * count} bytes")
        return empty(count, **words)

    monkeypatch.setattr(shmem, "empty", small)
    status, found, _ = measured("--op", "put,barrier", "--sizes", "8:64", "--no-peer")
    assert status == 0
    if found:
        assert [r["op"] for r in found["rows"]] == ["put", "barrier"] and found["wrong"] == 0
        assert "put: larger sizes are left out" in found["notes"][0]


def test_words(capsys):
    assert bench.parse_size("64m") == 64 << 20 and bench.parse_sizes("8:1K") == (8, 1024)
    assert bench.sizes_of(8, 64, 2) == [8, 16, 32, 64] and bench.sizes_of(8, 8, 8) == [8]
    assert bench.sizes_of(8, 100, 8) == [8, 64, 100]
    for words, text in (("--op", "putt"), "putt: expected some of"), (("--sizes", "8:4"),
                                                                     "expected MIN:MAX"), (
            ("--sizes", "x"), "expected a number"), (("--runs", "0"), "from 1 on"):
        with pytest.raises(SystemExit):
            bench.main(list(words))
        assert text in capsys.readouterr().err
    assert bench.main(["--dtype", "float3", "--no-peer", *([] if TORCH else ["--numpy"])]) == 1
    assert "--dtype float3: no type of" in capsys.readouterr().err

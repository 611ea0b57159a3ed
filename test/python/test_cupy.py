# SPDX-License-Identifier: MIT
"""Arrays and streams of CuPy, inside a job: oshrun -n N python -m pytest test_cupy.py. They lie on
the symmetric heap, by DLPack and by `__cuda_array_interface__`, without a copy."""
import pytest

import shmem

cp = pytest.importorskip("cupy")
torch = pytest.importorskip("torch")
if shmem.platform() == "cpu":
    pytest.skip("CuPy's arrays are a GPU's", allow_module_level=True)
COUNT = 1000


def symmetric(dtype=torch.float32):
    return cp.from_dlpack(shmem.zeros(COUNT, dtype=dtype, device="cuda"))


def numbers(pe):
    return cp.arange(COUNT, dtype=cp.float32) + pe


def settled():
    """The calls of the host know nothing of CuPy's stream."""
    cp.cuda.get_current_stream().synchronize()
    shmem.barrier()


def test_no_copy():
    x = shmem.zeros(COUNT, device="cuda")
    assert cp.from_dlpack(x).data.ptr == cp.asarray(x).data.ptr == x.data_ptr()
    assert shmem.is_symmetric(cp.asarray(x)) and not shmem.is_symmetric(numbers(0))


@pytest.mark.parametrize("stream", [None, "CuPy's", "a number"])
def test_all_reduce(me, n, stream):
    x, y, s = symmetric(), symmetric(), cp.cuda.Stream(non_blocking=True)
    x[:] = numbers(me)
    settled()
    shmem.all_reduce(y, x, "sum", stream=None if stream is None else
                     s if stream == "CuPy's" else s.ptr)
    torch.cuda.current_stream().synchronize()
    s.synchronize()
    assert (y == sum(numbers(pe) for pe in range(n))).all()
    settled()


def test_put_get(me, n):
    x, mine, got = symmetric(), numbers(me), cp.zeros(COUNT, dtype=cp.float32)
    settled()
    shmem.put(x, mine, (me + 1) % n)
    settled()
    assert (x == numbers((me - 1) % n)).all()
    shmem.get(got, x, (me + 1) % n)
    assert (got == mine).all()
    settled()


def test_peer(me, n):
    x = shmem.full(COUNT, me, dtype=torch.float32, device="cuda")
    settled()
    assert (cp.asarray(shmem.peer(x, (me + 1) % n)) == (me + 1) % n).all()
    settled()


def test_mistakes(me):
    x, own = symmetric(), numbers(me)
    with pytest.raises(shmem.Error, match="shmem.put: dest = 0x[0-9a-f]+: not symmetric"):
        shmem.put(own, own, me)
    with pytest.raises(shmem.Error, match="shmem.all_reduce: dest: 1000 elements, expected 10"):
        shmem.all_reduce(x, symmetric()[:10], "sum")
    with pytest.raises(shmem.Error, match="source: elements of double, and dest has float"):
        shmem.all_reduce(x, symmetric(torch.float64), "sum")

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The sum over all PEs of a tensor that is there already, in place and without a copy, from Python.

    oshrun -n 4 python3 examples/all_reduce.py libshmem.so.1             # NumPy
    oshrun -n 2 python3 examples/all_reduce.py libshmem.so.1 torch       # PyTorch, on the host
    oshrun -n 2 python3 examples/all_reduce.py libshmem.so.1 torch cuda  # and on GPUs

A tensor's memory comes by DLPack, which NumPy, PyTorch, JAX and CuPy have, so that none of them
need know the library, nor the library them. shmemx_buffer_register makes it symmetric as it is.
"""
import ctypes
import sys


class DLTensor(ctypes.Structure):
    """The start of a DLManagedTensor, by DLPack's specification."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


# By code and bits of DLPack: the library's name for a type.
TYPES = {(2, 32): "float", (2, 64): "double", (0, 32): "int", (0, 64): "long"}
TEAM_WORLD = ctypes.c_void_p(1)  # of shmem.h
get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.argtypes, get_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class Symmetric:
    """A tensor that all PEs have in the same size, from `with` to its end."""

    def __init__(self, shmem, tensor):
        self.shmem, self.capsule = shmem, tensor.__dlpack__()  # the capsule keeps the tensor
        t = DLTensor.from_address(get_pointer(self.capsule, b"dltensor"))
        self.address, self.type = t.data + t.byte_offset, TYPES[t.code, t.bits]
        self.count = 1
        for i in reversed(range(t.ndim)):
            if t.strides and t.shape[i] > 1 and t.strides[i] != self.count:
                raise ValueError("a tensor without gaps is wanted")
            self.count *= t.shape[i]
        self.bytes = self.count * t.bits // 8

    def __enter__(self):
        self.handle = ctypes.c_uint64()
        self.shmem.shmemx_buffer_register(ctypes.c_void_p(self.address),
                                          ctypes.c_size_t(self.bytes), ctypes.byref(self.handle))
        return self

    def __exit__(self, *_):
        self.shmem.shmemx_buffer_unregister(self.handle)

    def all_reduce(self):
        reduce = getattr(self.shmem, f"shmem_{self.type}_sum_reduce")
        if reduce(TEAM_WORLD, ctypes.c_void_p(self.address), ctypes.c_void_p(self.address),
                  ctypes.c_size_t(self.count)):
            raise RuntimeError(f"shmem_{self.type}_sum_reduce")


def main():
    shmem = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    shmem.shmem_init()
    me, n = shmem.shmem_my_pe(), shmem.shmem_n_pes()
    if "torch" in sys.argv:
        import torch as np  # what is used of both has the same names

        # The one that shmem_init has chosen
        device = {"device": "cuda"} if "cuda" in sys.argv else {}
        settle = np.cuda.synchronize if device else lambda: None
    else:
        import numpy as np

        device, settle = {}, lambda: None
    bad = 0
    for dtype in np.float32, np.float64, np.int32, np.int64:
        # The first rows of something larger, as a gradient in the bucket of its layer; of 2 MiB and
        # more, which ROCm asks for.
        x = np.ones((4099, 1024), dtype=dtype, **device)[:1021]
        x *= me + 1
        settle()
        with Symmetric(shmem, x) as tensor:
            for lap in range(3):
                tensor.all_reduce()
        want = n * (n + 1) // 2 * n**2
        bad += not bool((x == want).all())
    print(f"PE {me} of {n}: {'wrong' if bad else 'as summed'}", flush=True)
    shmem.shmem_finalize()
    return bad


if __name__ == "__main__":
    sys.exit(main())

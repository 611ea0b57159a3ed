# SPDX-License-Identifier: MIT
"""Python calls the library by ctypes: ring.py libshmem.so"""
import ctypes
import sys

shmem = ctypes.CDLL(sys.argv[1])
shmem.shmem_malloc.restype = ctypes.c_void_p
shmem.shmem_init()
me, n = shmem.shmem_my_pe(), shmem.shmem_n_pes()
address = shmem.shmem_malloc(ctypes.c_size_t(8))
value = ctypes.c_long.from_address(address)
value.value = -1
shmem.shmem_barrier_all()
shmem.shmem_long_p(ctypes.c_void_p(address), ctypes.c_long(me), (me + 1) % n)
shmem.shmem_barrier_all()
seen = value.value
shmem.shmem_finalize()
sys.exit(0 if n == int(sys.argv[2]) and seen == (me - 1) % n else f"PE {me} of {n}: {seen}")

# SPDX-License-Identifier: MIT
# With 2 PEs: each has its neighbour's row
import shmem

shmem.init()
me, n = shmem.my_pe(), shmem.n_pes()
row, mine = shmem.zeros(4), shmem.full((4,), float(me))
shmem.put(row, mine, (me + 1) % n)
shmem.barrier()
right = (row == (me - 1) % n).all()
if me == 0:
    print("each has its neighbour's row" if right else "wrong")

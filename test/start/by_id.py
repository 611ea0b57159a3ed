#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts PEs without a launcher, by variables, in any order: by_id.py HOW N PROGRAM [ARGUMENT ...]

env       by this library's variables
torchrun  by those that torchrun sets, whose own port is in use

PROGRAM may be "unshare FLAG ... -- PROGRAM": each PE is in namespaces of its own.
"""
import os
import random
import socket
import subprocess
import sys


def main():
    how, n, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    if command[0] == 'unshare':
        flags = command[1:command.index('--')]
        if subprocess.run(['unshare', *flags, 'true'], stderr=subprocess.DEVNULL).returncode:
            print('no right to namespaces')
            return 77
    taken = socket.socket()
    taken.bind(('127.0.0.1', 0))
    port = str(taken.getsockname()[1])
    job, rank_is = {'SHMEM_BOOTSTRAP': how}, 'SHMEM_RANK'
    if how == 'env':
        taken.close()
        job.update(SHMEM_SIZE=str(n), SHMEM_SECRET=str(random.random()),
                   SHMEM_ROOT=f'localhost:{port}')
    else:
        taken.listen()
        rank_is = 'RANK'
        job.update(WORLD_SIZE=str(n), MASTER_ADDR='localhost', MASTER_PORT=port,
                   TORCHELASTIC_RUN_ID=str(random.random()), TORCHELASTIC_RESTART_COUNT='0')
    pes = {}
    for rank in random.sample(range(n), n):
        pes[rank] = subprocess.Popen(command, env={**os.environ, **job, rank_is: str(rank)})
    statuses = [pes[rank].wait() for rank in range(n)]
    for rank, status in enumerate(statuses):
        if status:
            print(f'rank {rank} of {n} ended with {status}', file=sys.stderr)
    return 1 if any(statuses) else 0


if __name__ == '__main__':
    sys.exit(main())

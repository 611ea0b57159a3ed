#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts PEs without a launcher: by_id.py N PROGRAM [ARGUMENT ...], by variables, in any order."""
import os
import random
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def main():
    n, command = int(sys.argv[1]), sys.argv[2:]
    job = {'SHMEM_BOOTSTRAP': 'env', 'SHMEM_SIZE': str(n), 'SHMEM_SECRET': str(random.random()),
           'SHMEM_ROOT': f'localhost:{free_port()}'}
    pes = {}
    for rank in random.sample(range(n), n):
        pes[rank] = subprocess.Popen(command, env={**os.environ, **job, 'SHMEM_RANK': str(rank)})
    statuses = [pes[rank].wait() for rank in range(n)]
    for rank, status in enumerate(statuses):
        if status:
            print(f'rank {rank} of {n} ended with {status}', file=sys.stderr)
    return 1 if any(statuses) else 0


if __name__ == '__main__':
    sys.exit(main())

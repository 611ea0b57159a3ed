#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How jobs end that no launcher started: start.py PROGRAM CASE N HOW.

HOW is how the PEs start: fork or exec. Of the case killed it is how many system calls lie between
two at which a PE is killed.
"""
import os
import re
import subprocess
import sys
import time

PROGRAM, CASE, N, HOW = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
# Seconds, SHMEM_BOOTSTRAP_TIMEOUT: long where no rank is missing, since a busy machine may be slow.
LIMIT = {'killed': '2', 'missing': '3', 'early_death': '3'}.get(CASE, '40')


def run(*more):
    env = {**os.environ, 'SHMEM_BOOTSTRAP_TIMEOUT': LIMIT}
    began = time.monotonic()
    done = subprocess.run([PROGRAM, CASE, str(N), *more], env=env, capture_output=True, text=True,
                          timeout=60)
    return done, time.monotonic() - began


def expect(text, pattern):
    if not re.fullmatch(pattern, text):
        sys.exit(f'{CASE}, {N} PEs: not as expected\n--- has\n{text}--- wants\n{pattern}')


def ends(statuses):
    """The lines of all ranks that end with something else than 0."""
    return ''.join(f'{rank}: {status}\n' for rank, status in statuses.items()) + r'[\d.]+ s\n'


def all_but_last(status, last):
    return {**{rank: status for rank in range(N - 1)}, N - 1: last}


def failed(line):
    """All ranks return an error with this line."""
    return f'(shmemx_init_attr: rank = \\d+ of n = \\d+: {line}\n)'


def killed():
    """A PE is killed at every step of its start: the others end soon, and one line says why."""
    started = run('1000000')[0].stdout
    calls = int(re.fullmatch(r'(\d+) calls, leaves\n[\d.]+ s\n', started)[1])
    kinds = set()
    for call in range(0, calls, int(HOW)):
        done, took = run(str(call))
        rank = call % N
        out, err = re.sub(r'\d+ calls.*\n', '', done.stdout), done.stderr
        where = f'killed at call {call} of {calls}, rank {rank}:\n{out}{err}'
        assert took < 8, f'{took} s, {where}'
        made, leaves = re.search(r'(\d+) calls(, leaves)?\n', done.stdout).groups()
        if int(made) < call:  # it has ended by itself
            expect(out + err, ends({}))
            continue
        others = {3: failed(rf'rank {rank} has (ended while the job started|not come within '
                            rf'{LIMIT} seconds \(SHMEM_BOOTSTRAP_TIMEOUT\))') + f'{{{N - 1}}}',
                  0: '', 1: ''}  # of those with an error, ended after the job, and with it
        statuses = {s: ends({k: 'signal 9' if k == rank else s for k in range(N) if s or k == rank})
                    for s in others}
        if leaves:  # then others may have left already
            statuses[1] = re.sub(r'(\d+: 1\n)', r'(\1)?', statuses[1])
        right = [s for s in others if re.fullmatch(others[s] + statuses[s], out)]
        assert right, where
        # Of nodes, those that are left of a tree without its root hear nothing of each other.
        lines = '{1,2}' if rank == 0 and os.environ.get('SHMEM_P2P') == '0' else ''
        said = {3: '', 0: '', 1: rf'(shmem: PE \d: PE {rank}( has ended and does not come to '
                r'shmem_init|(, on \S+,| \(process \d+\)) has died without shmem_finalize): '
                rf'the job ends\n){lines}'}
        assert re.fullmatch(said[right[0]], err), where
        kinds.add(right[0])
    assert {1, 3} <= kinds, kinds


def main():
    if CASE == 'killed':
        return killed()
    done, took = run(*(['exec'] if HOW == 'exec' else []))
    out, err = done.stdout, done.stderr
    last = N - 1
    if CASE == 'death':
        expect(out, ends(all_but_last(1, 'signal 9')))
        expect(err, rf'shmem: PE \d+: PE {last} \(process \d+\) has died without shmem_finalize: '
                    r'the job ends\n')
        assert took < 4, took
    elif CASE in ('exit', 'slow_exit', 'stuck_exit'):
        # The exit handlers of the last rank take no time, 3 s, or for ever.
        expect(out, ends(all_but_last(1, 4)))
        assert took < 20, took
        expect(err, rf'shmem: PE {last}: exit\(4\) without shmem_finalize: the job ends\n')
    elif CASE == 'global_exit':
        expect(out, ends({rank: 7 for rank in range(N)}))
        expect(err, '')
    elif CASE == 'driver_death':
        assert done.returncode == -9, done
        expect(err, r'(shmem: PE \d+: the process that made the unique id has ended: '
                    r'the job ends\n){1,2}')
    elif CASE == 'missing':
        expect(out, failed(rf'rank {last} has not come within {LIMIT} seconds '
                           r'\(SHMEM_BOOTSTRAP_TIMEOUT\)') + f'{{{N - 1}}}' +
               ends({rank: 3 for rank in range(N - 1)}))
        expect(err, '')
    elif CASE == 'early_death':
        # Nothing tells of a process that has not come at all.
        expect(out, failed(rf'rank {last} has not come within {LIMIT} seconds '
                           r'\(SHMEM_BOOTSTRAP_TIMEOUT\)') + f'{{{N - 1}}}' +
               ends(all_but_last(3, 'signal 9')))
    elif CASE == 'differs':
        expect(out, failed(r'rank \d+ says that the job has \d+ PEs, rank \d+ that it has \d+') +
               f'{{{N}}}' + ends({rank: 3 for rank in range(N)}))
        expect(err, '')
    elif CASE in ('no_file', 'no_room', 'no_device'):
        # All ranks hear of it, and go on.
        line = {'no_file': r'rank 0: making \d+ bytes of symmetric memory: files may have at most '
                           r'1048576: lower SHMEM_SYMMETRIC_SIZE or lift the limit on the size of '
                           r'files \(ulimit -f\)',
                'no_room': rf'rank {last}: mapping \d+ bytes of symmetric memory: Cannot allocate '
                           r'memory: lower SHMEM_SYMMETRIC_SIZE or lift the limit on address space '
                           r'\(ulimit -v\)',
                'no_device': rf'rank {last}: device = 12: this PE sees \d+ GPUs, from 0'}[CASE]
        expect(out, failed(line) + f'{{{N}}}' + ends({}))
        expect(err, '')
    elif CASE == 'then_init':
        expect(out, ends({rank: 1 for rank in range(N)}))
        expect(err, '(shmem: shmem_init: this process has left the job that shmemx_init_attr made: '
                    f'shmemx_init_attr makes the next one\n){{{N}}}')
    else:
        expect(out, ends({}))
        expect(err, '')
        assert done.returncode == 0, done


if __name__ == '__main__':
    main()

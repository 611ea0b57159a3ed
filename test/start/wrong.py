#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts by id that other processes get in the way of: wrong.py PROGRAM OTHER_VERSION CASE."""
import contextlib
import os
import random
import re
import resource
import select
import socket
import subprocess
import sys
import time

PROGRAM, OTHER_VERSION, CASE = sys.argv[1:4]
# Seconds, SHMEM_BOOTSTRAP_TIMEOUT: long where no rank is missing, since a busy machine may be slow.
LIMIT = 3 if CASE == 'stray' else 40
ENV = {**os.environ, 'SHMEM_BOOTSTRAP_TIMEOUT': str(LIMIT)}


class Maker:
    """A process that makes an id."""

    def __init__(self):
        self.process = subprocess.Popen([PROGRAM, 'id'], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=ENV, text=True)
        self.id = self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(timeout=20)
        self.process.stdout.close()
        assert status == 0, f'the maker of the id ends with {status}'


def start(identity, n, rank, program=PROGRAM):
    command = [program, 'plain', str(n), str(rank), identity, str(MEMORY)]
    if program == OTHER_VERSION:
        command = [program, str(n), str(rank), identity]
    return subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, pass_fds=[MEMORY])


def ends(pes, status, pattern=''):
    """All PEs end with this status, and print what the pattern says."""
    for pe in pes:
        said = pe.communicate(timeout=50)[0]
        if pe.returncode != status or not re.fullmatch(pattern, said):
            sys.exit(f'{CASE}: {pe.args[2:4]} ends with {pe.returncode}, not {status}\n'
                     f'--- has\n{said}--- wants\n{pattern}')


def line(what):
    return rf'(shmemx_init_attr: rank = -?\d+ of n = \d+: )?{what}\n'


def shuffled(*commands):
    """The processes in the order of the commands, which are started in any order."""
    pes = [None] * len(commands)
    for i in random.sample(range(len(commands)), len(commands)):
        pes[i] = start(*commands[i])
    return pes


def crossed():
    """Two jobs at once: all come to their own."""
    a, b = Maker(), Maker()
    ends(shuffled(*((m.id, 3, rank) for rank in range(3) for m in (a, b))), 0)
    a.end(), b.end()


def stray():
    """A PE of one job has the id of another."""
    a, b = Maker(), Maker()
    pes = shuffled((a.id, 3, 0), (a.id, 3, 2), (b.id, 3, 0), (b.id, 3, 1), (b.id, 3, 1))
    ends(pes[:2], 3, line(rf'rank 1 has not come within {LIMIT} seconds '
                          r'\(SHMEM_BOOTSTRAP_TIMEOUT\)'))
    ends(pes[2:], 3, line('two processes say that they are rank 1'))
    a.end(), b.end()


def outside():
    """A rank that the job does not have."""
    for rank in (3, -1):
        maker = Maker()
        pes = shuffled((maker.id, 3, 0), (maker.id, 3, 1), (maker.id, 3, rank))
        ends(pes, 3, line(f'rank {rank} of 3 PEs: ranks are 0 to 2'))
        maker.end()


def version():
    """Another version of the library."""
    maker = Maker()
    pes = shuffled((maker.id, 3, 0), (maker.id, 3, 1), (maker.id, 3, 2, OTHER_VERSION))
    ends(pes, 3, line(r'rank 2 runs libshmem 77\.0\.0, the process that made the unique id '
                      r'\d+\.\d+\.\d+'))
    maker.end()


def used():
    """An id is for one job."""
    maker = Maker()
    ends(shuffled((maker.id, 2, 0), (maker.id, 2, 1)), 0)
    refused = line(r'the process that made the unique id, at \S+:\d+(, \S+:\d+)*: .*')
    ends(shuffled((maker.id, 2, 0), (maker.id, 2, 1)), 3, refused)
    maker.end()
    ends([start(maker.id, 1, 0)], 3, refused)


def listening(process):
    """The addresses at which a process listens."""
    folder = f'/proc/{process.pid}/fd/'
    sockets, found = set(), []
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # it may have closed that one since
            sockets.add(os.readlink(folder + fd))
    for words in map(str.split, open('/proc/net/tcp').readlines()[1:]):
        if words[3] == '0A' and f'socket:[{words[9]}]' in sockets:
            address, port = words[1].split(':')
            found.append((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return found


def strangers():
    """10,000 connections to the root and to a PE that waits for its children: most send garbage,
    hundreds are silent and stay."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    maker = Maker()
    pes = [start(maker.id, 40, 0), start(maker.id, 40, 1)]
    deadline = time.monotonic() + 20
    while not (targets := [a for p in (maker.process, *pes) for a in listening(p)][:3])[1:]:
        assert time.monotonic() < deadline, 'no PE listens'
        time.sleep(0.01)
    silent, refused = [], 0

    def stranger(k):
        nonlocal refused
        s = socket.socket()
        s.settimeout(5)
        try:
            s.connect(targets[k % len(targets)])
        except OSError:
            refused += 1
            return
        try:
            if k % 20 == 0:
                silent.append(s)
                return
            s.send(random.randbytes(random.choice((1, 8, 64, 400, 4096))))
        except OSError:
            pass
        s.close()

    for k in range(9000):
        stranger(k)
    pes += [start(maker.id, 40, rank) for rank in range(2, 40)]
    for k in range(9000, 10000):
        stranger(k)
    ends(pes, 0)
    # 1,000 came after the start.
    assert len(silent) > 400 and refused < 1100, (len(silent), refused)
    for s in silent:  # all of them were shut out, or are when the job has begun
        readable = select.select([s], [], [], 10)[0]
        assert readable, 'a silent connection is still open'
        s.close()
    maker.end()


MEMORY = os.memfd_create('test_start')
os.ftruncate(MEMORY, 1 << 20)
globals()[CASE]()

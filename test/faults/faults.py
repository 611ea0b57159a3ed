#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How jobs end that do not end well. Usage: faults.py CASE, with OSHRUN and VICTIM in the
environment.

death-PHASE   PE 1 dies in each way: when oshrun returns the others are gone, within 2 s, and the
              last line, the only one, names the PE; the status says so, nothing is left
exit          shmem_global_exit: its status comes back, stdio of all PEs is written; one PE left for
              a barrier alone is told
killed        all PEs are killed at once: nothing is left
stalled       a launcher that does not answer, by a stand-in for PMIx: one line names the call
absent        a PE that does not come: SHMEM_WAIT_LIMIT ends the job, or its own end; two programs
              in the place of one PE
wrong         wrong calls: one line each; so for check, calls that SHMEM_CHECK finds, and
              environment, wrong variables
note          what a program goes on after: one line of the job, and none under SHMEM_QUIET
stream        wrong calls of what a stream does, both kinds"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

OSHRUN, VICTIM = os.environ["OSHRUN"], os.environ["VICTIM"]
SECONDS = 2.0
failures = []


def together(n, act, items):
    """Jobs that mostly sleep, n at a time."""
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(act, items))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Job:
    """One run, watched: its output, its status, when its processes were gone, what it left
    behind."""

    def __init__(self, n, *args, env=None, act=None, limit=25, shell=False):
        self.tmp = tempfile.mkdtemp(prefix="f")
        before = set(os.listdir("/dev/shm"))
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("SHMEM_", "SMA_"))}
        variables.update({"SHMEM_SYMMETRIC_SIZE": "16M", "TMPDIR": self.tmp, **(env or {})})
        self.name = " ".join(args) + (f" {env}" if env else "")
        # The first argument is a script, in which "$@" starts the program.
        command = ["sh", "-c", args[0], "sh", VICTIM, *args[1:]] if shell else [VICTIM, *args]
        process = subprocess.Popen([OSHRUN, "-n", str(n), *command], env=variables,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                   start_new_session=True)
        self.out, self.err, self.pids = [], [], []
        readers = [threading.Thread(target=self.read, args=(process.stdout, self.out)),
                   threading.Thread(target=self.read, args=(process.stderr, self.err))]
        for reader in readers:
            reader.start()
        if act:
            end = time.monotonic() + 10
            while len(self.pids) < n and time.monotonic() < end:
                time.sleep(0.01)
            act(self)
        self.gone = self.left = None
        end = time.monotonic() + limit
        while time.monotonic() < end:
            over = process.poll() is not None
            if over and self.left is None:
                self.left = [p for p in self.pids if os.path.exists(f"/proc/{p}")]
            if self.gone is None and len(self.pids) >= n and not any(map(alive, self.pids)):
                self.gone = time.monotonic()
            if over and (self.gone or not any(map(alive, self.pids))):
                break
            time.sleep(0.005)
        self.timed_out = process.poll() is None
        for pid in [p for p in self.pids if alive(p)] + ([process.pid] if self.timed_out else []):
            os.kill(pid, signal.SIGKILL)
        self.rc = process.wait()
        for reader in readers:
            reader.join(5)
        self.gone = self.gone or time.monotonic()
        self.lines = [line for line in self.err if line.startswith(("shmem:", "oshrun:"))]
        self.expect(not self.timed_out, f"still running after {limit} s")
        self.expect(not self.left, f"processes left: {self.left}")
        quiet = not {"SHMEM_DEBUG", "SMA_DEBUG"} & variables.keys()
        self.expect(not quiet or not any(line.startswith("-----") for line in self.err),
                    "the launcher says more")
        # Shared memory has no name here; a launcher may need a moment to clean up. comgr-* is of
        # AMD's runtime, which compiles a kernel of its own at start and cleans up if it gets so
        # far.
        for _ in range(100):
            files = [name for name in os.listdir(self.tmp) if not name.startswith("comgr-")]
            shm = {f for f in set(os.listdir("/dev/shm")) - before if "shmem" in f}
            if not files and not shm:
                break
            time.sleep(0.02)
        self.expect(not files, f"files left: {files}")
        self.expect(not shm, f"left in /dev/shm: {shm}")
        shutil.rmtree(self.tmp, ignore_errors=True)

    def read(self, stream, lines):
        for line in stream:
            line = line.rstrip("\n")
            if m := re.search(r"pid (\d+)$", line):
                self.pids.append(int(m[1]))
            lines.append(line)

    def expect(self, ok, message):
        if not ok:
            failures.append(f"{self.name}: {message}")
            print(f"FAIL {self.name}: {message}")
            for line in (self.err if hasattr(self, "err") else [])[:12]:
                print("     | " + line)


def says(job, line, most=1):
    """The library has ended the job, with one line, or most, that say so."""
    job.expect(job.rc not in (0, 8, 9), f"status {job.rc}")
    job.expect(0 < len(job.lines) <= most and all(re.search(line, said) for said in job.lines),
               f"no single line with {line}: {job.lines}")


def finish():
    print(f"{len(failures)} failures")
    return bool(failures)


def death(phase):
    hows = ["exit0", "exit3", "_exit0", "_exit3", "abort", "segv", "kill9"]
    if phase not in ("init", "barrier", "compute"):
        hows = ["exit0", "exit3", "_exit0", "kill9"]

    def one(how):
        job = Job(3, "death", phase, how)
        if how == "exit0" and phase in ("compute", "finalize"):
            # exit(0) finalizes, and so do the others after that: a good end
            job.expect(job.rc == 0 and not job.lines, f"status {job.rc}: {job.lines}")
            return
        died = [float(m[1]) for line in job.err if (m := re.search(r"dies ([\d.]+)", line))]
        job.expect(len(died) == 1, "PE 1 did not come to its death")
        took = job.gone - died[0] if died else 0
        print(f"{phase} {how}: status {job.rc}, the others gone after {took:.2f} s")
        job.expect(took < SECONDS, f"the others were there for {took:.2f} s")
        job.expect(job.rc != 0, "status 0")
        job.expect(len(job.lines) == 1 and job.err[-1] == job.lines[0]
                   and re.search(r"PE 1\b", job.err[-1]),
                   f"one line, the last, should name PE 1: {job.err}")
        number = {"abort": 6, "segv": 11, "kill9": 9}.get(how)
        job.expect(not number or f"signal {number} " in job.err[-1],
                   f"no signal {number}: {job.err}")

    together(2, one, hows)


def check_exit():
    for status in (7, 0, 1, 255):
        job = Job(3, "exit", str(status))
        job.expect(job.rc == status, f"status {job.rc}, want {status}")
        text = "".join(job.out)
        for pe in range(3):
            job.expect(f"text of PE {pe}" in text, f"what PE {pe} wrote is lost: {text}")
        job.expect(not job.lines, f"messages: {job.lines}")
    job = Job(2, "wrong", "extra-barrier")
    job.expect(job.rc != 0, "status 0")
    job.expect(len(job.lines) == 1 and "PE 1 has left" in job.lines[0],
               f"not one line that PE 1 has left: {job.lines}")


def killed():
    def all_at_once(job):
        for pid in job.pids:
            os.kill(pid, signal.SIGKILL)
    job = Job(4, "sleep", act=all_at_once)
    job.expect(len(job.pids) == 4, f"{len(job.pids)} PEs")
    job.expect(job.rc != 0, "status 0")
    for k in range(4):  # and each alone
        job = Job(4, "sleep", act=lambda j: os.kill(j.pids[k], signal.SIGKILL))
        job.expect(job.rc != 0, "status 0")
        job.expect(len(job.lines) == 1, f"one line: {job.lines}")


# Routines of PMIx that work without asking another process.
LOCAL = re.compile("PMIx_(Error_string|(Info|Value|Data|Proc|Argv|Load)_.*)$")


def symbols(path, *options):
    text = subprocess.run(["nm", "-D", *options, path], capture_output=True, text=True,
                          check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in text.splitlines() if " PMIx_" in line}


def stalled():
    calls = {c for c in symbols(os.environ["LIBRARY"], "--undefined-only") if not LOCAL.match(c)}
    known = symbols(os.environ["STALL"], "--defined-only")
    print("the library calls", *sorted(calls))
    if calls != known:
        failures.append(f"the stand-in has {sorted(known)}, the library calls {sorted(calls)}")
    between_nodes = {"PMIx_Put", "PMIx_Commit", "PMIx_Fence"}

    def one(item):
        call, pe = item
        env = {"LD_PRELOAD": os.environ["STALL"], "STALLED": call, "STALLED_PE": pe,
               "SHMEM_BOOTSTRAP_TIMEOUT": "1"}
        if call in between_nodes:
            env["SHMEM_P2P"] = "0"
        start = time.monotonic()
        job = Job(2, "wrong", "good", env=env, limit=20)
        took = time.monotonic() - start
        print(f"{call} on PE {pe}: {took:.1f} s, status {job.rc}: {job.lines}")
        if call == "PMIx_Finalize":  # the program is over: it goes on without the launcher
            job.expect(took < 8, f"{took:.1f} s")
            return
        job.expect(took < 5, f"{took:.1f} s")
        job.expect(job.rc != 0, "status 0")
        what = "PMIx_Get of pmix\\.[a-z.]+" if call == "PMIx_Get" else call + "( of all nodes)?"
        line = (f"shmem: (PE [01]: )?{what}: the launcher has not answered for 1 seconds "
                "\\(SHMEM_BOOTSTRAP_TIMEOUT\\): the job ends")
        job.expect(job.lines and re.fullmatch(line, job.lines[-1]), f"not {line}: {job.lines}")

    together(3, one, [(call, pe) for call in sorted(calls) for pe in "01"
                      if os.environ["NET"] != "none" or call not in between_nodes])


def absent():
    def job_of(script, **env):
        start = time.monotonic()
        job = Job(3, script, "wrong", "good", env=env, shell=True)
        return job, time.monotonic() - start
    # A PE is late, and another one waits no longer than it was told to.
    job, took = job_of('test $PMIX_RANK != 0 || sleep 20; exec "$@"', SHMEM_WAIT_LIMIT="1.5")
    line = "waited for the other PEs longer than SHMEM_WAIT_LIMIT = 1.5 seconds, in shmem_init"
    job.expect(job.rc != 0 and line in job.lines[-1], f"status {job.rc}, not {line}: {job.lines}")
    # A PE's process ends in peace without a word to the library, the leader's or another's. The
    # library names it, or the launcher, which may also end the job without a reason.
    for pe in "02":
        job, took = job_of(f'test $PMIX_RANK != {pe} || exit 0; exec "$@"')
        print(f"PE {pe} ends before: {took:.1f} s, {job.lines}")
        job.expect(took < 6, f"{took:.1f} s")
        job.expect(job.rc != 0 and re.search(rf"\bPE {pe} |has a PE ended before shmem_init\?$",
                                             job.lines[-1] if job.lines else ""),
                   f"status {job.rc}: {job.err}")
    # Two programs in the place of one PE at once. PE 2 comes later, so that both may come before
    # the job is over. The launcher kills a program that is too late, and such a job is tried again.
    for pe in "01":
        for _ in range(5):
            job, took = job_of('test $PMIX_RANK != 2 || sleep 0.5; '
                               f'test $PMIX_RANK != {pe} || "$@" & exec "$@"')
            print(f"PE {pe} twice: {took:.1f} s, status {job.rc}, {job.lines}")
            if job.rc or job.lines:
                break
        # One of the two is the PE. The other one is told so, or, where it comes late, that others
        # have ended.
        right = re.compile(
            "shmem: PE [012]: (shmem_init: (another|process).* a PE started two programs at once"
                           "|PE [012] has ended and does not come to shmem_init: the job ends)")
        job.expect(job.lines and all(map(right.fullmatch, job.lines)),
                   f"status {job.rc}: {job.err}")
        job.expect(took < 6, f"{took:.1f} s")


# mistake: routine, argument, value ('' where there is none), PE (None: any)
HEX = r"0x[0-9a-f]+"
WRONG = {
    "pe": ("shmem_int_p", "pe", "2", 1),
    "pe-negative": ("shmem_int_g", "pe", "-1", 1),
    "pe-data": ("shmem_long_atomic_inc", "pe", "7", 1),
    "stack": ("shmem_int_put", "dest", HEX, 1),
    "malloc": ("shmem_long_get", "source", HEX, 1),
    "amo-stack": ("shmem_int_atomic_inc", "dest", HEX, 1),
    "peer-address": ("shmem_long_p", "dest", HEX, 1),
    "free-foreign": ("shmem_free", "ptr", HEX, None),
    "free-twice": ("shmem_free", "ptr", HEX, None),
    "free-inside": ("shmem_free", "ptr", HEX, None),
    "cmp": ("shmem_int_wait_until", "cmp", "77", 1),
    "sig-op": ("shmem_putmem_signal", "sig_op", "99", 1),
    "team-invalid": ("shmem_team_sync", "team", "SHMEM_TEAM_INVALID", 1),
    "list-empty": ("shmemx_team_create", "n", "0", 1),
    "list-long": ("shmemx_team_create", "n", "3", 1),
    "list-null": ("shmemx_team_create", "pes", "NULL", 1),
    "list-pe": ("shmemx_team_create", r"pes\[1\]", "2", 1),
    "list-twice": ("shmemx_team_create", r"pes\[1\]", "1", 1),
    "list-other": ("shmemx_team_create", "n", "1", 1),
    "list-parent": ("shmemx_team_create", "parent", "SHMEM_TEAM_INVALID", 1),
    "list-order": ("shmemx_team_create", "n", "2", None),
    "active-set": ("shmem_barrier", "PE_size", "3", None),
    "before-init": ("shmem_int_p", "", "", None),
    "after-finalize": ("shmem_int_p", "", "", None),
}
CHECK = {
    "null-dest": ("shmem_int_put", "dest", "NULL", 1),
    "null-source": ("shmem_int_get", "source", "NULL", 1),
    "misaligned": ("shmem_int_put", "dest", HEX, 1),
    "misaligned-amo": ("shmem_long_atomic_inc", "dest", HEX, 1),
    "overlap": ("shmem_long_put", "dest", HEX, 1),
    "past-end": ("shmem_putmem", "dest", HEX, 1),
    "stride": ("shmem_int_iput", "dst", "0", 1),
    "ctx-invalid": ("shmem_ctx_int_p", "ctx", "SHMEM_CTX_INVALID", 1),
    "ctx-gone": ("shmem_ctx_int_p", "ctx", HEX, 1),
    "ctx-pe": ("shmem_ctx_int_p", "pe", "2", 1),
    "root": ("shmem_long_broadcast", "PE_root", "2", None),
    "reduce-overlap": ("shmem_long_sum_reduce", "dest", HEX, None),
    "reduce-dest": ("shmem_long_sum_reduce", "dest", HEX, None),
    "team-gone": ("shmem_team_sync", "team", HEX, None),
    "outside": ("shmem_long_sum_to_all", "PE_size", "1", 1),
    "malloc-alike": ("shmem_malloc", "size", r"10\d", None),
    "ivar": ("shmem_int_wait_until", "ivar", HEX, 1),
    "sig-addr": ("shmem_putmem_signal", "sig_addr", HEX, 1),
    "lock": ("shmem_set_lock", "lock", HEX, 1),
}


# The program goes on after these: whether SHMEM_CHECK has to look, the PE, the line.
FULL = r"no 900000000 bytes, aligned to \d+, on the symmetric heap: \d{8} of its 16777216 are " \
    r"free, the largest block has \d{8}; SHMEM_SYMMETRIC_SIZE sets its size"
NOTES = {
    "align": (
        True, 0, "shmem_align: alignment = 24: not a power of two up to 67108864, gives NULL"),
    "align-huge": (
        True, 0, "shmem_align: alignment = 1073741824: not a power of two up to 67108864, gives "
                 "NULL"),
    "hints": (
        True, 0, "shmem_malloc_with_hints: hints = 0x10000000000: bits that are not known here do "
                 "not count"),
    "hints-both": (
        True, 0, "shmem_malloc_with_hints: hints = 0x30000: both SHMEMX_MALLOC_DEVICE and "
                 "SHMEMX_MALLOC_HOST, so neither counts"),
    "in-place": (
        True, 1, f"shmem_long_broadcast: dest = {HEX}: is source too, which other libraries need "
                 "not take"),
    "malloc": (False, 0, "shmem_malloc: " + FULL),
    "calloc": (False, 0, "shmem_calloc: " + FULL),
    "realloc": (False, 0, "shmem_realloc: " + FULL),
    "aligned": (False, 0, "shmem_align: " + FULL),
    "device": (
        False, 0,
        "shmem_malloc_with_hints: no 900000000 bytes, .*; SHMEM_DEVICE_SIZE sets its size"),
}


def notes():
    def one(item):
        what, (checked, pe, line) = item
        for env, said in ({"SHMEM_CHECK": "1"},
                          True), ({}, not checked), ({"SHMEM_CHECK": "1", "SHMEM_QUIET": "1"},
                                                     False):
            job = Job(2, "note", what, env=env | {"SHMEM_DEVICE_SIZE": "1M",
                                                  "SHMEM_HEAP_GROW": "0"})
            job.expect(job.rc == 0, f"status {job.rc}")
            job.expect(len(job.lines) == said, f"{len(job.lines)} lines: {job.lines}")
            job.expect(not said or re.fullmatch(f"shmem: PE {pe}: {line}", job.lines[0]),
                       f"not {line}: {job.lines}")

    together(3, one, NOTES.items())
    job = Job(2, "note", "nothing")
    job.expect(job.rc == 0 and not job.lines, f"status {job.rc}: {job.lines}")
    unknown = {"SHMEM_SYMETRIC_SIZE": "SHMEM_SYMMETRIC_SIZE", "SHMEM_CEHCK": "SHMEM_CHECK",
               "SHMEM_CPU_DEVICE": "SHMEM_CPU_DEVICES",
               "SHMEM_UCX_TLS": None, "SHMEM_CPU": None, "SHMEM_" + 200 * "X": None}
    known = {"SHMEM_DEVICE_SIZE": "1M", "SHMEM_CC": "cc", "SHMEM_PERF_NCCL": "x",
             "SMA_SYMMETRIC_SIZE": "1M", "SHMEMX": "1"}
    job = Job(2, "wrong", "good", env=known | {name: "1" for name in unknown})
    for name, meant in unknown.items():
        line = f"shmem: PE 0: {name[:100]}.* is not a variable of this library" + (
            f": is {meant} meant[?]" if meant else "")
        job.expect(sum(bool(re.fullmatch(line, said)) for said in job.lines) == 1,
                   f"not once {line}: {job.lines}")
    job.expect(job.rc == 0 and len(job.lines) == len(unknown), f"status {job.rc}: {job.lines}")
    job = Job(2, "wrong", "good", env=dict.fromkeys([*unknown, "SHMEM_QUIET"], "1"))
    job.expect(job.rc == 0 and not job.lines, f"status {job.rc}: {job.lines}")


STREAM = {
    "before-init": ("shmemx_int_p_on_stream", "", "", None),
    "collective-before-init": ("shmemx_barrier_all_on_stream", "", "", None),
    "after-finalize": ("shmemx_quiet_on_stream", "", "", None),
    "root": ("shmemx_long_broadcast_on_stream", "PE_root", "2", None),
    "pe": ("shmemx_putmem_on_stream", "pe", "2", 1),
    "pe-negative": ("shmemx_long_atomic_inc_on_stream", "pe", "-1", 1),
    "pe-strided": ("shmemx_ibget64_on_stream", "pe", "3", 1),
    "host-dest": ("shmemx_int_put_on_stream", "dest", HEX, 1),
    "host-source": ("shmemx_long_get_on_stream", "source", HEX, 1),
    "host-amo": ("shmemx_long_atomic_add_on_stream", "dest", HEX, 1),
    "host-collective": ("shmemx_long_alltoall_on_stream", "source", HEX, 1),
    "host-signal": ("shmemx_putmem_signal_on_stream", "sig_addr", HEX, 1),
    "host-wait": ("shmemx_signal_wait_until_on_stream", "sig_addr", HEX, 1),
    "past-end": ("shmemx_putmem_on_stream", "dest", HEX, 1),
    "null-source": ("shmemx_int_put_on_stream", "source", "NULL", 1),
    "null-dest": ("shmemx_int_iget_on_stream", "dest", "NULL", 1),
    "sig-op": ("shmemx_putmem_signal_on_stream", "sig_op", "99", 1),
    "cmp": ("shmemx_signal_wait_until_on_stream", "cmp", "77", 1),
    "stride": ("shmemx_int_iput_on_stream", "dst", "0", 1),
    "block": ("shmemx_int_ibput_on_stream", "sst", "3", 1),
    "collective-stride": ("shmemx_int_alltoalls_on_stream", "sst", "-1", 1),
    "rows": ("shmemx_int_alltoall2d_on_stream", "dest_row", "2", 1),
    "uneven-dest": ("shmemx_int_alltoallv_on_stream", "dest", HEX, 1),
    "uneven-counts": ("shmemx_int_alltoallv_on_stream", "counts", "NULL", 1),
    "uneven-unit": ("shmemx_alltoallvmem_on_stream", "unit_bytes", "0", 1),
    "uneven-capacity": ("shmemx_int_alltoallv_on_stream", "capacity", str(2**63 - 1), 1),
    "uneven-end": ("shmemx_int_alltoallv_on_stream", "dest", HEX, 1),
    "team": ("shmemx_team_sync_on_stream", "team", "SHMEM_TEAM_INVALID", 1),
    "team-collective": ("shmemx_long_sum_reduce_on_stream", "team", "SHMEM_TEAM_INVALID", 1),
}
STREAM_CHECK = {
    "reduce-overlap": ("shmemx_long_sum_reduce_on_stream", "dest", HEX, None),
    "collect-in-place": ("shmemx_long_fcollect_on_stream", "dest", HEX, None),
    "many-teams": ("shmemx_long_sum_reduce_on_stream", "team", HEX, None),
    "team-gone": ("shmemx_long_sum_reduce_on_stream", "team", HEX, None),
    "block-end": ("shmemx_putmem_on_stream", "dest", HEX, 1),
    "misaligned": ("shmemx_int_put_on_stream", "dest", HEX, 1),
    "misaligned-amo": ("shmemx_long_atomic_inc_on_stream", "dest", HEX, 1),
    "reduce-end": ("shmemx_long_sum_reduce_on_stream", "dest", HEX, 1),
}


def on_streams():
    if Job(1, "stream", "good").rc == 77:
        print("there is no GPU here")
        sys.exit(77)
    mistakes(STREAM, {}, "stream")
    mistakes(STREAM_CHECK, {"SHMEM_CHECK": "1", "SHMEM_COLL_TEAMS": "1"}, "stream")


def mistakes(table, env, kind="wrong"):
    good = Job(2, kind, "good", env=env)
    good.expect(good.rc == 0 and not good.lines,
                f"a program without mistakes: status {good.rc} {good.lines}")

    def one(item):
        what, (routine, argument, value, pe) = item
        job = Job(2, kind, what, env=env)
        # before init, the library does not know which PE this is
        who = "" if what.endswith("before-init") else f"PE {pe if pe is not None else '[01]'}: "
        pattern = rf"shmem: {who}{routine}: "
        if argument:
            pattern += rf"(?:.*, )?{argument} = {value}[:,] .*\w"
        matching = [line for line in job.lines if re.match(pattern, line)]
        job.expect(job.rc != 0, "status 0")
        job.expect(matching, f"no line like {pattern}: {job.lines}")
        # PEs that make the same mistake at once may each say so
        job.expect(len(job.lines) <= (1 if pe == 1 else 2), f"too many lines: {job.lines}")

    together(3, one, table.items())


def environment():
    sizes = [" ", "-1", "+1", "abc", "k", ".", "1e6", "0x100", "1 m", " 1m", "1.2.3m",
             "99999999999999999999", "16777217t",
             "1x", "nan"]

    def refused(size):
        job = Job(2, "wrong", "good", env={"SHMEM_SYMMETRIC_SIZE": size})
        job.expect(job.rc != 0, "status 0")
        job.expect(any("SHMEM_SYMMETRIC_SIZE" in line and (size.strip() in line)
                       for line in job.lines),
                   f"no line names it: {job.lines}")
        job.expect(len(job.lines) == 1, f"not one line: {job.lines}")

    together(3, refused, sizes)
    for good in ("", "20kk", ".5m", "3.1M", "1048576", "2mjunk"):
        job = Job(2, "wrong", "good", env={"SHMEM_SYMMETRIC_SIZE": good})
        job.expect(job.rc == 0 and not job.lines, f"status {job.rc}: {job.lines}")
    # The old spelling works, and the name that other libraries have, each where those before it are
    # not set; a mistake names the variable that has it
    for name, alias in ("SHMEM_SYMMETRIC_SIZE",
                        "SMA_SYMMETRIC_SIZE"), ("SMA_SYMMETRIC_SIZE", "SHMEM_SYMMETRIC_HEAP_SIZE"):
        job = Job(2, "wrong", "good", env={"SHMEM_SYMMETRIC_SIZE": "", name: "1m", alias: "bad"})
        job.expect(job.rc == 0, f"{name} wins over {alias}: {job.lines}")
        job = Job(2, "wrong", "good", env={"SHMEM_SYMMETRIC_SIZE": "", alias: "bad"})
        job.expect(job.rc != 0 and any(f'{alias} = "bad"' in line for line in job.lines),
                   f"{job.lines}")
    job = Job(2, "wrong", "good", env={"SHMEM_SYMMETRIC_SIZE": "",
                                       "SHMEM_SYMMETRIC_HEAP_SIZE": "3m", "SHMEM_DEBUG": "1",
                                       "SHMEM_INFO": "1"})
    job.expect(any("heap of 3145728 bytes" in line for line in job.lines), f"{job.lines}")
    job.expect(any("SHMEM_SYMMETRIC_SIZE = 3m (by SHMEM_SYMMETRIC_HEAP_SIZE)" in line
                   for line in job.out), f"{job.out}")
    bad = {"SHMEM_SYMMETRIC_SIZE": ["100t", "9000000t"], "SHMEM_HEAP": ["nowhere"],
           "SHMEM_CHECK": ["2", "yes"],
           "SHMEM_DEVICE": ["-1", "some"], "SHMEM_WAIT_LIMIT": ["1,5", "0x1", "-1", "nan"],
           "SHMEM_P2P": ["x"] + ["0"] * (os.environ["NET"] == "none")}
    for name, values in bad.items():
        for value in values:
            job = Job(2, "wrong", "good", env={name: value})
            job.expect(job.rc != 0, "status 0")
            job.expect(any(name in line and value in line for line in job.lines),
                       f"no line names it: {job.lines}")
    job = Job(2, 'ulimit -f 100; exec "$@"', "wrong", "good", shell=True)
    job.expect(job.rc != 0 and any("ulimit -f" in line for line in job.lines),
               f"ulimit -f: {job.lines}")
    job = Job(2, "wrong", "good", env={"SHMEM_VERSION": "0"})  # any value
    job.expect(any("1.6" in line for line in job.out) and job.rc == 0, f"no version: {job.out}")
    job = Job(2, "wrong", "good", env={"SHMEM_INFO": "0"})
    for name in ("SHMEM_SYMMETRIC_SIZE", "SHMEM_VERSION", "SHMEM_INFO", "SHMEM_DEBUG"):
        job.expect(any(name in line for line in job.out), f"no help on {name}")
    none = {"SHMEM_DEVICE": "none", "SHMEM_DEBUG": "1"}
    job = Job(2, "wrong", "good", env=none | {"SHMEM_DEVICE_SIZE": "1M"})
    job.expect(job.rc == 0 and any("by SHMEM_DEVICE = none" in line for line in job.lines),
               f"a device: {job.lines}")
    job = Job(2, "wrong", "good", env={"SHMEM_DEVICE": "none", "SHMEM_HEAP": "device"})
    job.expect(job.rc != 0 and any("SHMEM_DEVICE = none" in line for line in job.lines),
               f"not refused: {job.lines}")
    job = Job(2, "wrong", "good", env={"SMA_DEBUG": "1"})
    job.expect(job.rc == 0 and job.lines, "no debug messages")


def main():
    case = sys.argv[1]
    if case.startswith("death-"):
        death(case.removeprefix("death-"))
    else:
        {"exit": check_exit, "killed": killed, "wrong": lambda: mistakes(WRONG, {}),
         "check": lambda: mistakes(CHECK, {"SHMEM_CHECK": "1"}), "environment": environment,
         "stalled": stalled, "absent": absent, "note": notes,
         "stream": on_streams}[case]()
    print(f"{case}: {len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())

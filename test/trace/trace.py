# SPDX-License-Identifier: MIT
"""Tests of traces: trace.py CASE [--update]. OSHRUN, CALLS, TRACE (the tool), EXAMPLE, TRACER and
others are given. --update, of product: the picture in shmem_performance(7) is to be the new one.
"""

import json
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
OSHRUN, CALLS, TOOL = os.environ["OSHRUN"], os.environ["CALLS"], os.environ["TRACE"]
TMP = Path(tempfile.mkdtemp(prefix="trace-"))
FILE = TMP / "trace.json"
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith("SHMEM_")} | {"SHMEM_SYMMETRIC_SIZE": "16M"}


def run(*argv, status=0, **env):
    done = subprocess.run([str(a) for a in argv], env={**ENV, **env}, text=True,
                          capture_output=True, timeout=60)
    assert status is None or done.returncode == status, (argv, done.returncode, done.stdout,
                                                         done.stderr)
    return done.stdout + done.stderr


def traced(n, *argv, status=0, launch=(), **env):
    return run(*launch, OSHRUN, "-n", n, *argv, status=status, SHMEM_TRACE=str(FILE), **env)


def check(*more, status=0, file=FILE):
    return run(sys.executable, TOOL, "--check", "--calls", 0, *more, file, status=status)


def events():
    return json.loads(FILE.read_text())


def case_calls():
    n = 3
    said = traced(n, CALLS)
    assert not said, said
    check()
    every = events()
    names = {e["pid"]: e["args"]["name"] for e in every if e["name"] == "process_name"}
    assert sorted(names) == list(range(n)) and all(v.startswith(f"PE {p} on ") for p,
                                                   v in names.items()), names
    for me in range(n):
        mine = [e for e in every if e["pid"] == me and e["ph"] != "M"]
        to = (me + 1) % n
        main = [e for e in mine if e["tid"] == 0]
        got = [(e["name"], e.get("args", {}).get("pe"), e.get("args", {}).get("bytes"))
               for e in main]
        want = [
            ("shmem_init_thread", None, None), ("shmem_malloc", None, 800),
            ("shmem_calloc", None, 8),
            ("shmem_long_put", to, 8), ("shmem_long_put", to, 80), ("shmem_putmem", to, 13),
            ("shmem_put128", to, 32),
            ("shmem_long_g", to, 8), ("shmem_double_get", to, 16), ("shmem_long_ibput", to, 48),
            ("shmem_long_atomic_fetch_add", to, 8), ("shmem_putmem_signal", to, 24),
            ("shmem_signal_wait_until", None, None), ("shmem_quiet", None, None),
            ("shmem_team_split_strided", None, None),
            *[("shmem_team_create_ctx", None, None), ("shmem_ctx_long_p", n - 1, 8),
              ("shmem_ctx_destroy", None, None)] * (me == n - 1),
            ("shmem_long_sum_reduce", None, 40), ("shmem_sync_all", None, None),
            ("event 17", None, None),
            ("shmem_init", None, None), ("shmem_barrier_all", None, None),
        ]
        assert got == want, [pair for pair in zip(got, want) if pair[0] != pair[1]]
        # One after the other, and the thread on its own track, whole, with what writing it took.
        for a, b in zip(main, main[1:]):
            assert a["ts"] + a.get("dur", 0) <= b["ts"], (a, b)
        other = Counter(e["name"] for e in mine if e["tid"] == 1)
        assert other == {"shmem_fence": 5000, "writing the trace": 1}, other


def case_streams():
    """The GPU's work, on a track for each stream, at its time."""
    n = 2
    said = traced(n, os.environ["STREAMS"])
    assert not said, said
    said = check()
    every = events()
    for me in range(n):
        mine = [e for e in every if e["pid"] == me]
        to = (me + 1) % n
        tracks = {e["args"]["name"]: e["tid"] for e in mine if e["name"] == "thread_name"}
        assert sorted(tracks) == ["stream 1", "stream 2"], tracks
        host = Counter(e["name"] for e in mine if e["ph"] == "X" and "cat" not in e)
        marks = {e["name"]: e["ts"] for e in mine if e["ph"] == "i"}
        want = {"stream 1": [("putmem", to, 4096)] * 3 + [("long_p", to, 8),
                                                          ("barrier_all", None, None),
                                                          ("signal_wait_until", None, None)],
                "stream 2": [("long_sum_reduce", None, 800), ("signal_set", me, 8),
                             ("putmem", to, 32)] +
                [("long_atomic_add", to, 8)] * 200}
        # None of the graph's, and none while it was stopped
        for name, calls in want.items():
            done = [e for e in mine if e["ph"] == "X" and e["tid"] == tracks[name]]
            got = [(e["name"], e["args"].get("pe"), e["args"].get("bytes")) for e in done]
            assert got == [(f"shmemx_{c}_on_stream", pe, size) for c, pe,
                           size in calls], (name, got)
            assert all(e["cat"] == "stream" for e in done)
            for a, b in zip(done, done[1:]):
                # Each is rounded to 0.001
                assert a["ts"] + a["dur"] <= b["ts"] + 0.0015, (a, b)
        wait = next(e for e in mine if e.get("cat") == "stream" and "wait_until" in e["name"])
        error, end = wait["args"]["clock +- us"], wait["ts"] + wait["dur"]
        assert wait["dur"] >= 29000, wait
        assert marks["event 1"] - error <= end <= marks["event 2"] + error, (wait, marks)
        assert host["shmemx_putmem_on_stream"] == 5 and not host["shmemx_quiet_on_stream"], host
    # The GPU's part beside the host's.
    lines = [line for line in said.splitlines() if line.startswith("shmemx_putmem_on_stream")]
    counts = {" (GPU) " in line: int(line.replace(" (GPU)", "").split()[1]) for line in lines}
    assert counts == {False: 5 * n, True: 4 * n}, lines


def case_kernels():
    """One event for each call of a thread, a wave or a workgroup, whatever the scope's size."""
    n, blocks = 2, 3
    said = traced(n, os.environ["KERNELS"])
    assert not said, said
    check()
    every = events()
    for me in range(n):
        mine, to = [e for e in every if e["pid"] == me], (me + 1) % n
        marks = {e["name"]: e["ts"] for e in mine if e["ph"] == "i"}
        done = [e for e in mine if e.get("cat") == "kernel"]
        got = Counter((e["name"], e["args"].get("pe"), e["args"].get("bytes"), e["args"]["block"])
                      for e in done)
        want = {("shmemx_barrier_all_wg", None, None, 0): 1}
        for b in range(blocks):
            want |= {("shmem_long_atomic_add", to, 8, b): 5, ("shmem_long_p", to, 8, b): 3,
                     ("shmem_signal_set", to, 8, b): 1, ("shmem_signal_wait_until", None, None,
                                                         b): 1,
                     ("shmemx_putmem_wave", to, 40, b): 1, ("shmemx_long_put_wg", to, 64, b): 1}
        assert got == want, (got, want)
        assert all(sum(e["name"] == f"event {40 + b}" for e in mine) == 1
                   for b in range(blocks)), marks
        error = max(e["args"]["clock +- us"] for e in done)
        for e in done:
            assert marks["event 1"] - error <= e["ts"] <= e["ts"] + e["dur"] <= marks[
                "event 2"] + error, (e, marks)
        for tid in {e["tid"] for e in done}:                # a track shows one at a time
            track = [e for e in done if e["tid"] == tid]
            for a, b in zip(track, track[1:]):
                assert a["ts"] + a["dur"] <= b["ts"] + 0.0015, (a, b)
    said = traced(n, os.environ["KERNELS"], SHMEM_TRACE_RECORDS="0")
    assert not said and not any(e.get("cat") == "kernel" for e in events()), said


def marks():
    return sorted(int(e["name"].split()[1]) for e in events() if e["ph"] == "i"
                  and e["name"].startswith("event "))


def case_ring():
    """The host reads records while a kernel runs that makes ten times as many as there is room for.
    Where it makes more in one go, all are counted, and the last ones are there. What takes longer
    than a lap round the ring has its record, too: here four calls, which begin half a lap after
    each other."""
    # Others: calls of a round beside its marks
    room, rounds, others, long = 512, 20, 2, 4
    each = room // 2 - others - 1                           # and the one that begins before it
    # The reader looks every 5 ms. A busy machine once kept it for longer than two pauses of 100 ms
    # (2026-11-27, under AddressSanitizer), so longer ones have their turn.
    for pause in (100, 300, 600):
        said = traced(1, os.environ["RING"], rounds, each, pause,
                      SHMEM_TRACE_RECORDS=str(room - 100))
        if not said:
            break
    assert not said, said
    assert marks() == list(range(rounds * each))
    calls = Counter(e["name"] for e in events() if e.get("cat") == "kernel")
    assert calls == {"shmem_signal_wait_until": rounds + long, "shmem_signal_set": rounds}, calls
    assert "had no room" not in check()
    # Rounds of five laps: where a round was half a lap, a busy machine's kernel switched threads so
    # often that the reader kept up (2026-11-28, under AddressSanitizer).
    each = 5 * room
    said = traced(1, os.environ["RING"], rounds, each, 0, SHMEM_TRACE_RECORDS=str(room))
    seen = marks()
    calls = sum(e.get("cat") == "kernel" for e in events())
    lost = rounds * (each + others) - len(seen) - calls
    assert lost > 0 and said.count("\n") == 1 and f"no room for {lost} calls of kernels" in said, (
        lost, said)
    assert len(set(seen)) == len(seen), len(seen)
    # The last lap is of the last round; of which threads depends on how they take turns.
    assert seen[-(room - 2 * others)] >= (rounds - 1) * each, len(seen)
    assert f"{lost} calls of kernels had no room" in check()


def sends_meanwhile(picture):
    """Whether each PE's picture has a column in which one workgroup sends and another one
    multiplies."""
    rows = [line.split() for line in picture.splitlines() if line.startswith("PE ")]
    return all(any({"s", "m"} <= set(column)
                   for column in zip(*(row[3] for row in rows if row[1] == pe)))
               for pe in "01")


def case_product():
    """A fused product sends tiles while it multiplies others, and the page of the manual shows
    that. Where there are fewer cores than workgroups that is so in many runs, and not in each."""
    # Rows and columns of one, each 3 x 2 times
    tile = 64
    for _ in range(50):
        said = traced(2, os.environ["PRODUCT"], 2 * tile, 3 * tile, 512, 1)
        assert not said, said
        for pe in range(2):
            done = {}
            for e in events():
                if e.get("cat") == "kernel" and e["pid"] == pe:
                    done.setdefault(e["name"], []).append(e)
            assert set(done) == {"multiply", "send", "wait for a tile", "sum",
                                 "meet members"}, set(done)
            assert len(done["multiply"]) == 6 and {e["args"]["pe"]
                                                   for e in done["send"]} == {1 - pe}, done
            assert sum(e["args"]["bytes"]
                       for e in done["send"]) == 3 * tile * tile * 2, done["send"]
            ends = sorted(e["ts"] + e["dur"] for e in done["multiply"])
            assert all(e["ts"] >= ends[0] for e in done["send"]), done      # of the first of them
        picture = run(sys.executable, TOOL, "--check", "--timeline", FILE)
        if sends_meanwhile(picture):
            break
    else:
        raise AssertionError("nothing is sent while others are multiplied")
    shown = Path(__file__).with_name("product.txt")
    if "--update" in sys.argv:
        shown.write_text(
            "// SPDX-License-Identifier: MIT. Written by test/trace/trace.py product --update.\n"
            + picture)
    assert sends_meanwhile(shown.read_text())
    letters = [set(text.splitlines()[-1].split("; ")[1].split(", "))
               for text in (picture, shown.read_text())]
    assert letters[0] == letters[1], letters


PROGRAM = """import shmem, shmem.trace
shmem.init()
x, to = shmem.ones(100), (shmem.my_pe() + 1) % shmem.n_pes()
shmem.trace.event(7)
shmem.put(x, x, to)
shmem.barrier()
shmem.trace.stop()
shmem.put(x, x, to)
shmem.trace.start()
shmem.all_reduce(x, stream=0)
shmem.quiet(stream=0)
"""
IN_TRITON = """import torch, triton, triton.language as tl
import shmem, shmem.triton as st
@st.jit
def blocks(x, y, size, me, pe, bases, context, n: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    st.store(y + at, st.load(x + at, me, pe, bases, mask=at < size), me, pe, bases, mask=at < size)
    st.get(x + at, y + block + at, me, pe, bases)
    st.copy(x + at, y + block + at, me, pe, me, bases)
    st.atomic_cas(y + 1000, 0, 1, me, pe, bases)
    st.atomic_add(y + 1001, 1, me, pe, bases, mask=size < 0)
    if me == 0:
        st.DeviceContext.initialize(context, 0, n).put(x + at, y + at, 1)
@st.jit
def signal(x, y, size, signal, pe):
    st.put_signal(y, x, size, signal, 1, pe)
    st.barrier()
shmem.init()
me, n = shmem.my_pe(), shmem.n_pes()
x, y = shmem.zeros(1024, dtype=torch.int32), shmem.zeros(1024, dtype=torch.int32)
flag, to = shmem.zeros(1, dtype=torch.int64), (me + 1) % n
blocks[(2,)](x, y, 100, me, to, shmem.heap_bases(), st.context(), n, 64)
signal[(1,)](x, y, 10, flag, to)
"""
BITCODE = """import shmem.triton, triton
target = triton.runtime.driver.active.get_current_target()
shmem.triton.bitcode(target.backend, target.arch)
"""
BY_ID = """import shmem
shmem.init(uid=shmem.get_unique_id(), rank=0, size=1)
x = shmem.ones(4)
shmem.put(x, x, 0)
"""


def case_python():
    """A program in Python, which finds the tracer's routines, and its picture."""
    from run import python_with
    python, n = python_with("numpy"), 2
    env = {"PYTHONPATH": os.environ["PACKAGE"], "PYTHONDONTWRITEBYTECODE": "1"}
    said = traced(n, python, "-c", PROGRAM, **env)
    assert not said, said
    check()
    for me in range(n):
        mine = [e for e in events() if e["pid"] == me and e["ph"] != "M"]
        got = Counter((e["name"].split(" ")[0], e.get("cat")) for e in mine)
        on_stream = "shmemx_float_sum_reduce_on_stream"
        once = [(name, None) for name in ("shmem_init_thread", "shmem_putmem", "event", on_stream)]
        assert all(got[x] == 1 for x in [*once, (on_stream, "stream")]), got
        put = next(e for e in mine if e["name"] == "shmem_putmem")
        assert put["args"] == {"pe": (me + 1) % n, "bytes": 400}, put
    # A job by a unique id, which no oshrun has started.
    run(python, "-c", BY_ID, SHMEM_TRACE=str(TMP / "id.json"),
        LD_PRELOAD=os.environ["TRACER"], **env)
    got = Counter(e["name"] for e in json.loads((TMP / "id.json").read_text()) if e["ph"] == "X")
    assert got["shmemx_init_attr"] == got["shmem_putmem"] == 1, got
    if python := python_with("numpy", "matplotlib", wanted=False):
        run(python, "-m", "shmem.trace", FILE, TMP / "p.svg", **env)
        text = (TMP / "p.svg").read_text()
        assert "calls" in {g.getAttribute("id") for g in
                           xml.dom.minidom.parseString(text).getElementsByTagName("g")}
        assert "shmem_barrier_all" in text and "PE 1" in text and "stream 1" in text


def case_triton():
    """Kernels of Triton: a record for each call of a program, with the bytes of its mask. In the
    interpreter routines are calls of the host."""
    from run import python_with
    python, n, gpu = python_with("torch", "triton"), 2, os.environ["TRITON_INTERPRET"] == "0"
    package = {"PYTHONPATH": os.environ["PACKAGE"], "PYTHONDONTWRITEBYTECODE": "1"}
    if gpu:
        asked = subprocess.run([python, "-c", BITCODE], env={**os.environ, **package},
                               capture_output=True, text=True)
        if "no clang 19 was there to make the file" in asked.stderr:
            print("no bitcode for this GPU")
            sys.exit(77)
        assert asked.returncode == 0, asked.stderr
    program = TMP / "in_triton.py" # kernels for a GPU have to be in a file
    program.write_text(IN_TRITON)
    said = traced(n, python, program, OMP_NUM_THREADS="1", SHMEM_DEVICE_SIZE="64M", **package)
    assert not said, said
    said = check()
    for me in range(n):
        mine = [e for e in events() if e["pid"] == me and e["ph"] == "X"]
        to = (me + 1) % n
        got = Counter((e["name"], e["args"]["block"], e["args"].get("pe"), e["args"].get("bytes"))
                      for e in mine if e.get("cat") == "kernel")
        wanted = Counter(("triton." + name, block, to, moved)
                         for block, part in enumerate((256, 144))
                         for name, moved in [("load", part), ("store", part), ("get", 256),
                                             ("copy", 256), ("atomic_cas", 4), ("atomic_add", None),
                                             *[("put", 256)] * (me == 0)])
        host = Counter(e["name"] for e in mine if "cat" not in e)["shmem_putmem_signal"]
        if gpu:
            wanted += Counter([("shmemx_putmem_signal_wg", 0, to, 40),
                               ("shmem_quiet", 0, None, None),
                               ("shmemx_barrier_all_wg", 0, None, None)])
        assert got == wanted and host == (not gpu), (got, wanted, host)
        # What was loaded, and got, comes from the other PE.
        row = next(line for line in said.splitlines() if line.startswith(f"PE {me} "))
        assert f" {1872 + 512 * (me == 0)} B" in row, said


def case_ends():
    """The file of a job that ended otherwise is whole as far as it goes."""
    traced(2, CALLS, "exit", status=3)
    said = check()
    assert "10000" in said and "shmem_long_sum_reduce" in said, said
    traced(2, CALLS, "abort", status=None)
    assert "shmem_long_sum_reduce" in check()


def case_sums():
    """The tool's sums are those of the file."""
    traced(2, os.environ["EXAMPLE"])
    said = check()
    assert "shmem_barrier_all" in said and "from \\ to" in said, said
    bad = subprocess.run([TOOL, "--svgs", "x", FILE], text=True, capture_output=True)
    assert bad.returncode and bad.stderr.startswith("shmem_trace: unrecognized arguments"), bad
    (TMP / "none").mkdir()
    (TMP / "none/matplotlib.py").write_text("raise ImportError")
    none = subprocess.run([TOOL, "--svg", TMP / "p.svg", FILE], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(TMP / "none")})
    assert none.returncode and none.stderr == "shmem_trace: --svg: no matplotlib here " \
        "(python3-matplotlib)\n", none
    drawn = subprocess.run([TOOL, f"--svg={TMP / 'p.svg'}", FILE], text=True, capture_output=True)
    if "no matplotlib" not in drawn.stderr: # each pair's bytes, as the table has them
        assert drawn.returncode == 0, drawn
        picture = xml.dom.minidom.parse(str(TMP / "p.svg"))
        shown = {g.getAttribute("id"): "".join(t.firstChild.data
                                               for t in g.getElementsByTagName("text"))
                 for g in picture.getElementsByTagName("g")
                 if g.getAttribute("id").startswith("moved ")}
        rows = [line.split("  ") for line in said.splitlines() if line.startswith("PE ")]
        cells = [[c.strip() for c in row[1:] if c.strip()] for row in rows]
        assert shown == {f"moved {p} {q}": cells[p][q] for p in range(2) for q in range(2)
                         if cells[p][q] != "-"} != {}, (shown, cells)
    sums = Counter(e["name"] for e in events() if e["ph"] == "X")
    rows = {line.split()[0]: int(line.split()[1]) for line in said.splitlines()
            if line.startswith("shmem")}
    assert rows == dict(sums), (rows, sums)


def case_errors():
    hello = ("-n", 2, CALLS)
    for path, why in ((TMP / "none" / "x", "No such file"), (TMP, "Is a directory"),
                      ("/sys/trace", "Permission denied"),
                      ("/dev/full", "No space left")):
        said = run(OSHRUN, *hello, SHMEM_TRACE=str(path))
        assert said.count("\n") == 1 and "SHMEM_TRACE: " in said and why in said, said
    # A disk that becomes full later: each PE says so once and goes on, and the file so far can be
    # read.
    small = ("unshare", "--mount", *["--map-root-user"] * (os.geteuid() != 0), "sh", "-c")
    full = TMP / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size=64k none {full}"
    if subprocess.run([*small, mount], capture_output=True).returncode:
        print("no file system can be made here: none becomes full")
    else:
        said = run(*small, f'{mount} && "$@" && cat {full}/x > {FILE}', "sh", OSHRUN, *hello,
                   SHMEM_TRACE=f"{full}/x")
        said = said.splitlines()
        assert 1 <= len(said) <= 2 and all("writing: No space left" in line for line in said), said
        assert 60000 < FILE.stat().st_size <= 65536
        check()
    said = run(CALLS, SHMEM_TRACE=str(FILE))
    assert said.count("\n") == 1 and "oshrun did not start this" in said, said
    said = run(CALLS, SHMEM_TRACE=str(FILE), LD_PRELOAD=os.environ["TRACER"])
    assert not said, said
    check()
    assert "No such file" in check(status=1, file=TMP / "none")
    for text, what in (("[\n", "no events"), ("[\nx\n", "line 2: no event"),
                       ('[\n{"ph":"X"},\n', "another kind"),
                       ('[\n{"ph":"X","pid":1,"tid":0,"name":"a","ts":1,"dur":-1},\n', "no time"),
                       ('[\n{"ph":"X","pid":1,"tid":0,"name":"a","ts":1,"dur":1},\n',
                        "PE 1 has no name")):
        FILE.write_text(text)
        said = check(status=1)
        assert what in said and "fault" in said, said
    for wrong, what in (("--calls", "not a number"), ("--calls=x", "x: not a number"),
                        ("--colour", "unrecognized arguments: --colour"), (FILE, "one file")):
        assert what in run(sys.executable, TOOL, wrong, FILE, status=1)


def case_clocks():
    """PEs on another node than PE 0 learn its clock: no PE leaves a barrier before all have come,
    by as much as the trace says that it may be wrong."""
    traced(4, CALLS, "clocks", launch=sys.argv[2:])
    check()
    every = events()
    wrong = {e["pid"]: float(e["args"]["labels"].split()[2])
             for e in every if e["name"] == "process_labels"}
    assert sorted(wrong) == [2, 3] and all(0 < w < 10000 for w in wrong.values()), wrong
    barriers = [[e for e in every if e["pid"] == p and e["name"] == "shmem_barrier_all"]
                for p in range(4)]
    for at_once in zip(*barriers):
        come = max(e["ts"] - wrong.get(e["pid"], 0) for e in at_once)
        left = min(e["ts"] + e["dur"] + wrong.get(e["pid"], 0) for e in at_once)
        assert come <= left, (at_once, wrong)


if __name__ == "__main__":
    try:
        globals()["case_" + sys.argv[1]]()
    finally:
        subprocess.run(["rm", "-rf", TMP], check=True)

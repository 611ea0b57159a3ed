# SPDX-License-Identifier: MIT
"""Tests of what shmem_perf prints and draws: perf.py CASE, as launch.py."""

import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree

sys.dont_write_bytecode = True
from launch import BUILD, OSHRUN, TMP, main, run  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def case_perf_gemm():
    """The products are checked by the program itself; a shape that shards do not divide, and one
    without room."""
    perf = f"{BUILD}/tools/shmem_perf/shmem_perf"
    for n in 1, 3:
        rows = [json.loads(r) for r in run(OSHRUN, "-n", n, perf, "--gemm", "--shape", "100,37,19",
                                           "--json").splitlines()]
        tests = [f"matmul_{o}" for o in ("reduce_scatter", "all_reduce",
                                         "all_gather")] + ["all_gather_matmul"]
        assert [r["test"] for r in rows
                if r["algorithm"] == "best"] == ["matmul", "matmul of a shard"] + tests, rows
        assert [r["test"] for r in rows if r["algorithm"] == "fused"] == tests[:3], rows
        for algorithm in "streams", "bulk":
            assert [r["test"] for r in rows if r["algorithm"] == algorithm] == tests, rows
        assert all(r["us"] > 0 and r["m"] == 100 for r in rows) and rows[0]["x_gemm"] == 1, rows
    out = run(OSHRUN, "-n", 2, perf, "--gemm", "--repetitions", 1)
    assert out.count("\n") == 38 and " - " in out and max(map(len, out.splitlines())) <= 110, out
    assert not run(OSHRUN, "-n", 2, perf, "--gemm", "--json", "--shape", "64k,64k,1",
                   SHMEM_DEVICE_SIZE="64m")
    run(OSHRUN, "-n", 2, perf, "--gemm", "--shape", "64,64", status=2)
    assert run(OSHRUN, "-n", 2, perf, "--gemm", "--shape", "64,32,16", "--calls", 3)
    run(OSHRUN, "-n", 2, perf, "--gemm", "--calls", 0, status=2)


def case_perf_engine():
    """Each kind of call, checked by the program itself; and PEs that do not share the experts."""
    perf = f"{BUILD}/tools/shmem_perf/shmem_perf"
    kinds = ["all-reduce", "all-reduce, norm", "fused", "fused, residual scattered",
             "fused, fp8 too"]
    for n in 1, 2, 3:
        rows = [json.loads(r) for r in run(OSHRUN, "-n", n, perf, "--engine", "--json",
                                           "--repetitions", 3).splitlines()]
        assert all(r["us"] > 0 for r in rows), rows
        norms = [r for r in rows if r["test"] == "norm"]
        assert [(r["rows"], r["kind"]) for r in norms] == [(m, k) for m in (1, 16, 64)
                                                           for k in kinds], rows
        assert all(r["above_all_reduce_us"] == 0 for r in norms if r["kind"] == kinds[0]), rows
        copies = [r for r in rows if r["test"] == "copy"]
        assert [r["kind"] for r in copies] == [
            "fcollect, kernels", "fcollect, engines", "fcollect, engines in place", "product",
            "product, kernels", "product, engines", "product, engines in place"], rows
        wire = [r for r in rows if r["test"] == "wire"]
        assert [r["kind"] for r in wire][:5] == ["sum", "sum by fp8", "sum by int8", "sum by int6",
                                                 "sum by int4"], rows
        assert wire[0]["x_sum"] == 1 and all(r["x_sum"] > 0 for r in wire), rows
        moe = [r for r in rows if r["test"] in ("dispatch", "combine")]
        assert [r["test"] for r in moe] == (["dispatch", "combine"] * 2 if n < 3 else []), rows
        assert all(("wire_us" in r) == (n > 1) for r in moe), rows
    rows = [json.loads(r) for r in run(OSHRUN, "-n", 2, perf, "--engine", "--tests", "wire,norm",
                                       "--sizes", "1k:4k", "--step", 4, "--json").splitlines()]
    assert [(r["rows"], r["kind"]) for r in rows if r["test"] == "norm"] == [
        (m, k) for m in (1, 7) for k in kinds], rows
    assert {r["bytes"] for r in rows if r["test"] == "wire"} == {1024, 4096}, rows
    assert {r["test"] for r in rows} == {"norm", "wire"}, rows
    assert "norm, moe, copy and wire" in run(OSHRUN, "-n", 2, perf, "--engine", "--tests",
                                             "barrier_all", status=2)
    assert "norm and wire have sizes" in run(OSHRUN, "-n", 2, perf, "--engine", "--tests", "moe",
                                             "--sizes", "1k:4k", status=2)
    out = run(OSHRUN, "-n", 2, perf, "--engine", "--repetitions", 1)
    assert out.count("\n") > 20 and max(map(len, out.splitlines())) <= 110, out


def case_perf_plot():
    """A point for each row printed, at the row's value, in each mode; a file that cannot be
    written, before and after; a system without matplotlib."""
    perf, svg = f"{BUILD}/tools/shmem_perf/shmem_perf", TMP / "perf.svg"
    found = [subprocess.run([p, "-c", "import matplotlib"], capture_output=True).returncode == 0
             for p in (sys.executable, "/usr/bin/python3")]
    if not any(found):
        print("no matplotlib")
        sys.exit(77)

    def plot(*mode, n=2):
        """The rows that were printed, and what was drawn."""
        out = run(OSHRUN, "-n", n, perf, *mode, "--json", "--plot", svg)
        tree = xml.etree.ElementTree.parse(svg).getroot()
        assert tree.tag == SVG + "svg" and f"{n} PEs" in "".join(tree.itertext()), mode
        return out, drawn(tree)

    small = "--sizes", "8:512", "--step", 8, "--repetitions", 1
    rows, panels = plot("--stream", *small)
    rows = [json.loads(r) for r in rows.splitlines()]
    assert rows and all(r["link_gb_per_s"] > 0 for r in rows), rows
    same([(f"{r['test']}: time of a call by size", "libshmem", r["bytes"], r["us"], "us")
          for r in rows], panels)
    rows, panels = plot("--gemm", "--shape", "64,32,16")
    rows = [json.loads(r) for r in rows.splitlines()]
    same([("M x N x K = 64 x 32 x 16, each PE: TFLOP/s", r["test"], 0, r["tflops"], "TFLOP/s")
          for r in rows if r["algorithm"] == "best"], panels)
    rows, panels = plot("--engine", "--repetitions", 1)
    rows = [json.loads(r) for r in rows.splitlines()]
    want = [(f"{r['rows']} x {r['columns']} bf16: time of a call", r["kind"], 0, r["us"], "us")
            for r in rows if r["test"] == "norm"]
    moved = [(f"{r['tokens']} tokens x {r['hidden']} bf16, top 8 of 64 experts, each PE: time of a "
              "call", r) for r in rows if r["test"] in ("dispatch", "combine")]
    want += [(title, r["test"], 0, r["us"], "us") for title, r in moved]
    want += [(title, "the wire", 0, r["wire_us"], "us") for title, r in moved
             if r["test"] == "dispatch"]
    want += [(f"{r['bytes'] >> 10} KiB of each PE, products of {r['edge']} x {r['edge']} bf16: "
              "time of a call", r["kind"], 0, r["us"], "us") for r in rows if r["test"] == "copy"]
    want += [(f"sums of {r['bytes']} bytes of bf16: time of a call", r["kind"], 0, r["us"], "us")
             for r in rows if r["test"] == "wire"]
    assert want and moved, rows
    same(want, panels)
    rows, panels = plot("--coll-max", "64", "--time", 0.001, *small) # all groups
    rows = json.loads(rows)["rows"]
    assert {r["group"] for r in rows} == {"raw", "latency", "rate", "bandwidth", "amo", "sync",
                                          "memory", "signal", "coll"}, rows
    # A bandwidth or rate is called so, and a time says so; raw rows stand beside the rows that are
    # compared with them.
    beside = {"raw copy to": "bandwidth", "raw store": "latency", "raw lock xadd": "amo",
              "raw ping-pong": "sync"}
    where = {(name, title.split(":")[0]): title for title in panels for name in panels[title]}
    assert all(pair in where for pair in beside.items()), where
    assert {t for t in panels if "bandwidth" in t} == {"bandwidth: GB/s by size"}, panels
    sized = {r["test"] for r in rows if r["bytes"] > 8}
    want = []
    for r in rows:
        name = "raw " * (r["group"] == "raw") + r["test"]
        value, unit = ((r["mb_per_s"] / 1e3, "GB/s") if "mb_per_s" in r
                       else (r["mops_per_s"], "Mops/s") if "mops_per_s" in r
                       else (r["ns"], "ns"))
        what = ("time of a call" if unit == "ns" else unit) + " by size" * (r["test"] in sized)
        title = [t for (n, _), t in where.items() if n == name and t.endswith(f": {what}")]
        assert len(title) == 1, (r, title)
        want.append((title[0], name, r["bytes"] if r["test"] in sized else 0, value, unit))
    same(want, panels)
    # Ping-pongs of fibers take seconds.
    rows, panels = plot("--device", "--sizes", "1k:1k", "--repetitions", 1, n=1)
    points = sum(len(at) for panel in panels.values() for _, at, _ in panel.values())
    assert len(rows.splitlines()) == points > 11, (rows, panels)
    p = "--tests", "p", "--time", 0.001, "--plot"
    for file, status in (TMP / "no folder" / "f.svg", 2), ("/dev/full", 1):
        err = run(OSHRUN, "-n", 2, perf, *p, file, status=status)
        assert err.count(f"error: PE 0: --plot: cannot write '{file}': ") == 1, err
        assert err.count("--plot") == 1, err
    (TMP / "none").mkdir()
    (TMP / "none/matplotlib.py").write_text("raise ImportError")
    err = run(OSHRUN, "-n", 2, perf, *p, svg, status=2, PYTHONPATH=str(TMP / "none"))
    assert err.count("error: PE 0: --plot: no matplotlib here") == 1, err
    assert "Traceback" not in err, err


def drawn(tree):
    """{title of a panel: {name: (look, points, whether it is a bar)}}. A point of a line is where
    it is; one of a bar is its length. At most 8 lines a panel, each of another colour and dash, and
    with its name beside it; bars begin at the same place, and have their name and their value."""
    found = {}
    for g in tree.iter(SVG + "g"):
        if not g.get("id", "").startswith("panel "):
            continue
        texts = [t.text for t in g.iter(SVG + "text")]
        panel, left = {}, set()
        for e in g.iter(SVG + "g"):
            kind, _, name = e.get("id", "").partition(" ")
            if kind not in ("line", "bar"):
                continue
            path = e.find(SVG + "path")
            style = dict(w.strip().split(": ") for w in path.get("style").split(";") if w.strip())
            at = [tuple(map(float, xy)) for xy in re.findall(r"[ML] (\S+) (\S+)", path.get("d"))]
            if kind == "bar":
                left.add(min(x for x, _ in at))
                at = [max(x for x, _ in at) - min(x for x, _ in at)]
            assert name not in panel and texts.count(name) == 1, (name, texts)
            panel[name] = (style["stroke"], style.get("stroke-dasharray")), at, kind == "bar"
        title = [t for t in texts if ": " in (t or "")]
        assert len(title) == 1 and title[0] not in found and panel, (title, panel)
        looks = [look for look, _, bar in panel.values() if not bar]
        assert len(looks) <= 8 and all(len({look[k] for look in looks}) == len(looks)
                                       for k in (0, 1)), looks
        assert len(left) <= 1 and bool(left) != bool(looks), (title, left)
        found[title[0]] = panel
    return found


def same(rows, panels):
    """The rows (panel, name, bytes or 0 for a bar, value, unit) are what is drawn: the places of
    all points of a panel are on one scale with their values, to a tenth of a pixel."""
    assert {r[:2] for r in rows} == {(t, n) for t in panels for n in panels[t]}, (rows, panels)
    for title, panel in panels.items():
        sizes, values = [], []
        for name, (_, at, bar) in panel.items():
            of = [r for r in rows if r[:2] == (title, name)]
            assert len(of) == len(at) and all(bool(r[2]) != bar for r in of), (title, name, of, at)
            for r, place in zip(of, at):
                if bar:
                    values.append((r[3], place))
                else:
                    sizes.append((math.log2(r[2]), place[0]))
                    values.append((math.log(r[3]) if r[4] in ("ns", "us") else r[3], place[1]))
        if bar: # from 0 on
            values.append((0, 0))
        on_one_scale(sizes, 0, title)
        # A row has 4 digits at least: what is missing is much where all values are nearly the same.
        logs = not bar and any(r[0] == title and r[4] in ("ns", "us") for r in rows)
        on_one_scale(values, 1e-3 * (1 if logs else max(v for v, _ in values)), title)


def on_one_scale(pairs, rounding, title):
    if not pairs or min(pairs)[0] == max(pairs)[0]:
        return
    (a, x), (b, y) = min(pairs), max(pairs)
    for value, place in pairs:
        want = x + (value - a) / (b - a) * (y - x)
        assert abs(place - want) < 0.1 + rounding / (b - a) * abs(y - x), (title, pairs)


if __name__ == "__main__":
    main(globals())

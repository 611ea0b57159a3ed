# SPDX-License-Identifier: MIT
"""Traces that are written here. test/trace has one of a job."""
import importlib.util
import sys

import pytest
import shmem.trace

LINES = """[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"PE 1 on a, process 8"}},
{"ph":"M","pid":0,"name":"process_name","args":{"name":"PE 0 on a, process 7"}},
{"ph":"M","pid":0,"name":"process_sort_index","args":{"sort_index":0}},
{"ph":"X","pid":0,"tid":0,"ts":1000.000,"dur":50.000,"name":"shmem_init"},
{"ph":"X","pid":1,"tid":0,"ts":1010.000,"dur":50.500,"name":"shmem_init"},
{"ph":"X","pid":0,"tid":0,"ts":1070.250,"dur":2.000,"name":"shmem_putmem",\
"args":{"pe":1,"bytes":8}},
{"ph":"X","pid":1,"tid":0,"ts":1071.000,"dur":4.000,"name":"shmem_getmem",\
"args":{"pe":0,"bytes":9}},
{"ph":"i","pid":0,"tid":0,"ts":1073.000,"s":"t","name":"event 17"},
{"ph":"M","pid":0,"tid":1,"name":"thread_name","args":{"name":"stream 1"}},
{"ph":"X","pid":0,"tid":1,"ts":1072.000,"dur":9.000,"cat":"stream",\
"name":"shmemx_putmem_on_stream","args":{"pe":1,"bytes":8,"clock +- us":0.400}},
{"ph":"X","pid":1,"tid":2,"ts":1080.000,"dur":1.000,"cat":"kernel","name":"shmem_long_p",\
"args":{"pe":0,"bytes":8,"block":3,"wave":1,"clock +- us":0.500}},
{"ph":"i","pid":1,"tid":0,"ts":1081.000,"s":"p","name":"calls of kernels without room",\
"args":{"calls":5}},
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(LINES + '{"ph":"X","pid":0,"tid"') # cut off
    return path


def test_load(file):
    run = shmem.trace.load(file)
    assert list(run.pes) == [0, 1] and run.tracks == {(0, 1): "stream 1"} and run.lost == 5
    assert "2 PEs, 7 events, 81 us" in repr(run)
    assert [e.begin for e in run.events] == [0, 10, 70.25, 71, 72, 73, 80]
    assert run.events[2] == (0, 0, "host", "shmem_putmem", 70.25, 2, 1, 8, None, None, 0)
    assert [e.kind for e in run.events[4:]] == ["stream", "mark", "kernel"]
    assert run.events[-1] == (1, 2, "kernel", "shmem_long_p", 80, 1, 0, 8, 3, 1, 0.5)


def test_bad_input(file, tmp_path, monkeypatch):
    for text in '{"ph":"X","pid":0}\n', "[1]\n", "no\n", '{"ph":"Q","pid":0,"name":"x"}\n':
        (tmp_path / "bad").write_text("[\n" + text)
        with pytest.raises(shmem.Error, match="line 2: no event of a trace"):
            shmem.trace.load(tmp_path / "bad")
    with pytest.raises(shmem.Error, match="none: No such file"):
        shmem.trace.load(tmp_path / "none")
    run = shmem.trace.load(file)
    with pytest.raises(shmem.Error, match="expected routine or peer"):
        run.show(colour="name")
    for number in -1, 1 << 32, "x":
        with pytest.raises(shmem.Error, match="number = "):
            shmem.trace.event(number)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(shmem.Error, match="no matplotlib here"):
        run.show()


def test_untraced():
    """In a program that is not traced these do nothing."""
    shmem.trace.stop()
    shmem.trace.event(17)
    shmem.trace.start()


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="no matplotlib")
def test_picture(file, tmp_path, capsys):
    run = shmem.trace.load(file)
    picture = run.show()
    axes = picture.figure.axes[0]
    shown = {c.get_gid(): c for c in axes.collections}
    assert len(shown["calls"].get_paths()) == 4 # behind init
    # To the PE that gets the bytes: of the put, the get and the kernel's p.
    arrows = shown["arrows"]
    assert sorted(zip(arrows.Y, arrows.Y + arrows.V)) == [(0, 3), (0, 3), (4, 0)]
    assert axes.get_xlim()[0] == 60.5
    assert [t.get_text() for t in axes.get_yticklabels()] == ["thread 1", "stream 1", "thread 1",
                                                              "thread 3"]
    assert "5 calls of kernels had no room" in axes.get_title()
    names = [t.get_text() for t in axes.get_legend().get_texts()]
    assert names == ["shmemx_putmem_on_stream", "shmem_getmem", "shmem_putmem", "shmem_long_p"]
    assert picture._repr_png_()[:4] == run._repr_png_()[:4] == b"\x89PNG"
    part = run.show(begin=0, end=60, colour="peer", arrows=False).figure.axes[0]
    assert [c.get_gid() for c in part.collections] == ["calls"]
    assert len(part.collections[0].get_paths()) == 2
    assert [t.get_text() for t in part.get_legend().get_texts()] == ["no other PE"]
    for words in {"begin": 90, "end": 90}, {"begin": 82, "end": 99}:
        with pytest.raises(shmem.Error, match="no time between|no events from 82 to 99"):
            run.show(**words)
    assert shmem.trace._main([str(file), str(tmp_path / "p.svg"), "--end", "75"]) == 0
    assert "shmem_getmem" in (tmp_path / "p.svg").read_text()
    assert shmem.trace._main([str(file), str(tmp_path / "p.xyz")]) == 1
    assert "p.xyz" in capsys.readouterr().err

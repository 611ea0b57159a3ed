# SPDX-License-Identifier: MIT
"""Tests of how jobs end, and what is left of them: ends.py CASE, as launch.py."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from launch import ENV, OSHRUN, TMP, launcher_kind, main, one_line, run, script  # noqa: E402


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def case_left():
    """When oshrun returns, no process of a failed job is there, whatever it ignores, and one
    line says what happened."""
    for how, status in ("exit 3", 3), ("kill -9 $$", 137), ("kill -ABRT $$", 134):
        body = (
            f'trap "" TERM INT HUP; echo $$ >{TMP}/$PMIX_RANK; [ "$PMIX_RANK" = 1 ] || {{ sleep '
            f'60; sleep 60; }}\n'
                f"until [ -s {TMP}/0 ] && [ -s {TMP}/2 ]; do sleep 0.02; done; sleep 0.1; {how}")
        done = subprocess.run([OSHRUN, "-n", "3", "sh", "-c", body], env=ENV, text=True,
                              capture_output=True)
        pids = [(TMP / str(r)).read_text().strip() for r in range(3)]
        left = [p for p in pids if os.path.exists(f"/proc/{p}")]
        assert not left and done.returncode == status, (how, left, done)
        one_line(done.stderr, "PE 1 ", "status 3" if status == 3 else f"signal {status - 128} ")
        for r in range(3):
            (TMP / str(r)).unlink()
    # All that the launcher says, when it is asked for.
    said = run(OSHRUN, "-n", 2, "sh", "-c", "sleep 0.1; exit 3", status=3, SHMEM_DEBUG="1")
    assert "-----" in said and "oshrun:" not in said, said


def case_notices():
    """Launchers tell of a failure among what PEs write: that alone becomes our line, the rest comes
    through as it is."""
    rule = "-" * 74 + "\n"
    status = (
        "prterun detected that one or more processes exited with non-zero status,\nthus causing "
        "the job to be terminated. "
              "The first process to do so was:\n\n   Process name: [prterun-vm-{}@1,12]\n   Exit "
              "code:    5\n")
    signaled = ("prterun noticed that process rank 3 with PID 2020 on node vm exited on\nsignal 9 "
                "(Killed).\n")
    other = rule + "There are not enough slots available in the system\n" + rule
    table = "a table\n" + rule + "1 2 3\n" + rule + rule + "---- 4 -----\n\n" + rule
    for n, (block, line) in enumerate([
        # PRRTE 3, PRRTE 5
        (status, "PE 12 ended with status 5"), ("\n" + status, "PE 12 ended with status 5"),
        (signaled, "PE 3 was ended by signal 9 (Killed)"),
        ("\n" + signaled, "PE 3 was ended by signal 9 (Killed)"),
    ]):
        for text in ("", "text\n", table, other + table, "unfinished", table + "unfinished -- ",
                     rule[:40]):
            for cut in 0, 1, 30, 60, 100, 160: # written in two parts
                whole = text + rule + block + rule
                (TMP / "one").write_text(whole[:cut])
                (TMP / "two").write_text(whole[cut:])
                script(TMP / "bin" / "prterun",
                       f"cat {TMP}/one >&2; sleep 0.0{cut % 4}; cat {TMP}/two >&2; exit 5\n")
                if cut and n and text != table:
                    continue
                said = run(OSHRUN, "-n", 2, "true", status=5,
                           SHMEM_LAUNCHER=str(TMP / "bin" / "prterun"))
                assert said == text + "\n" * (text[-1:] not in ("", "\n")) + f"oshrun: {line}\n", (
                    text, block, cut, said)
    # Warnings of launchers where nothing is wrong.
    script(TMP / "bin" / "prterun",
           "cat >&2 <<'!'\nof a PE\n[hub:00037] plm:rsh: Warning: setpgid(42,42) failed in parent "
           "with "
           "errno=Permission denied(13)\n[warn] Epoll MOD(1) on fd 19 failed. Old events were 6; "
           "read change was 0 (none); write change "
           "was 2 (del); close change was 0 (none): Bad file descriptor\n[warn] of a PE\n!\nexit "
           "5\n")
    said = run(OSHRUN, "-n", 2, "true", status=5, SHMEM_LAUNCHER=str(TMP / "bin" / "prterun"))
    assert said == "of a PE\n[warn] of a PE\n", said
    # A daemon that crashes at its end, while a PE goes on writing. A PE's crash is shown.
    crash = ("[node2:50] *** Process received signal ***\n{}[node2:50] Signal: 11\n"
             "[node2:50] [ 0] {}(PMIx_server_finalize+0xa4c)[0x7f]\n"
             "[node2:50] *** End of error message ***\n{}")
    program = crash.replace("PMIx_server_finalize", "main")
    for before, text, shown in (
        ("[node2:50] PMIX ERROR: UNREACHABLE in file ptl_base.c at line 388\n",
         crash.format("of a PE\n", "libpmix.so.2", "Segmentation fault\nmore\n"),
         "of a PE\nmore\n"),
        ("", program.format("", "a.out", "Segmentation fault\n"), ""),
        ("", "[node2:50] *** Process received signal ***\n", "")):
        (TMP / "one").write_text(before + text)
        script(TMP / "bin" / "prterun", f"cat {TMP}/one >&2; exit 5\n")
        said = run(OSHRUN, "-n", 2, "true", status=5, SHMEM_LAUNCHER=str(TMP / "bin" / "prterun"))
        assert said == (shown or text), (text, said)
    # A rule that never becomes a notice comes before the end.
    script(TMP / "bin" / "prterun", f"printf '%s' '{rule}' >&2; sleep 60\n")
    job = subprocess.Popen([OSHRUN, "-n", "1", "true"],
                           env={**ENV, "SHMEM_LAUNCHER": str(TMP / "bin" / "prterun")},
                           stderr=subprocess.PIPE, text=True)
    assert job.stderr.readline() == rule
    # No process reads any more: the job goes on, and a signal still ends it.
    job.stderr.close()
    job.terminate()
    assert job.wait(20) != 0
    much = script(TMP / "bin" / "prterun",
                  "dd if=/dev/zero bs=1M count=4 2>/dev/null | tr '\\0' x >&2; echo "
                  f">{TMP}/through\n")
    job = subprocess.Popen([OSHRUN, "-n", "1", "true"], env={**ENV, "SHMEM_LAUNCHER": str(much)},
                           stderr=subprocess.PIPE)
    time.sleep(0.3)
    assert not (TMP / "through").exists() and job.poll() is None # a full pipe, not memory, holds it
    job.stderr.close()
    assert job.wait(20) == 0 and (TMP / "through").exists()


def case_killed():
    """kill -9 of oshrun ends the job too."""
    job = subprocess.Popen([OSHRUN, "-n", "2", "sh", "-c",
                            f"echo $$ >{TMP}/$PMIX_RANK; exec sleep 60"], env=ENV)
    ranks = [TMP / str(r) for r in range(2)]
    while not all(r.exists() and r.read_text().endswith("\n") for r in ranks):
        time.sleep(0.02)
    job.kill()
    job.wait()
    until = time.monotonic() + 10
    while any(alive(r.read_text().strip()) for r in ranks) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(alive(r.read_text().strip()) for r in ranks)


def case_why():
    """PEs go with their launcher, and one may see its neighbour go before it goes itself: its line
    is true then, and not why the job ends. Where the launcher does not end so, it is why; and so
    is every other line of a PE."""
    launcher = script(TMP / "bin" / "prterun",
                      f'[ ! -s {TMP}/word ] || cat {TMP}/word >"${{OSHRUN_WORD%% *}}"; eval "$(cat '
                      f'{TMP}/end)"\n')
    lost = "oshrun: the launcher was ended by signal 9 (Killed), and the job with it\n"
    died = "shmem: PE 0: PE 1 (process 7) has died\n"
    wrong = "shmem: PE 1: shmem_p: pe = 9: the program has PEs 0 to 1\n"
    for word, end, status, line in [
        ("", "kill -9 $$", 137, lost), (died, "kill -9 $$", 137, lost), (died, "exit 1", 1, died),
        (wrong, "kill -9 $$", 137, wrong),
        (wrong, "exit 1", 1, wrong),
    ]:
        (TMP / "word").write_text(word)
        (TMP / "end").write_text(end)
        said = run(OSHRUN, "-n", 2, "true", status=status, SHMEM_LAUNCHER=str(launcher))
        assert said == line, (word, end, said)


def case_session():
    """Nothing is left of a launcher that dies itself, and the status says so."""
    kind = launcher_kind()
    setting = ("OMPI_MCA_orte_tmpdir_base" if "orte" in kind
               else "PRTE_MCA_prte_tmpdir_base" if "prte" in kind else sys.exit(77))
    for name in ("TMPDIR", setting):
        base = TMP / name
        base.mkdir()
        file = base / "launcher"
        job = subprocess.Popen([OSHRUN, "-n", "1", "sh", "-c",
                                f"echo $PPID >{file}; exec sleep 60"], env={**ENV, name: str(base)},
                               stderr=subprocess.PIPE, text=True)
        while not (file.exists() and file.read_text().endswith("\n")):
            time.sleep(0.02)
        assert len(list(base.iterdir())) == 2, list(base.iterdir())
        os.kill(int(file.read_text()), signal.SIGKILL)
        assert job.wait(20) == 137 and list(base.iterdir()) == [file], (
            name, job.returncode, list(base.iterdir()))


def case_folder():
    """Other jobs of the user, which end all the time, do not take the launcher's folder away."""
    if "orte" not in launcher_kind():
        sys.exit(77)
    top = TMP / f"ompi.{socket.gethostname().split('.')[0]}.{os.geteuid()}"
    others = ("import os, sys\nwhile True:\n  for f in os.mkdir, os.rmdir:\n    try: "
              "f(sys.argv[1])\n    except OSError: pass\n")
    with subprocess.Popen([sys.executable, "-c", others, top]) as other:
        try:
            for _ in range(20):
                run(OSHRUN, "-n", 1, "true", TMPDIR=str(TMP))
        finally:
            other.kill()
    assert not top.exists() or not list(top.iterdir()), list(top.iterdir())


def case_children():
    """Processes that a shell had started before it became oshrun are not the job's."""
    got = run("sh", "-c",
              f'sleep 9 >/dev/null 2>&1 & echo $!; '
              f'exec "{OSHRUN}" -n 1 sh -c "sleep 0.2; exit 0"').split()
    assert alive(got[0])
    done = subprocess.run(["sh", "-c", 'sleep 9 >/dev/null 2>&1 & echo $!; '
                           f'exec "{OSHRUN}" -n 1 sh -c "exit 3"'], env=ENV, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert done.returncode == 3 and alive(done.stdout.split()[0])
    for pid in got[0], done.stdout.split()[0]:
        os.kill(int(pid), signal.SIGKILL)


def case_interrupt():
    for sig in signal.SIGINT, signal.SIGTERM:
        job = subprocess.Popen([OSHRUN, "-n", "4", "sh", "-c",
                                f"echo $$ >{TMP}/$PMIX_RANK; exec sleep 60"],
                               env=ENV, stderr=subprocess.DEVNULL)
        ranks = [TMP / str(r) for r in range(4)]
        while not all(r.exists() and r.read_text().endswith("\n") for r in ranks):
            assert job.poll() is None
            time.sleep(0.02)
        pids = [r.read_text().strip() for r in ranks]
        job.send_signal(sig)
        assert job.wait(15) != 0 # Open MPI 4 leaves the PEs a second to end, more if it starts yet
        until = time.monotonic() + 2
        while any(map(alive, pids)) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(map(alive, pids)), f"{sig}: PEs {pids} are left"
        for r in ranks:
            r.unlink()


if __name__ == "__main__":
    main(globals())

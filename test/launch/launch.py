# SPDX-License-Identifier: MIT
"""Tests of oshrun and the compiler wrappers: launch.py CASE, with OSHRUN, OSHCC, OSHCXX and BUILD
in the environment. Cases without 'program' in their name need no library, only a launcher."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

OSHRUN, BUILD, HERE = os.environ["OSHRUN"], os.environ["BUILD"], Path(__file__).parent
TMP = Path(tempfile.mkdtemp(prefix="launch-"))
# Meson sets LD_LIBRARY_PATH, which would hide a wrong rpath.
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith(("SHMEM_", "SMA_", "LD_LIBRARY_PATH"))}
if "SHMEM_LAUNCHER" in os.environ: # the launcher to test with
    ENV["SHMEM_LAUNCHER"] = os.environ["SHMEM_LAUNCHER"]


def run(*argv, status=0, **env):
    """Runs a command, checks its status (None: any but 0), returns its stdout, or else stderr."""
    done = subprocess.run([str(a) for a in argv], env={**ENV, **env}, text=True,
                          capture_output=True)
    good = done.returncode != 0 if status is None else done.returncode == status
    assert good, f"{argv}: status {done.returncode}, not {status}\n{done.stdout}{done.stderr}"
    return done.stdout if status == 0 else done.stderr


def script(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def fake(name="fake", says=""):
    """A launcher that prints its arguments, one a line."""
    return script(TMP / "bin" / name, f'[ "$1" = --version ] && echo "{says}" && exit\n'
                  "printf '%s\\n' ${0##*/} \"$@\"\n")


def one_line(text, *parts):
    assert text.count("\n") == 1 and text.startswith("oshrun: "), text
    assert all(p in text for p in parts), text


def case_status():
    run(OSHRUN, "-n", 3, "sh", "-c", '[ "$PMIX_RANK" = 1 ] && exit 7; sleep 0.1', status=7)


def case_signal():
    run(OSHRUN, "-n", 3, "sh", "-c", '[ "$PMIX_RANK" = 1 ] && kill -SEGV $$; sleep 0.1',
        status=None)


def case_count():
    for option in "-n", "-np", "--np":
        assert run(OSHRUN, option, 3, "echo", "x").split() == ["x"] * 3


def case_pass_through():
    argv = ["--new-option", "-n", "2", "--map-by", "x", "--", "prog", "-n", "0", "a  b", "", "*",
            "-h"]
    got = run(OSHRUN, *argv, SHMEM_LAUNCHER=str(fake())).split("\n")[1:-1]
    assert got == argv, got
    got = run(OSHRUN, "-np", 2, "prog", SHMEM_LAUNCHER=f"{fake()} --mca a b").split("\n")[1:-1]
    assert got == ["--mca", "a", "b", "-n", "2", "prog"], got


def case_info():
    assert "usage: oshrun" in run(OSHRUN, "--help") and run(OSHRUN, "-h") == run(OSHRUN, "--help")
    assert run(OSHRUN, "--version").startswith("oshrun (libshmem) ")


def case_usage_errors():
    for n in "0", "00", "-3", "x", "", "2x":
        one_line(run(OSHRUN, "-n", n, "true", status=2), f"'{n}'")
    one_line(run(OSHRUN, "--bind-to", "core", "-n", 0, "true", status=2), "'0'")
    one_line(run(OSHRUN, "-n", status=2), "-n")
    for argv in [], ["-n", 2], ["--mca", "a", "b"], ["--"]:
        one_line(run(OSHRUN, *argv, status=2), "no program")


def case_launcher_choice():
    empty = {"PATH": str(TMP / "bin")}
    ENV.pop("SHMEM_LAUNCHER", None)
    one_line(run(OSHRUN, "true", status=127, PATH="/nonexistent"), "install", "openmpi-bin")
    one_line(run(OSHRUN, "true", status=127, SHMEM_LAUNCHER="absent --x"), "'absent'", "install")
    fake("prog") # is there, or else that would be the mistake
    fake("mpirun", "HYDRA build details:")
    one_line(run(OSHRUN, "true", status=127, **empty), "mpirun", "Hydra")
    one_line(run(OSHRUN, "true", status=127, SHMEM_LAUNCHER="mpirun", **empty), "mpirun", "Hydra")
    fake("srun")
    first = lambda **env: run(OSHRUN, "prog", **empty, **env).split()
    assert first()[0] == "srun"
    fake("mpirun", "mpirun (Open MPI) 4.1.4")
    assert first()[0] == "mpirun"
    fake("mpirun", "mpirun (Open MPI) 5.0.7")
    assert first()[0] == "mpirun"
    fake("prterun")
    got = first(SHMEM_X="1")
    # the options; after them a PE's start, which is of inherit.cpp
    options_of = lambda words: words[:words.index("/bin/sh")] + words[-1:]
    state = ["-x", "OSHRUN_STATE"]
    got = options_of(got)
    assert got[:7] == ["prterun", "-x", "SHMEM_X", *state, "--map-by",
                       "slot:OVERSUBSCRIBE"] and got[7] == "--bind-to" and got[9:] == ["prog"], got
    # Given twice they would be an error
    for options in ["--map-by", "core", "--bind-to", "core"], ["-N", "2", "--bind-to", "none"]:
        assert options_of(run(OSHRUN, *options, "prog",
                              **empty).split()) == ["prterun", *state, *options, "prog"]
    for policies in (("PRTE_MCA_mapby", "PRTE_MCA_bindto"),
                     ("PRTE_MCA_rmaps_default_mapping_policy",
                      "PRTE_MCA_hwloc_default_binding_policy")):
        assert options_of(first(**dict.fromkeys(policies,
                                                "core"))) == ["prterun", *state, "prog"]
    # Where an option is not known, the program may be its value, and is started as it is.
    assert run(OSHRUN, "--new-option", "prog", **empty).split()[-2:] == ["--new-option", "prog"]
    assert first(SHMEM_LAUNCHER="srun") == ["srun", "prog"]
    assert run(OSHRUN, "--stdin", 0, "prog", SHMEM_LAUNCHER="srun",
               **empty).split() == ["srun", "--input=0", "prog"]


def case_which():
    """It prints the command that it would run."""
    assert Path(run(OSHRUN, "--which").split()[0]).is_absolute()
    for launcher in str(fake()), f"{fake()} --mca a b":
        assert run(OSHRUN, "--which", SHMEM_LAUNCHER=launcher) == launcher + "\n"
    one_line(run(OSHRUN, "--which", status=127, SHMEM_LAUNCHER="absent"), "'absent'")


def case_shmem_info():
    info = f"{BUILD}/tools/shmem_info"
    assert "usage: shmem_info" in run(info, "--help")
    version = run(info, "--version").split()[-1]
    facts = json.loads(run(info, "--json"))
    assert facts["library"]["version"] == version and version in run(info)
    assert facts["launcher"]["command"] + "\n" == run(OSHRUN, "--which")
    memory = facts["memory"]
    assert 0 < memory["symmetric_size_at_most"] * memory["pes_one_a_thread"] <= memory["usable"]
    exe = TMP / "hello"
    run(f"{BUILD}/tools/oshcc", '-DWORDS="x"', HERE / "hello.c", "-o", exe)
    # A bad value is marked in both forms with the line that a program ends with.
    bad = {"SHMEM_SYMMETRIC_SIZE": "1x", "SHMEM_HEAP": "hot", "SHMEM_P2P": "2",
           "SHMEM_CHECK": "\udcff\"\n"}
    for name, value in bad.items():
        env = {name: value, "SHMEM_LAUNCHER": "absent"}
        done = subprocess.run([info, "--json"], env={**ENV, **env}, capture_output=True)
        assert done.returncode == 1 and "absent" in json.loads(done.stdout)["launcher"]["error"]
        rows = {row["name"]: row for row in json.loads(done.stdout)["environment"]}
        assert [n for n, row in rows.items() if "error" in row] == [name] and rows[name]["set"]
        if value.isascii():
            assert rows[name]["value"] == value
            assert f"    error: {rows[name]['error']}\n" in subprocess.run(
                [info], env={**ENV, **env}, text=True,
                                                                         capture_output=True).stdout
            assert rows[name]["error"] in run(exe, status=1, **env)
    for argv in ["-x"], ["--json", "more"]:
        text = run(info, *argv, status=2)
        assert text.count("\n") == 1 and f"'{argv[-1]}'" in text, text


def case_devices():
    info, seen = f"{BUILD}/tools/shmem_info", {"SHMEM_CPU_DEVICES": "3", "SHMEM_CPU_NO_PEER": "0-2"}
    gpus = json.loads(run(info, "--json", **seen))["gpus"]
    assert gpus["visible"] == 3 and [d["device"] for d in gpus["devices"]] == [0, 1, 2]
    for d in gpus["devices"]:
        assert d["memory"] >= d["memory_free"] > 0 and d["wave_size"] == 64 and d[
            "compute_units"] > 0
        links = {link["device"]: link for link in d["links"]}
        assert sorted(links) == [i for i in range(3) if i != d["device"]]
        for peer, link in links.items():
            apart = {peer, d["device"]} == {0, 2}
            assert link["peer_access"] != apart and (link["type"], link["hops"]) == (
                ("PCIe", 2) if apart else ("xGMI", 1))
    assert run(info, **seen).count("NO PEER ACCESS") == 2
    assert json.loads(run(info, "--json", SHMEM_CPU_DEVICES="0"))["gpus"]["devices"] == []


def case_doctor():
    def doctor(status, **env):
        done = subprocess.run([info, "doctor"], env={**ENV, **env}, text=True, capture_output=True)
        assert done.returncode == status and not done.stderr, done
        return done.stdout

    info = f"{BUILD}/tools/shmem_info"
    text = doctor(0, SHMEM_CPU_DEVICES="2")
    assert "FAIL" not in text and text.endswith("all is well\n"), text
    for line in ("GPU 1: another process maps its memory for GPU 0",
                 "a job of two PEs: starts, puts, meets and ends",
                 "unique id: two processes without a launcher become a job",
                 "buffers: memory of the program's own becomes symmetric",
                 "SHMEM_HEAP_GROW: both heaps grow",
                 "SHMEM_TRACE: a job of two PEs writes a trace"):
        assert f"ok    {line}\n" in text, (line, text)
    text = doctor(1, SHMEM_CPU_DEVICES="2", SHMEM_CPU_NO_PEER="0-1")
    assert "FAIL  GPU 0 does not reach the memory of GPU 1\n" in text, text
    assert "cannot be mapped" in text, text
    text = doctor(1, SHMEM_LAUNCHER="absent", SHMEM_SYMETRIC_SIZE="1m", SHMEM_CHECK="2")
    for said in "FAIL  launcher: ", "is SHMEM_SYMMETRIC_SIZE meant?", "FAIL  a job":
        assert said in text, text
    assert 'SHMEM_CHECK = "2"' in text and "buffers" not in text, text
    # The second one that each PE makes: a chunk that comes later.
    text = doctor(0, SHMEM_CPU_FAIL="hipMemCreate:2:hipErrorOutOfMemory")
    assert "SHMEM_HEAP_GROW: the heap grows, that of a GPU does not" in text, text
    for most, told in ("4096t", True), ("1m", False):
        text = doctor(0, SHMEM_CPU_DEVICES="2", SHMEM_HEAP_GROW="1", SHMEM_SYMMETRIC_MAX=most)
        assert ("SHMEM_SYMMETRIC_MAX is" in text) == told, text
    # How a program would start, by what is in the environment.
    assert "ok    start: oshrun starts a job; " in text, text
    text = doctor(0, RANK="1", WORLD_SIZE="4", SHMEM_CPU_DEVICES="0")
    assert "warn  start: a program is PE 0 of 1: " in text and "WORLD_SIZE = 4" in text, text
    text = doctor(0, PMI_RANK="1", PMI_SIZE="4", SHMEM_CPU_DEVICES="0")
    assert "PMI_RANK and PMI_SIZE = 4" in text and "srun --mpi=pmix" in text, text
    text = doctor(1, SHMEM_BOOTSTRAP_INTERFACE="nosuch0", SHMEM_CPU_DEVICES="0")
    assert "FAIL  unique id: " in text and "no interface of this name" in text, text
    assert "ok    a job" in text, text
    text = doctor(0, SHMEM_CPU_DEVICES="0")
    assert "warn  GPUs: none" in text and "FAIL" not in text, text
    # The memory of a GPU that another process may not open.
    text = doctor(1, SHMEM_CPU_FAIL="hipIpcOpenMemHandle:1:hipErrorInvalidValue")
    assert "FAIL  GPU 0: another process" in text, text
    text = doctor(1, SHMEM_CPU_FAIL="hipIpcGetMemHandle:1:hipErrorInvalidValue")
    for said in ("FAIL  GPU 0: hipIpcGetMemHandle: ", "does not export GPU memory",
                 "ok    a job"):
        assert said in text, text
    if "network: not built in" not in text: # as a PE would be told, by what UCX refuses here too
        assert "ok    network: UCX 1." in text, text
        text = doctor(1, UCX_TLS="rc")
        for said in "FAIL  network: UCX 1.", "no transport", "UCX_TLS=rc":
            assert said in text, text
        text = doctor(0, UCX_NET_DEVICES="lo")
        assert "warn  network: PEs listen on lo alone" in text, text
        facts = json.loads(run(info, "--json", UCX_TLS="tcp,self"))["network"]
        assert facts["transports_allowed"] == "tcp,self" and facts[
            "address_bytes"] > 0 and "error" not in facts, facts
        assert "no transport" in json.loads(run(info, "--json", UCX_TLS="rc"))["network"]["error"]
    assert "'x'" in run(info, "doctor", "x", status=2)


def case_missing():
    """One line and the shell's status, where mpirun has ten lines and 134; its lines about its
    own options stay."""
    folder, text = TMP / "folder", TMP / "text"
    folder.mkdir()
    text.write_text("not a program")
    for word in "absent-program", "./absent", str(TMP / "absent"):
        for options in ["-n", 2], ["--oversubscribe", "-n", 1, "--"]:
            one_line(run(OSHRUN, *options, word, "-n", "x", status=127), f"'{word}'")
    one_line(run(OSHRUN, "-n", 2, text, status=126), f"'{text}'", "not executable")
    one_line(run(OSHRUN, "-n", 2, folder, status=126), f"'{folder}'", "folder")
    run(OSHRUN, "-n", 1, "--wdir", folder, "sh", "-c", "true")
    # A word after an option that oshrun does not know may be its value.
    assert "absent" in run(OSHRUN, "-n", 1, "--wdir", folder, "absent", status=None)
    if "orte" in launcher_kind():
        assert "not recognized" in run(OSHRUN, "-n", 2, "--map-by", "nonsense", "true", status=None)


def launcher_kind():
    path = os.path.realpath(run(OSHRUN, "--which").split()[0])
    return Path(path).name.replace("orterun", "orte")


def case_stdin():
    """A loop around oshrun keeps its lines; --stdin gives them to a PE."""
    lines = "a\nb\nc\n"
    loop = 'while read -r line; do "$OSHRUN" -n 2 sh -c "cat; echo got $line"; done'
    done = subprocess.run(["sh", "-c", loop], input=lines, text=True, capture_output=True,
                          env={**ENV, "OSHRUN": OSHRUN})
    assert sorted(done.stdout.split("\n")[:-1]) == sorted(f"got {x}" for x in "aabbcc"), done
    for option in "--stdin", "-stdin":
        done = subprocess.run([OSHRUN, option, "1", "-n", "2", "sh", "-c", "sed s/^/$PMIX_RANK/"],
                              input=lines, text=True,
                              capture_output=True, env=ENV)
        assert done.stdout == "1a\n1b\n1c\n", done
    one_line(run(OSHRUN, "--stdin", status=2), "--stdin")


def case_binding():
    """One core a PE when they fit and nothing says that the program has threads, unless the user
    chooses."""
    cores = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text() if siblings.exists() else cpu, cpu)
    if len(cores) < 2 or "sanitize=thread" in run(f"{BUILD}/tools/oshcc", "--showme:link"):
        sys.exit(77) # TSan has a thread
    two = set(list(cores.values())[:2])
    os.sched_setaffinity(0, two) # so that three PEs are too many
    exe, openmp = TMP / "cores", TMP / "openmp"
    run(f"{BUILD}/tools/oshcc", HERE / "cores.c", "-o", exe)
    run(f"{BUILD}/tools/oshcc", "-DLIKE_OPENMP", "-rdynamic", HERE / "cores.c", "-o", openmp)

    def masks(n, *argv, options=(), **env):
        lines = run(OSHRUN, *options, "-n", n, *argv, **env).splitlines()
        assert sum(line.startswith("after:") for line in lines) == n, lines
        after = [set(map(int, line.split()[1:])) for line in lines if line.startswith("after:")]
        return [set(map(int, line.split()[1:])) for line in sorted(lines)
                if not line.startswith("after:")], after

    for argv in [exe], [exe, 0]:
        bound, after = masks(2, *argv)
        assert all(len(m) == 1 for m in bound) and bound[0] | bound[1] == two, bound
        assert after == [two] * 2, after
    policy = ("PRTE_MCA_hwloc_default_binding_policy" if "prte" in launcher_kind()
              else "OMPI_MCA_hwloc_base_binding_policy")
    for n, argv, options, env in (
        (3, [exe], [], {}), (1, [exe], [], {}), # too many; none to poll with
        (2, [exe], [], {"OMP_NUM_THREADS": "2"}), (2, [openmp], [], {}),
        (2, [exe, 0, "thread"], [], {}),
        (2, [exe, 1], [], {}), (2, [exe, 3], [], {}), # SHMEM_THREAD_FUNNELED and _MULTIPLE
        (2, [exe], ["--bind-to", "none"], {}), (2, [exe], [], {policy: "none"}),
    ):
        free, _ = masks(n, *argv, options=options, **env)
        assert free == [two] * n, (argv, options, env, free)
    # Of one around it
    for env in {"OSHRUN_BIND": "core"}, {
        "SHMEM_LAUNCHER": run(OSHRUN, "--which").strip() + " --bind-to none"}:
        options = ["--bind-to", "none"] if "OSHRUN_BIND" in env else []
        free, _ = masks(2, exe, options=options, **env)
        assert free == [two] * 2, (env, free)
    if "cpu" in run(f"{BUILD}/tools/oshcc", "--showme:compile"):
        run(f"{BUILD}/tools/oshc++", HERE / "cores.hip", "-o", exe)
        assert run(OSHRUN, "-n", 2, exe) == "1 cores, kernels 2\n" * 2


def case_mpicc():
    """As the compiler of another wrapper, oshcc finds its own shmem.h before Open MPI's."""
    if not shutil.which("mpicc") or not Path("/usr/bin/mpicc.openmpi").exists():
        sys.exit(77)
    (TMP / "x.c").write_text(
        '#include <shmem.h>\n#include <mpi.h>\n#ifndef SHMEM_MAJOR_VERSION\n#error\n#endif\n'
                             '#include <stdio.h>\nint main(void) { puts(SHMEM_VENDOR_STRING); }\n')
    run("mpicc", TMP / "x.c", "-o", TMP / "x", OMPI_CC=f"{BUILD}/tools/oshcc")
    assert run(TMP / "x").startswith("libshmem")


def case_mpi():
    """A source that uses MPI as well, where mpicc is, in C, C++ and with a kernel."""
    if not shutil.which("mpicc"):
        sys.exit(77)
    for name in "x.c", "x.cpp", "x.hip":
        (TMP / name).write_text('#include <shmem.h>\n#include <mpi.h>\n#include <stdio.h>\n'
                                'int main(void) { int v; MPI_Get_version(&v, &v); '
                                'puts(SHMEM_VENDOR_STRING); }\n')
        cc = "oshcc" if name == "x.c" else "oshc++"
        run(f"{BUILD}/tools/{cc}", TMP / name, "-o", TMP / "x")
        assert run(TMP / "x").startswith("libshmem")


def case_oversubscribe():
    n = 2 * os.cpu_count() + 1
    assert run(OSHRUN, "-n", n, "echo", "x").split() == ["x"] * n


def case_spaces():
    assert run(OSHRUN, "-n", 1, "printf", "<%s>", "a  b", "", "*") == "<a  b><><*>"


def case_environment():
    got = run(OSHRUN, "-n", 2, "sh", "-c", "echo $SHMEM_A$SMA_B", SHMEM_A="1",
              SMA_B="x\nexport y=1")
    assert got.split("\n")[0].startswith("1x"), got


# In one line, as Open MPI has the arguments of a PE in a variable.
STATE = ("env | grep -vE '^(OMPI|PMIX|PRTE|PRRTE|OSHRUN|HFI|IPATH|_=|SHLVL|OLDPWD)' | sort; "
         "pwd; umask; ulimit -a; grep -E 'Sig(Ign|Blk)' /proc/self/status")


def case_inherited():
    """A PE inherits the state of a program that is started without oshrun, signals too."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR2, signal.SIGALRM])
    launcher = Path(run(OSHRUN, "--which").split()[0])
    (TMP / "venv").mkdir()
    script(TMP / "venv" / "sh", 'exec /bin/sh "$@"\n')
    for way in "", str(launcher):
        outer = ('umask 027; ulimit -n 700; ulimit -c 0; cd "$1"; shift; '
                 'PATH=$PWD:$PATH; LD_LIBRARY_PATH=$PWD; export PATH LD_LIBRARY_PATH; exec "$@"')
        here = ["sh", "-c", outer, "sh", TMP / "venv"]
        env = {"SHMEM_LAUNCHER": way} if way else {}
        alone = run(*here, "sh", "-c", STATE, **env)
        got = run(*here, OSHRUN, "-n", 1, "sh", "-c", STATE, **env)
        assert got == alone, set(got.splitlines()) ^ set(alone.splitlines())
    # A variable that a library in the launcher sets, as pocl does by way of hwloc, is not a PE's.
    if "orte" in launcher_kind():
        liar = script(TMP / "liar", f'HELD=no exec {launcher} "$@"\n')
        got = run(OSHRUN, "-n", 1, "sh", "-c", "echo $HELD", SHMEM_LAUNCHER=str(liar), HELD="yes")
        assert got == "yes\n", got
    # A variable that an option of the launcher sets is not the caller's.
    got = run(OSHRUN, "-n", 1, "-x", "HELD=option", "sh", "-c", "echo $HELD $LOST", HELD="caller",
              LOST="a b,%2C")
    assert got == "option a b,%2C\n", got
    # A link to the launcher in a folder that PATH does not have.
    if "orte" in launcher_kind():
        (TMP / "own").mkdir()
        (TMP / "own" / "orterun").symlink_to(launcher)
        (TMP / "own" / "orted").symlink_to(shutil.which("orted"))
        path = run(OSHRUN, "-n", 1, "sh", "-c", "echo $PATH", SHMEM_LAUNCHER=f"{TMP}/own/orterun")
        assert path == ENV["PATH"] + "\n", path
    for ignored in "CHLD", "PIPE", "TERM":
        command = f'trap "" {ignored}; exec "$0" -n 2 echo x'
        assert run("sh", "-c", command, OSHRUN).split() == ["x"] * 2


def case_no_ssh():
    """A launcher that finds no ssh on a machine of one node must do without."""
    for d in reversed(ENV["PATH"].split(":")):
        for f in Path(d).glob("*") if Path(d).is_dir() else ():
            if f.name in ("sh", "true", "mpirun", "orterun", "prterun", "prte", "prted", "orted",
                          "false"):
                link = TMP / "bin" / f.name
                link.parent.mkdir(exist_ok=True)
                link.unlink(missing_ok=True)
                link.symlink_to(f)
    run(OSHRUN, "-n", 2, "true", PATH=str(TMP / "bin"))


def wrappers(where):
    return [(f"{where}/oshcc", HERE / "hello.c"), (f"{where}/oshc++", HERE / "hello.cpp")]


def case_showme():
    for cc, source in wrappers(f"{BUILD}/tools"):
        compile, link = run(cc, "--showme:compile").strip(), run(cc, "--showme:link").strip()
        assert "-I" in compile and "-lshmem" not in compile
        assert "-L" in link and "-rpath" in link and link.endswith("-lshmem")
        assert run(cc, "--showme:version").startswith(Path(cc).name)
        command = run(cc, "--showme:command").strip()
        assert run(cc, "--showme", "a b.c", "-c") == f"{command} {compile} 'a b.c' -c\n"
        assert run(cc, "x.c", "-O2", "--showme").endswith("-lshmem\n")
        assert run(cc, "--showme").split()[0] == command.split()[0]
        assert "a.out" not in run(cc, "--showme", "-E",
                                  "x.c") and "-lshmem" not in run(cc, "--showme", "-M", "x.c")
        one = "SHMEM_CC" if cc.endswith("oshcc") else "SHMEM_CXX"
        assert run(cc, "--showme:command", **{one: "other -m64"}) == "other -m64\n"
        assert run(cc, "a  b", **{one: str(fake("cc"))}).split("\n").count("a  b") == 1
        assert run(cc, "--help").startswith(f"usage: {Path(cc).name} ")
        run(cc, "-v")
        run(cc, status=None)
        run(cc, "--showme:nothing", status=2)


def programs(where, oshrun):
    for cc, source in wrappers(where):
        exe = TMP / "a program"
        run(cc, "-O1", '-DWORDS="two  words"', "-c", source, "-o", f"{exe}.o")
        run(cc, f"{exe}.o", "-o", exe)
        run(cc, '-DWORDS="two  words"', source, "-o", exe)
        got = run(oshrun, "-n", 3, exe)
        assert sorted(got.split("\n")[:-1]) == [f"{r} of 3: two  words" for r in range(3)], got
        run(oshrun, "-n", 3, exe, "exit", status=5)


def kernels(where):
    """HIP sources, alone and with others, in one command and in two."""
    cc, cxx, exe = f"{where}/oshcc", f"{where}/oshc++", TMP / "a kernel"
    words = ["-O2", "-g", "-Wall", "-Werror", '-DWORDS="two  words"']
    kernel, main = HERE / "kernel.hip", HERE / "kernel_main.c"
    source = TMP / "a copy.cu"
    source.write_text(kernel.read_text())
    other = TMP / "other.cpp"
    other.write_text(kernel.read_text())
    for build in (
        [[cxx, *words, "-x", "hip", other, "-o", exe]],
        [[cc, "-xc", main, "-xhip", other, "-O1", "-o", exe]],
        [[cxx, *words, kernel, "-o", exe]],
        [[cxx, *words, "-c", source, "-o", f"{exe}.o"], [cxx, f"{exe}.o", "-o", exe]],
        [[cc, "-std=c11", "-O1", main, kernel, "-o", exe]],
        [[cc, "-c", main, "-o", f"{exe}.1.o"], [cxx, "-c", kernel, "-o", f"{exe}.2.o"],
         [cxx, f"{exe}.1.o", f"{exe}.2.o", "-o", exe]],
    ):
        for command in build:
            run(*command)
        got = run(exe).strip()
        assert got.split(": ")[0] in ("0", "1") and got.split(": ")[1] in (
            "two  words", "mixed"), got
        exe.unlink()
    # The commands that --showme prints do the same, step by step.
    steps = run(cxx, *words, kernel, "-o", exe, "--showme").splitlines()
    assert len(steps) == 2 and "-lshmem" not in steps[0] and steps[1].endswith("-lshmem"), steps
    subprocess.run(["sh", "-ec", "\n".join(steps)], check=True, cwd=TMP, env=ENV)
    assert run(exe).strip().endswith("two  words")
    run(cxx, HERE / "absent.hip", "-o", exe, status=None)
    assert "op.hpp" in run(cxx, "-M", kernel) and not list(TMP.glob("tmp*"))


def case_kernels():
    ENV["TMPDIR"] = str(TMP)
    kernels(f"{BUILD}/tools")


def case_program():
    programs(f"{BUILD}/tools", OSHRUN)


def main(cases):
    try:
        cases["case_" + sys.argv[1]]()
    finally:
        subprocess.run(["rm", "-rf", TMP])


if __name__ == "__main__":
    main(globals())

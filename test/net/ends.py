#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How jobs on several nodes end, and what a stranger can do to one. Usage: ends.py NODES OSHRUN
FAR"""
import os
import signal
import subprocess
import sys
import time

nodes, oshrun, far = sys.argv[1:]
os.environ.update(NODES_SLOTS="2", SHMEM_SYMMETRIC_SIZE="16M",
                  OMPI_MCA_rmaps_base_oversubscribe="1")


def job(*words, setting=(), **more):
    return subprocess.Popen([nodes, "2", *setting, oshrun, "-n", "4", far, *words],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **more)


def end(what, process, status, seconds, text=""):
    start = time.monotonic()
    out, err = process.communicate(timeout=60)
    took = time.monotonic() - start
    lines = [line for line in err.splitlines() if line != "up"]
    if not status(process.returncode) or took > seconds or text not in out + err or len(lines) > 1:
        sys.exit(
            f"{what}: status {process.returncode} after {took:.1f} s, wanted '{text}' and at most "
            f"one line:\n{out}{err}")


def processes():
    # Of this test, whose programs no other job runs.
    return subprocess.run(["pgrep", "-f", f"^{far} sleep"], stdout=subprocess.PIPE).stdout


first = job("exit", "7")
out, err = first.communicate(timeout=60)
if first.returncode == 77:
    print(err, end="")
    sys.exit(77)
if first.returncode != 7:
    sys.exit(f"exit 7: status {first.returncode}\n{out}{err}")
end("exit 0", job("exit", "0"), lambda s: s == 0, 8)
for _ in range(3): # with one line, by the PE's node or by oshrun
    process = job("die")
    end("killed", process, lambda s: s not in (0, 77), 5, "signal 9")
end("computes", job("busy"), lambda s: s == 0, 10, "in time")
# Or messages would fill the others' memory.
end("is called early", job("ahead"), lambda s: s == 0, 10, "not ahead")

end("ends before shmem_init", job("early"), lambda s: s not in (0, 77), 8, "PE 3")
os.environ["SHMEM_NET_TIMEOUT"] = "1"
end("late", job("late"), lambda s: s == 0, 10, "has waited for 1 seconds")
del os.environ["SHMEM_NET_TIMEOUT"]

# All that is left when the nodes are killed goes with them.
process = job("sleep")
while "up" not in process.stderr.readline():
    pass
process.send_signal(signal.SIGKILL)
process.wait()
for _ in range(50):
    if not processes():
        break
    time.sleep(0.1)
else:
    sys.exit("processes are left after the nodes were killed")

# A job on its way, each of whose PEs has said that it is up: a machine may need seconds for
# shmem_init.
begin = r"""
said=$(mktemp)
trap 'cat "$said" >&2; rm "$said"' EXIT
"$0" -n 4 "$1" "$2" 2>"$said" & job=$!
until [ "$(grep -c up "$said")" -eq 4 ]; do kill -0 $job || break; sleep 0.1; done
"""
# A node's launcher dies, or the job's, or oshrun itself: all PEs go within seconds, of every
# node, and the daemons too.
shot = begin + r"""
case $3 in
daemon) victim=$(pgrep -f "^[^ ]*(orted|prted) .*ess_base_vpid 2 ") ;;
launcher) victim=$(pgrep -P $job) ;;
*) victim=$job ;;
esac
date +%s.%N; kill -9 $victim
wait $job; status=$?
for i in $(seq 1000); do
  pgrep -f "^($1 sleep|[^ ]*(orted|prted|mpirun|prterun))" >/dev/null || break
  sleep 0.01
done
date +%s.%N; pgrep -af "^($1 sleep|[^ ]*(orted|prted|mpirun|prterun))"
exit $status
"""
for who, line in ("daemon", "oshrun: the launcher has lost its daemon on node2"), (
    "launcher", "oshrun: the launcher was ended by signal 9"), (
        "oshrun", ""):
    done = subprocess.run([nodes, "2", "sh", "-c", shot, oshrun, far, "sleep", who],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [l for l in done.stderr.splitlines() if l not in ("up", "Killed", "")]
    # No oshrun is left to choose among the PEs' lines: one may see its neighbour go before it goes
    # itself
    if who == "oshrun":
        lines = [l for l in lines if "has died without shmem_finalize" not in l]
    times, left = done.stdout.splitlines()[:2], done.stdout.splitlines()[2:]
    if done.returncode in (0, 77) or left or float(times[1]) - float(times[0]) > 5 or (
            not lines or line not in lines[-1] or len(lines) > 1 if line else lines):
        sys.exit(
            f"killed {who}: status {done.returncode}, wanted '{line}' within 5 s and nothing "
            f"left:\n{done.stdout}{done.stderr}")

# A link is gone for two seconds, which is no fault, and for good: then all PEs end, whatever
# becomes of the launcher.
cut = begin + r"""
ip link set veth2.0 down
pkill -USR1 -f "^$1 apart"
echo cut
[ "$2" = sleep ] || { sleep 2; ip link set veth2.0 up; }
wait $job
"""


def cut_job(what):
    return subprocess.Popen([nodes, "2", "sh", "-c", cut, oshrun, far, what],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


for what, word in ("talk", "talked"), ("apart", "\napart"):
    out, err = (process := cut_job(what)).communicate(timeout=60)
    if process.returncode or word not in out:
        sys.exit(f"link down for 2 s, {what}: status {process.returncode}:\n{out}{err}")
os.environ["SHMEM_NET_TIMEOUT"] = "4"
process = cut_job("sleep")
while "cut" not in process.stdout.readline():
    pass
start = time.monotonic()
while processes() and time.monotonic() - start < 12:
    time.sleep(0.1)
took = time.monotonic() - start
if took < 2 or took > 10:
    sys.exit(f"link down for good: all PEs ended after {took:.1f} s, SHMEM_NET_TIMEOUT=4")
end("link down for good", process, lambda s: s == 1, 15, "no answer for 4 seconds")
del os.environ["SHMEM_NET_TIMEOUT"]

# A stranger on one of the nodes connects to all that listens, and sends garbage.
# Not the launcher's, which is another program.
stranger = r"""
import glob, os, socket
ours = set()
for fd in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        if os.readlink(fd.rsplit("/", 2)[0] + "/exe").endswith("/far"):
            ours.add(os.readlink(fd))
    except OSError:
        pass
for line in open("/proc/net/tcp").readlines()[1:]:
    words = line.split()
    if words[3] != "0A" or f"socket:[{words[9]}]" not in ours:
        continue
    address, port = words[1].split(":")
    for n in (1, 8, 64, 4096, 65536):
        host = socket.inet_ntoa(bytes.fromhex(address)[::-1])
        s = socket.create_connection((host, int(port, 16)))
        s.settimeout(0.2)
        try:
            s.sendall(os.urandom(n))
            s.recv(100)
        except OSError:
            pass
        s.close()
    print("tried", address, port)
"""
shell = r"""
"$0" -n 4 "$1" talk & job=$!
sleep 1
ports=$(nsenter -t "$(cat "$NODES_FOLDER/node2")" -n -u python3 -c "$2")
wait $job; status=$?
echo "$ports"; exit $status
"""
process = subprocess.Popen([nodes, "2", "sh", "-c", shell, oshrun, far, stranger],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
out, err = process.communicate(timeout=60)
if process.returncode or "talked" not in out or "tried" not in out:
    sys.exit(f"stranger: status {process.returncode}:\n{out}{err}")

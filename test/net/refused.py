#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Faults with which a job on several nodes does not start, or ends, and the one line that says what
to do. Usage: refused.py NODES OSHRUN FAR FAULT"""
import os
import subprocess
import sys
import time

nodes, oshrun, far, fault = map(os.path.abspath, sys.argv[1:])
os.environ.update(NODES_SLOTS="2", SHMEM_SYMMETRIC_SIZE="16M",
                  OMPI_MCA_rmaps_base_oversubscribe="1")


def refused(what, texts, *options, before=(), on_one="", on_other="", words=("exit", "0"),
            seconds=8, agent=0, **variables):
    """All of it in one line, which has these texts. before: a command of the hub's; on_one,
    on_other: of the shells of the nodes."""
    program = ["sh", "-c",
               f'[ $(hostname) = node1 ] && {{ {on_one} exec "$@"; }}; {on_other} exec "$@"', "sh",
               far, *words]
    start = time.monotonic()
    done = subprocess.run([nodes, "2", *before, oshrun, "-n", "4", *options, *program],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, env=os.environ | variables)
    took = time.monotonic() - start
    if done.returncode == 77 and "skipped" in done.stderr:
        print(done.stderr, end="")
        sys.exit(77)
    lines = done.stderr.splitlines()
    if done.returncode in (0, 77) or took > seconds or len(lines) != 1 + agent or any(
        text not in lines[-1] for text in texts):
        sys.exit(
            f"{what}: status {done.returncode} after {took:.1f} s, wanted one line with {texts}:\n"
            f"{done.stdout}{done.stderr}")


def faulty(what, texts, host="", **more):
    refused(what, texts, "-x", f"LD_PRELOAD={fault}", "-x", f"FAULT={what}",
            *(("-x", f"FAULT_HOST={host}") if host else ()), **more)


def on_hub(*lines):
    return "sh", "-ec", "\n".join(lines) + '\nexec "$@"', "sh"


# Ways that the nodes do not share.
refused("no common transport", ("on node", "cannot be reached from node", "UCX_TLS="),
        on_one="UCX_TLS=tcp", on_other="UCX_TLS=sysv,self")
refused("no transport", ("UCX has no network on node", "UCX_TLS=rc"), "-x", "UCX_TLS=rc")
refused("no such interface", ("on node", "cannot be reached from node", "UCX_NET_DEVICES="),
        on_other="export UCX_NET_DEVICES=eth7;")
refused("no route", ("on node", "UCX_NET_DEVICES=eth1"), "-x", "UCX_NET_DEVICES=eth1",
        NODES_LINKS="2", before=on_hub(
    "for i in 1 2; do nsenter -t $(cat $NODES_FOLDER/node$i) -n sh -c \"ip addr flush dev eth1; ip "
    "addr add 10.22$i.0.1/24 dev eth1\"; done"))
refused("an answer of the network", ("on node", "UCX_NET_DEVICES=all"), before=on_hub(
    "nsenter -t $(cat $NODES_FOLDER/node2) -n ip route add unreachable 10.213.0.1"))
# A firewall that swallows: to an address of the link that no node has.
refused("firewall", ("on node", "nor ever one: a firewall", "UCX_TLS="), before=on_hub(
    "for i in 1 2; do nsenter -t $(cat $NODES_FOLDER/node$i) -n ip neigh replace 10.213.0.$((3 - "
    "i)) lladdr 02:00:00:00:00:99 dev eth0 "
    "nud permanent; done"), SHMEM_NET_TIMEOUT="2")

# Cards, of which UCX's tcp needs no registration.
faulty("register", ("cannot register 16777216 bytes of symmetric heap", "on node", "locked",
                    "ulimit -l"))
faulty("put", ("Input/output error", "locked", "ulimit -l"), words=("put",))

# Differences between nodes, with both sides named.
both = ("on node1", "on node2")
faulty("old", ("UCX 1.9.", "is loaded, from ", "was built with 1."))
faulty("newer", (*both, "has UCX 1.", "all nodes need the same"), host="node2")
faulty("library", (*both, "has libshmem ", "all nodes need the same"), host="node1")
faulty("layout", ("on node2, tells 248 bytes", "versions of this library"), host="node2")
refused("sizes", (*both, "nodes have other settings"), on_other="SHMEM_SYMMETRIC_SIZE=8M")
refused("settings", (*both, "another SHMEM_CHECK"), on_one="export SHMEM_CHECK=1;")
refused("rows of one name", (*both, 'another SHMEM_TUNE_FILE', '"rows.txt"'),
        on_one="cd /run/nodes/1;", on_other="cd /run/nodes/2;",
        before=on_hub(
            "for i in 1 2; do mkdir /run/nodes/$i; echo broadcast net 8 999 chain ${i}6384 4 "
            ">/run/nodes/$i/rows.txt; done"),
        SHMEM_TUNE_FILE="rows.txt")
refused("programs", (*both, "runs another program"),
        on_other="cat $1 $1 >/run/far-$$; chmod +x /run/far-$$; shift; set -- /run/far-$$ \"$@\";")

# Hosts. The first line is the agent's, in the place of ssh.
refused("an unknown host", ("oshrun: no such host: node9", "ssh"), "--host", "node1:2,node9:2",
        agent=1)
refused("an unknown host in a file", ("oshrun: no such host: node9", "ssh"), "--hostfile",
        "/run/nodes/more", agent=1, before=on_hub(
    "{ cat $NODES_FOLDER/hosts; echo; echo '# and'; echo 'node9 slots=2'; } >/run/nodes/more"))
refused("no way to a host", ("oshrun: a node could not be started", "ssh"), agent=1,
        before=on_hub("rm $NODES_FOLDER/node2"))
refused("no hostfile", ("oshrun: hostfile '/run/none': No such file",), "--hostfile", "/run/none")

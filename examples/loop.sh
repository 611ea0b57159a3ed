#!/bin/sh
# SPDX-License-Identifier: MIT
# Starts a program N times by a loop of the shell, without a launcher:
#   loop.sh N PROGRAM [ARGUMENT]...
# The processes find each other by what variables say. With several nodes the loop calls ssh, and
# SHMEM_ROOT names the node of PE 0.
set -eu

n=$1
shift
export SHMEM_BOOTSTRAP=env SHMEM_SIZE="$n"
SHMEM_ROOT=127.0.0.1:$((20000 + $$ % 10000))
SHMEM_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export SHMEM_ROOT SHMEM_SECRET

pids=
rank=0
while [ "$rank" -lt "$n" ]; do
  SHMEM_RANK=$rank "$@" &
  pids="$pids $!"
  rank=$((rank + 1))
done
status=0
for pid in $pids; do
  wait "$pid" || status=$?
done
exit "$status"

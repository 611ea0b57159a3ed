#!/bin/sh
# SPDX-License-Identifier: MIT
# tune.sh nodes oshrun shmem_tune test_coll test_reduce: a table between nodes is written and
# loaded, others choose ways and segments that the built-in one does not, and one that is none is
# refused.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
job() { NODES_SLOTS=2 "$nodes" 2 "$oshrun" -n 4 "$@"; }
nodes=$1 oshrun=$2 tune=$3 coll=$4 reduce=$5
export SHMEM_SYMMETRIC_SIZE=64M

job "$tune" --net -l 8k -c 2 -o "$folder/measured"
grep -q '^broadcast net 2 18446744073709551615 ' "$folder/measured"
echo '* net 9 18446744073709551615 chain 1024 2' >"$folder/chain"
echo '* net 9 18446744073709551615 tree 1040 3' >"$folder/tree"
for table in measured chain tree; do
  SHMEM_TUNE_FILE="$folder/$table" job "$coll"
done
SHMEM_TUNE_FILE="$folder/chain" job "$reduce"
echo 'broadcast net 2 100 ring 1024 4' >"$folder/wrong"
if SHMEM_TUNE_FILE="$folder/wrong" job "$coll" 2>"$folder/said"; then exit 1; fi
grep -q 'SHMEM_TUNE_FILE = ".*wrong": line 1: expected the algorithm "tree" or "chain"' \
  "$folder/said"
if "$oshrun" -n 2 "$tune" --net 2>"$folder/said"; then exit 1; fi
grep -q 'all 2 PEs are on one node: --net needs several' "$folder/said"

#!/bin/sh
# SPDX-License-Identifier: MIT
# tune.sh oshrun shmem_tune test_stream: a table is written, loaded, and refused when it is not one.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" -n 2 "$2" -l 8k -c 2 -o "$folder/table"
grep -q '^alltoall .* 2 18446744073709551615 ' "$folder/table"
SHMEM_TUNE_FILE="$folder/table" "$1" -n 2 "$3" order
echo 'reduce * 2 100 tree 1 64' > "$folder/wrong"
if SHMEM_TUNE_FILE="$folder/wrong" "$1" -n 2 "$3" order 2> "$folder/said"; then exit 1; fi
grep -q 'SHMEM_TUNE_FILE = ".*wrong": line 1: expected the algorithm' "$folder/said"

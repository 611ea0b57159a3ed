#!/bin/sh
# SPDX-License-Identifier: MIT
# A PE on another node has the environment, umask, limits and signals of the caller of oshrun.
# Usage, where nodes are: inherited.sh OSHRUN
state='env | grep -vE "^(OMPI|PMIX|PRTE|PRRTE|OSHRUN|HFI|IPATH|_=|SHLVL|OLDPWD|HOSTNAME)" | sort'
state=$state'; pwd; umask; ulimit -a; grep -E "Sig(Ign|Blk)" /proc/self/status'
umask 027
# shellcheck disable=SC3045 # dash and bash have these limits
ulimit -n 700 && ulimit -c 0
trap '' USR1
export HELD='a b,%2C "'\' UCX_LOG_LEVEL=error PATH="/nowhere:$PATH"
alone=$(sh -c "$state")
for node in 0 1; do
  there=$("$1" -n 2 --map-by node sh -c "[ \$PMIX_RANK = $node ] || exit 0; hostname; $state")
  wanted=$(echo "node$((node + 1))" && echo "$alone")
  [ "$there" = "$wanted" ] && continue
  echo "$wanted" >/run/wanted
  echo "$there" | diff /run/wanted -
  exit 1
done

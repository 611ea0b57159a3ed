#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""shmemx_module_init before shmem_init ends with one line."""
import subprocess
import sys

done = subprocess.run([sys.argv[1], "none", "early"], capture_output=True, text=True)
lines = done.stderr.splitlines()
assert done.returncode and len(
    lines) == 1 and "shmemx_module_init: " in lines[0], done

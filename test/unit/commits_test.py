# SPDX-License-Identifier: MIT
"""tools/commits takes good messages, and names the fault of each bad one."""
import subprocess
import sys
import tempfile
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/commits"


def check(message):
    with tempfile.NamedTemporaryFile("w", suffix="MSG") as file:
        file.write(message)
        file.flush()
        done = subprocess.run([sys.executable, TOOL, file.name], text=True, capture_output=True)
    assert not done.stderr, done.stderr
    assert bool(done.returncode) == bool(done.stdout), done
    return done.stdout


good = "lib, test/net: what changes\n\nWhy it does.\n"
for message in (good, f"{good}# a comment of git's\n", f"{good}# --- >8\ndiff --git\n",
                "a: " + "b" * 69 + "\n\nwhy\n"):
    assert check(message) == "", message
for message, fault in (("a: " + "b" * 70 + "\n\nwhy\n", "73 characters"),
                       ("What changes\n\nWhy.\n", "not 'area: what'"),
                       ("Merge branch 'x'\n\nWhy.\n", "not 'area: what'"),
                       ("lib: what\nWhy.\n", "no empty line"),
                       ("lib: what\n", "no body"),
                       ("lib: what\n\n# comment\n", "no body"),
                       ("lib: what\n\nSigned-off-by: A <a@b>\n", "no body"),
                       ("", "not 'area: what'")):
    assert fault in check(message), (message, check(message))
assert "usage" in subprocess.check_output([sys.executable, TOOL, "--help"], text=True)

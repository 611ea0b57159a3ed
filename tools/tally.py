# SPDX-License-Identifier: MIT
"""The tests that failed and how many passed, from Meson's logs: tally.py BROKEN LOG...

BROKEN things that are no tests failed before. The last line is "N passed, N failed, N skipped"; the
status is 1 if something failed or nothing passed."""

import json
import os
import sys
from collections import Counter, defaultdict

KINDS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}


def main():
    count, folders, broken = Counter(), defaultdict(Counter), int(sys.argv[1])
    for path in filter(os.path.exists, sys.argv[2:]):
        folder = path.split("/")[1]
        for line in open(path, errors="replace"):
            test = json.loads(line)
            kind = KINDS.get(test["result"], "failed")
            count[kind] += 1
            folders[folder][kind] += 1
            if kind == "failed":
                result, status = test["result"], test["returncode"]
                print(f"\n== {folder}: {test['name']}: {result}, status {status}")
                text = test.get("stdout", "") + test.get("stderr", "")
                print("\n".join(text.splitlines()[-40:]))
    for name, of in folders.items():
        print(f"of {name} there are " + ", ".join(f"{n} {kind}" for kind, n in of.items()))
    if broken:
        print(f"\n{broken} of the builds broke: see above")
    failed = count["failed"] + broken
    print(f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped")
    sys.exit(bool(failed or not count["passed"]))


if __name__ == "__main__":
    main()

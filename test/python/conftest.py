# SPDX-License-Identifier: MIT
"""Each PE of a job runs pytest with the same tests in the same order. ARRAYS=numpy leaves PyTorch
out. A test that fails on one PE ends the job: the others would wait for that PE."""
import os
import sys

import pytest

TORCH = os.environ.get("ARRAYS") != "numpy"
if TORCH:
    import torch

    torch.set_num_threads(1)
collect_ignore_glob = [] if TORCH else ["test_cupy*", "test_torch*", "test_triton*", "test_iris*",
                                       "test_compat*"]

import shmem  # noqa: E402


def pytest_sessionstart(session):
    shmem.init()
    shmem.manual_seed(7)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        print(f"\nPE {shmem.my_pe()}: {item.nodeid}: {report.when}\n{report.longreprtext}",
              file=sys.__stderr__, flush=True)
        os._exit(1)


@pytest.fixture
def me():
    return shmem.my_pe()


@pytest.fixture
def n():
    return shmem.n_pes()


@pytest.fixture
def arrays():
    """PyTorch or NumPy: what is used of both has the same names."""
    if TORCH:
        return torch
    import numpy

    return numpy


@pytest.fixture
def device():
    """Where the library's arrays lie without another word."""
    return str(shmem.empty(1).device) if TORCH else "cpu"

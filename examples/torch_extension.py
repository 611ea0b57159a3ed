#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gradients are summed over all PEs where PyTorch has them, by an extension in C++.

    oshrun -n 2 python3 examples/torch_extension.py

pkg-config has to find shmem (PKG_CONFIG_PATH). The gradients of a model lie in one tensor, a
bucket, which becomes symmetric once; then each step sums them on PyTorch's stream, behind the
kernels that make them, and a graph does so, too.
"""
import shlex
import subprocess
import sys
from pathlib import Path

import torch
from torch.utils import cpp_extension


def words(option):
    return shlex.split(subprocess.run(["pkg-config", option, "shmem"], check=True,
                                      capture_output=True, text=True).stdout)


def main():
    folders = [f"-Wl,-rpath,{word[2:]}" for word in words("--libs") if word.startswith("-L")]
    shmem = cpp_extension.load("shmem_torch",
                               [str(Path(__file__).with_name("torch_extension.cpp"))],
                               extra_cflags=words("--cflags"),
                               extra_ldflags=words("--libs") + folders, with_cuda=True)
    # It chooses the GPU, which is PyTorch's from here on
    shmem.init()
    me, n = shmem.my_pe(), shmem.n_pes()
    torch.manual_seed(5)                                     # the same model on all PEs
    model = torch.nn.Sequential(torch.nn.Linear(777, 1024), torch.nn.Tanh(),
                                torch.nn.Linear(1024, 3)).cuda()
    parameters = list(model.parameters())
    bucket = torch.zeros(sum(p.numel() for p in parameters), device="cuda")
    at = 0
    for p in parameters:
        p.grad = bucket[at:at + p.numel()].view_as(p)
        at += p.numel()
    handle = shmem.make_symmetric(bucket)
    inputs = [torch.randn(64, 777, device="cuda") for _ in range(n)]

    def step(x):
        bucket.zero_()
        model(x).square().sum().backward()

    wrong = 0
    step(torch.cat(inputs))                                  # what all PEs' gradients come to
    want = bucket.clone()
    for _ in range(3):
        step(inputs[me])
        shmem.sum_over_pes(bucket)
        wrong += not torch.allclose(bucket, want, rtol=1e-3, atol=1e-3 * want.abs().max().item())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        shmem.sum_over_pes(bucket[5:])
    for lap in range(3):
        bucket.fill_(lap + me)
        graph.replay()
        wrong += not bool((bucket[5:] == n * lap + n * (n - 1) // 2).all()
                          and (bucket[:5] == lap + me).all())
    torch.cuda.synchronize()
    del graph
    shmem.drop(handle)
    print(f"PE {me} of {n}: {'wrong' if wrong else 'as summed'}", flush=True)
    shmem.finalize()
    return wrong


if __name__ == "__main__":
    sys.exit(main())

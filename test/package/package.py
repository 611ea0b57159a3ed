# SPDX-License-Identifier: MIT
"""Builds a copy of examples/build as a stranger would: by make against an installed tree that was
moved, by CMake against unpacked
Debian packages where dpkg is at hand. The package for Python comes from all three, and from a wheel
in a virtual environment. package.py SOURCE BUILD GPU. Every program runs at 2 PEs."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

SOURCE, BUILD, GPU = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
EXAMPLES = SOURCE / "examples/build"
# Meson sets LD_LIBRARY_PATH, which would hide a wrong rpath; a heap of 64 MiB makes many PEs cheap.
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith(("SHMEM_", "SMA_", "LD_LIBRARY_PATH", "MAKE"))}
ENV["SHMEM_SYMMETRIC_SIZE"] = "64M"


def run(*argv, cwd=None, **env):
    done = subprocess.run([str(a) for a in argv], env={**ENV, **env}, cwd=cwd, text=True,
                          capture_output=True)
    assert done.returncode == 0, f"{argv}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def programs(folder, oshrun):
    """The programs of the build in the folder: from this tree's library, at 2 PEs, with the right
    results."""
    got = run(oshrun, "-n", 2, folder / "sum")
    assert sorted(got.splitlines()) == ["PE 0 of 2: the sum is 3", "PE 1 of 2: the sum is 3"], got
    got = run(oshrun, "-n", 2, folder / "next")
    assert "PE 1 of 2: PE 0 has put its number" in got, got
    linked = run("ldd", folder / "greet")
    assert str(oshrun.parent.parent) in linked, linked
    if GPU == "cpu":
        got = run(oshrun, "-n", 2, folder / "greet")
        assert "PE 1 of 2: PE 0 says hello" in got, got


# The installed headers alone make the kernels of a product.
PRODUCT = """#include <shmem/device/gemm/fused.hpp>
struct Twice {
  SHMEM_D_ void operator()(unsigned, unsigned, unsigned, float (&v)[8]) const { v[0] *= 2; }
};
void product(shmemx_matmul_workspace_t workspace, const shmemx_matmul_t &call, hipStream_t stream) {
  shmem::gemm::matmul_all_reduce<float>(workspace, call, Twice{}, stream);
}
int main() { return 0; }
"""

# The headers of CUDA's types, which compile against the platform's own HIP.
CUDA = """#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>
__global__ void halves(__half *to, int n) {
  const cooperative_groups::thread_block block = cooperative_groups::this_thread_block();
  const int me = int(block.thread_rank());
  to[me] = __float2half(me);
  block.sync();
  const __half other = to[n - 1 - me];
  block.sync();
  to[me] = __hadd(other, __float2half(0.5f));
}
#if __has_include(<hip/hip_bf16.h>) // ROCm has these from 5.7 on
#define WITH_BF16
__global__ void brain(__nv_bfloat16 *to) { *to = __float2bfloat16(257); }
#endif
int main() {
  __half host[40], *device;
  if (cudaMalloc(reinterpret_cast<void **>(&device), sizeof host) != cudaSuccess) return 1;
  halves<<<1, 40>>>(device, 40);
  cudaError_t error = cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  if (error != cudaSuccess || __half2float(host[3]) != 36.5f) return 2;
#ifdef WITH_BF16
  __nv_bfloat16 value;
  brain<<<1, 1>>>(reinterpret_cast<__nv_bfloat16 *>(device));
  error = cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost);
  if (error != cudaSuccess || __bfloat162float(value) != 256) return 3;
#endif
  return 0;
}
"""


def of_cuda(tmp, prefix):
    """A source of CUDA's. On the CPU platform another HIP that this system has is not found."""
    folder = tmp / "cuda"
    (folder / "other/hip").mkdir(parents=True)
    (folder / "types.cu").write_text(CUDA)
    compat = run("pkg-config", f"--define-variable=prefix={prefix}", "--variable=compat",
                 next(prefix.rglob("shmem.pc"))).strip()
    words, source = ["-isystem", compat], "types.cu"
    if GPU == "cpu":
        source = "types.hip"
        (folder / source).write_text(run(sys.executable, next(prefix.rglob("launches.py")),
                                         folder / "types.cu"))
        for header in "hip_runtime", "hip_cooperative_groups", "hip_fp16", "hip_bf16":
            (folder / f"other/hip/{header}.h").write_text("#error the other HIP\n")
        words += ["-isystem", folder / "other", "-Wall", "-Wextra", "-Werror"]
    run(prefix / "bin/oshc++", *words, source, "-o", "types", cwd=folder)
    if GPU == "cpu":
        run(folder / "types")


def by_make(tmp, prefix):
    folder = tmp / "make"
    folder.mkdir()
    where = {"PATH": f"{prefix}/bin:{ENV['PATH']}",
             "PKG_CONFIG_PATH": str(next(prefix.rglob("shmem.pc")).parent)}
    run("make", "-f", tmp / "copy/Makefile",
        f"PKG_CONFIG=pkg-config --define-variable=prefix={prefix}", cwd=folder, **where)
    programs(folder, prefix / "bin/oshrun")
    (folder / "product.hip").write_text(PRODUCT)
    warnings = [] if GPU == "nvidia" else ["-Wall", "-Wextra", "-Werror"]
    run(prefix / "bin/oshc++", *warnings, "product.hip", "-o", "product", cwd=folder)
    run(folder / "product")


def by_python(python, oshrun, tree, **env):
    """A job of Python has the package and the library of that tree."""
    got = run(oshrun, "-n", 2, python, "-c", """import sys, shmem
shmem.init()
shmem.barrier()
files = shmem.__file__ + " " + shmem._library.lib.path()
sys.stdout.write(f"PE {shmem.my_pe()} of {shmem.n_pes()} {files}\\n")""", **env) # in one piece
    assert sorted(line.split(" /")[0] for line in got.splitlines()) == ["PE 0 of 2",
                                                                       "PE 1 of 2"], got
    for line in got.splitlines():
        assert all(path.startswith(str(tree)) for path in line.split()[4:]), (got, tree)


def by_wheel(tmp, prefix):
    """In a virtual environment, without a network. PATH is all that is set."""
    for folder in "wheel", "again":
        run(sys.executable, SOURCE / "tools/package", "--wheel", "--out", tmp / folder, BUILD)
    wheel, = (tmp / "wheel").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl") and wheel.read_bytes() == (
        tmp / "again" / wheel.name).read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        assert not archive.testzip() and not any(".so" in n for n in archive.namelist())
    done = subprocess.run([sys.executable, "-m", "venv", prefix / "venv"], capture_output=True)
    if done.returncode:
        print("no python3-venv here: the wheel is not installed")
        return
    python = prefix / "venv/bin/python"
    run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    by_python(python, prefix / "bin/oshrun", prefix, PATH=f"{prefix}/bin:{ENV['PATH']}")


def by_cmake(tmp, prefix, root):
    folder = tmp / "cmake"
    configure = ["cmake", "-S", tmp / "copy", f"-DCMAKE_PREFIX_PATH={root}",
                 "-DCMAKE_BUILD_TYPE=Release"]
    nvcc = {"CUDACXX": run(prefix / "bin/oshc++",
                           "--showme:hip").split()[0]} if GPU == "nvidia" else {}
    run(*configure, "-B", folder, **nvcc)
    run("cmake", "--build", folder)
    programs(folder, prefix / "bin/oshrun")
    # An older version of the same major is served, a newer one and another major are not.
    own = run("pkg-config", "--modversion", next(prefix.rglob("shmem.pc"))).strip()
    major = own.split(".")[0]
    for version, good in (own, "TRUE"), (major, "TRUE"), (own + ".1", "FALSE"), (
        f"{int(major) + 1}.0", "FALSE"):
        script = tmp / "version.cmake"
        script.write_text(
            f"set(PACKAGE_FIND_VERSION {version})\nset(PACKAGE_FIND_VERSION_MAJOR "
            f"{version.split('.')[0]})\n"
                          f"include({next(prefix.rglob('shmem-config-version.cmake'))})\n"
                          'file(WRITE answer "${PACKAGE_VERSION} ${PACKAGE_VERSION_COMPATIBLE}")\n')
        run("cmake", "-P", script, cwd=tmp)
        assert (tmp / "answer").read_text() == f"{own} {good}", (version, good)


def installed_files():
    """Path to package, of all that dpkg has installed here, Open MPI's among them; /lib is
    /usr/lib on a merged system."""
    files = {}
    for listing in Path("/var/lib/dpkg/info").glob("*.list"):
        for line in listing.read_text(errors="replace").splitlines():
            files["/usr" + line if line.startswith(("/bin/", "/lib/"))
                  else line] = listing.stem.split(":")[0]
    return files


def debs(tmp):
    """Makes the packages, compares them with each other and with what is installed here, and
    unpacks them into a root."""
    # 4800 pages and links of the manual cost 16 s on a disk and 7 s in memory (2026-11-21).
    memory = Path("/dev/shm")
    fast = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(
        memory).free > 128 << 20
    run(sys.executable, SOURCE / "tools/package", "--out", tmp / "debs", BUILD,
        **({"TMPDIR": str(memory)} if fast else {}))
    packages = sorted((tmp / "debs").glob("*.deb"))
    assert [p.name.split("_")[0] for p in packages] == ["libshmem-bin", "libshmem-dev",
                                                        "libshmem-doc", "libshmem1",
                                                        "python3-shmem"], packages
    theirs, ours = installed_files(), {}
    for package in packages:
        name = package.name.split("_")[0]
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True,
                              check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = [member for member in archive if not member.isdir()]
            for member in files:
                at = member.name[1:]
                other = ours.get(at, theirs.get(at, name))
                assert other == name, f"{at} is in {name} and in {other}"
                ours[at] = name
            keep = [m for m in files if "/man3/" not in m.name or "/shmem_put." in m.name
                    or "/shmem_int_put." in m.name]
            archive.extractall(tmp / "root", keep)
    assert "openmpi-bin" not in theirs.values() or theirs["/usr/bin/oshrun"] == "openmpi-bin"
    config = next((tmp / "root").rglob("shmem.pc"))
    assert ours[run("pkg-config", "--variable=lsan_suppressions", config).strip()] == "libshmem-dev"
    needs = run("dpkg-deb", "-f", packages[3], "Depends")
    assert "libc6" in needs and "libhwloc15" in needs and "libshmem" not in needs, needs
    net = run("pkg-config", "--variable=net", config).strip() # by UCX or none
    assert ("libucx0" in needs) == (net == "ucx"), (net, needs)
    assert ("many nodes, by UCX" if net == "ucx"
            else "on one node") in run("dpkg-deb", "-f", packages[3], "Description")
    assert run("dpkg-deb", "-f", packages[4], "Architecture", "Depends").split("\n")[:2] == [
        "Architecture: all", "Depends: python3 (>= 3.9), libshmem1 (= " + run(
            "dpkg-deb", "-f", packages[3], "Version").strip() + ")"]
    root = tmp / "root/usr"
    if shutil.which("man"):
        for words in ["shmem_put"], ["3shmem", "shmem_int_put"], ["7", "shmem_env"], [
            "1", "oshc++"]:
            assert str(root) in run("man", "-M", root / "share/man", "-w", *words)
    assert run(root / "bin/oshcc.libshmem",
               "--showme:libdirs").startswith(str(root / "lib/libshmem"))
    assert "shmem_info" in run(root / "bin/shmem_info", "--version")
    return root


def main(tmp):
    # Without the manual, whose 4800 names cost 5 s; the packages have it.
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--tags",
        "runtime,devel,python-runtime", "--destdir", tmp / "first")
    (tmp / "first").rename(tmp / "moved")
    shutil.copytree(EXAMPLES, tmp / "copy") # alone, away from the other examples
    root = prefix = next((tmp / "moved").rglob("bin/oshrun")).parent.parent
    by_make(tmp, prefix)
    of_cuda(tmp, prefix)
    package = next(prefix.rglob("shmem/_library.py")).parent.parent
    by_python(sys.executable, prefix / "bin/oshrun", prefix, PYTHONPATH=str(package))
    by_wheel(tmp, prefix)
    if shutil.which("dpkg-deb"):
        root = debs(tmp)
        prefix = root / "lib/libshmem"
        by_python(sys.executable, prefix / "bin/oshrun", root,
                  PYTHONPATH=str(root / "lib/python3/dist-packages"))
    if shutil.which("cmake"):
        by_cmake(tmp, prefix, root)
    else:
        print("no cmake here: that part is left out")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="package-") as folder:
        main(Path(folder).resolve())

// SPDX-License-Identifier: MIT
// Devices, memory, copies, memory of other processes, errors on demand.
#include "platform.hpp"

namespace {

void devices(void **) {
  int n, device;
  OK(hipGetDeviceCount(&n));
  CHECK(n == 2);
  FAILS(hipSetDevice(2), hipErrorInvalidDevice);
  CHECK(hipPeekAtLastError() == hipErrorInvalidDevice);
  CHECK(hipGetLastError() == hipErrorInvalidDevice && hipGetLastError() == hipSuccess);
  OK(hipSetDevice(1));
  std::thread([] { // the device is a thread's own
    int here = -1;
    CHECK(hipGetDevice(&here) == hipSuccess && here == 0);
  })
      .join();
  OK(hipGetDevice(&device));
  CHECK(device == 1);
  OK(hipSetDevice(0));
  hipDeviceProp_t prop;
  OK(hipGetDeviceProperties(&prop, 1));
  CHECK(strcmp(prop.gcnArchName, "cpu") == 0 && prop.warpSize == 64 && prop.isLargeBar == 1);
  int value;
  OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0));
  CHECK(value == prop.multiProcessorCount);
  char id[16];
  OK(hipDeviceGetPCIBusId(id, sizeof id, 1));
  CHECK(strcmp(id, "0000:02:00.0") == 0);
  OK(hipDeviceGetByPCIBusId(&device, id));
  CHECK(device == 1);
  hipUUID uuid[2];
  OK(hipDeviceGetUuid(&uuid[0], 0));
  OK(hipDeviceGetUuid(&uuid[1], 1));
  CHECK(memcmp(&uuid[0], &uuid[1], sizeof uuid[0]) != 0);
  CHECK(strcmp(hipGetErrorName(hipErrorNotReady), "hipErrorNotReady") == 0);
}

void peers(void **) {
  int can;
  OK(hipDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can);
  OK(hipDeviceCanAccessPeer(&can, 0, 0));
  CHECK(!can);
  OK(hipDeviceEnablePeerAccess(1, 0));
  FAILS(hipDeviceEnablePeerAccess(1, 0), hipErrorPeerAccessAlreadyEnabled);
  OK(hipDeviceDisablePeerAccess(1));
  FAILS(hipDeviceDisablePeerAccess(1), hipErrorPeerAccessNotEnabled);
  FAILS(hipDeviceEnablePeerAccess(0, 0), hipErrorInvalidDevice);
  uint32_t type, hops;
  OK(hipExtGetLinkTypeAndHopCount(0, 1, &type, &hops));
  CHECK(type == 4 && hops == 1);
}

void no_peers(void **) {
  CHECK(in_child([] {
          setenv("SHMEM_CPU_NO_PEER", "1-0", 1);
          setenv("SHMEM_CPU_HOST_ACCESS", "0", 1);
          int can, bar;
          STEP(hipDeviceCanAccessPeer(&can, 0, 1) == hipSuccess && !can);
          STEP(hipDeviceEnablePeerAccess(1, 0) == hipErrorPeerAccessUnsupported);
          STEP(hipDeviceGetAttribute(&bar, hipDeviceAttributeIsLargeBar, 0) == hipSuccess && !bar);
          return 0;
        }) == 0);
}

void no_device(void **) {
  CHECK(in_child([] {
          setenv("SHMEM_CPU_DEVICES", "0", 1);
          int n = 7;
          void *p;
          STEP(hipGetDeviceCount(&n) == hipErrorNoDevice && n == 0);
          STEP(hipMalloc(&p, 8) == hipErrorNoDevice);
          STEP(hipDeviceSynchronize() == hipErrorNoDevice);
          return 0;
        }) == 0);
}

void memory(void **) {
  size_t before, after, total;
  OK(hipMemGetInfo(&before, &total));
  char *p, *q;
  OK(hipMalloc(&p, 100000));
  CHECK(uintptr_t(p) % 4096 == 0 && p[0] == 0 && p[99999] == 0);
  OK(hipMemGetInfo(&after, &total));
  CHECK(before - after >= 100000 && before - after < 110000);
  OK(hipExtMallocWithFlags(reinterpret_cast<void **>(&q), 10, hipDeviceMallocFinegrained));
  hipPointerAttribute_t a;
  OK(hipPointerGetAttributes(&a, p + 99999));
  CHECK(a.type == hipMemoryTypeDevice && a.device == 0 && a.devicePointer == p + 99999);
  OK(hipPointerGetAttributes(&a, q));
  CHECK(a.allocationFlags == hipDeviceMallocFinegrained);
  OK(hipPointerGetAttributes(&a, &total));
  CHECK(a.type == hipMemoryTypeUnregistered);
  void *base;
  size_t size;
  OK(hipMemGetAddressRange(&base, &size, p + 5000));
  CHECK(base == p && size == 100000);
  FAILS(hipFree(p + 1), hipErrorInvalidValue);
  OK(hipFree(p));
  FAILS(hipFree(p), hipErrorInvalidValue);
  OK(hipFree(q));
  OK(hipFree(nullptr));
  OK(hipMalloc(&p, 0));
  CHECK(!p);
  FAILS(hipMalloc(&p, total + 1), hipErrorOutOfMemory);
  OK(hipMemGetInfo(&after, &total));
  CHECK(after == before);
}

void host_memory(void **) {
  char *p;
  void *d;
  OK(hipHostMalloc(&p, 1000, hipHostMallocCoherent));
  OK(hipHostGetDevicePointer(&d, p + 3, 0));
  CHECK(d == p + 3);
  hipPointerAttribute_t a;
  OK(hipPointerGetAttributes(&a, p + 999));
  CHECK(a.type == hipMemoryTypeHost && a.allocationFlags == hipHostMallocCoherent);
  OK(hipHostFree(p));
  static char own[3000];
  FAILS(hipHostGetDevicePointer(&d, own, 0), hipErrorInvalidValue);
  OK(hipHostRegister(own + 100, 1000, 0));
  FAILS(hipHostRegister(own, 101, 0), hipErrorHostMemoryAlreadyRegistered);
  FAILS(hipHostRegister(own + 1099, 10, 0), hipErrorHostMemoryAlreadyRegistered);
  OK(hipHostGetDevicePointer(&d, own + 1099, 0));
  OK(hipHostUnregister(own + 100));
  FAILS(hipHostUnregister(own + 100), hipErrorHostMemoryNotRegistered);
}

int symbol[4];
int *symbol_pointer;

void copies(void **) {
  char *p, *q, back[64], text[64];
  OK(hipMalloc(&p, 64));
  OK(hipMalloc(&q, 64));
  for (int i = 0; i < 64; i++) text[i] = char(i);
  OK(hipMemcpy(p, text, 64, hipMemcpyHostToDevice));
  OK(hipMemcpyAsync(q, p, 64, hipMemcpyDeviceToDevice));
  OK(hipMemset(q + 10, 7, 2));
  OK(hipMemcpy(back, q, 64, hipMemcpyDeviceToHost));
  CHECK(back[9] == 9 && back[10] == 7 && back[11] == 7 && back[12] == 12 && back[63] == 63);
  FAILS(hipMemcpy(q + 1, p, 64, hipMemcpyDefault), hipErrorInvalidValue);
  FAILS(hipMemset(q + 1, 0, 64), hipErrorInvalidValue);
  FAILS(hipMemcpy(p, q, 8, hipMemcpyKind(9)), hipErrorInvalidMemcpyDirection);
  FAILS(hipMemcpy(nullptr, q, 8, hipMemcpyDefault), hipErrorInvalidValue);
  OK(hipMemset(p, 0, 64));
  OK(hipMemcpy2DAsync(p, 16, text, 8, 3, 4, hipMemcpyHostToDevice, nullptr)); // 4 rows of 3
  OK(hipDeviceSynchronize());
  CHECK(p[0] == 0 && p[2] == 2 && p[3] == 0 && p[16] == 8 && p[48 + 2] == 26 && p[48 + 3] == 0);
  FAILS(hipMemcpy2D(p, 2, text, 8, 3, 4, hipMemcpyHostToDevice), hipErrorInvalidPitchValue);

  const int values[4] = {1, 2, 3, 4};
  int got[2] = {};
  OK(hipMemcpyToSymbol(HIP_SYMBOL(symbol), values, sizeof values));
  OK(hipMemcpyFromSymbol(got, HIP_SYMBOL(symbol), sizeof got, 8));
  CHECK(got[0] == 3 && got[1] == 4);
  void *address;
  OK(hipGetSymbolAddress(&address, HIP_SYMBOL(symbol)));
  CHECK(address == symbol);
  OK(hipMemcpyToSymbol(HIP_SYMBOL(symbol_pointer), &address, sizeof address));
  CHECK(symbol_pointer == symbol);
  OK(hipFree(p));
  OK(hipFree(q));
}

// The child maps the parent's memory; both see what the other stores, and each may drop it first.
void ipc(void **) {
  int to_child[2], to_parent[2];
  CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    hipIpcMemHandle_t handle;
    long *p = nullptr, *again = nullptr;
    void *stale;
    char go = 1;
    STEP(read(to_child[0], &handle, sizeof handle) == ssize_t(sizeof handle));
    STEP(hipIpcOpenMemHandle(reinterpret_cast<void **>(&p), handle, 2) == hipErrorInvalidValue);
    STEP(hipIpcOpenMemHandle(reinterpret_cast<void **>(&p), handle, 0) == hipSuccess);
    STEP(hipIpcOpenMemHandle(reinterpret_cast<void **>(&again), handle, 1) == hipSuccess);
    STEP(p == again && p[1000] == 42);
    hipPointerAttribute_t a;
    STEP(hipPointerGetAttributes(&a, p + 1) == hipSuccess && a.type == hipMemoryTypeDevice);
    p[1001] = 43;
    STEP(hipFree(p) == hipErrorInvalidValue);
    STEP(hipIpcCloseMemHandle(p) == hipSuccess);
    STEP(write(to_parent[1], &go, 1) == 1 && read(to_child[0], &go, 1) == 1); // it is freed now
    STEP(p[1001] == 43);
    p[1002] = 44;
    STEP(hipIpcCloseMemHandle(p) == hipSuccess);
    STEP(hipIpcCloseMemHandle(p) == hipErrorInvalidValue);
    STEP(hipIpcOpenMemHandle(&stale, handle, 0) == hipErrorInvalidHandle);
    _exit(0);
  }
  long *p;
  void *own;
  hipIpcMemHandle_t handle;
  char go = 1;
  OK(hipMalloc(&p, 1 << 20));
  p[1000] = 42;
  FAILS(hipIpcGetMemHandle(&handle, p + 1), hipErrorInvalidValue);
  OK(hipIpcGetMemHandle(&handle, p));
  FAILS(hipIpcOpenMemHandle(&own, handle, 0), hipErrorInvalidContext);
  CHECK(write(to_child[1], &handle, sizeof handle) == ssize_t(sizeof handle));
  CHECK(read(to_parent[0], &go, 1) == 1 && p[1001] == 43);
  OK(hipFree(p));
  CHECK(write(to_child[1], &go, 1) == 1);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

// Across devices without access to each other it fails, and says why.
void ipc_no_peer(void **) {
  long *p;
  hipIpcMemHandle_t handle;
  OK(hipMalloc(&p, 8));
  OK(hipIpcGetMemHandle(&handle, p));
  CHECK(in_child([&] {
          setenv("SHMEM_CPU_NO_PEER", "0-1", 1);
          void *q;
          STEP(hipSetDevice(1) == hipSuccess);
          STEP(hipIpcOpenMemHandle(&q, handle, 0) == hipErrorPeerAccessUnsupported);
          STEP(hipSetDevice(0) == hipSuccess);
          STEP(hipIpcOpenMemHandle(&q, handle, 0) == hipSuccess);
          return 0;
        }) == 0);
  CHECK(in_child([&] {
          setenv("SHMEM_CPU_NO_PEER", "0-0", 1);
          void *q;
          STEP(hipIpcOpenMemHandle(&q, handle, 0) == hipErrorPeerAccessUnsupported);
          return 0;
        }) == 0);
  OK(hipFree(p));
}

// Nothing of it has a name that could be left behind: not for the process, not for the memory.
void no_names(void **) {
  void *p;
  OK(hipMalloc(&p, 10000));
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int seen = 0;
  while (fgets(line, sizeof line, maps))
    if (uintptr_t(p) == strtoull(line, nullptr, 16)) {
      seen++;
      CHECK(strstr(line, "/memfd:") && strstr(line, "(deleted)"));
    }
  fclose(maps);
  CHECK(seen == 1);
  OK(hipFree(p));
}

// A store beyond an allocation ends the program; ASan sees the first byte, without it the page
// does.
void overruns(void **) {
#ifdef __SANITIZE_ADDRESS__
  static const size_t beyond = 5000;
#else
  static const size_t beyond = 8192;
#endif
  CHECK(in_child([] {
          volatile char *mine;
          STEP(hipMalloc(const_cast<char **>(&mine), 5000) == hipSuccess);
          mine[4999] = 1;
          return 0;
        }) == 0);
  CHECK(in_child([] {
          volatile char *mine;
          STEP(hipMalloc(const_cast<char **>(&mine), 5000) == hipSuccess);
          mine[beyond] = 1;
          return 0;
        }) != 0);
}

// Addresses that are reserved get memory and lose it; a child maps the parent's, which lives until
// both have dropped it.
void chunks(void **) {
  constexpr size_t step = 2 << 20;
  hipMemAllocationProp prop{hipMemAllocationTypePinned,
                            hipMemHandleTypePosixFileDescriptor,
                            {hipMemLocationTypeDevice, 1}};
  const hipMemAccessDesc access{prop.location, hipMemAccessFlagsProtReadWrite};
  size_t granularity, before, now, total;
  OK(hipMemGetAllocationGranularity(&granularity, &prop, hipMemAllocationGranularityMinimum));
  CHECK(granularity == step);
  OK(hipSetDevice(1));
  OK(hipMemGetInfo(&before, &total));
  void *range;
  FAILS(hipMemAddressReserve(&range, step + 1, 0, nullptr, 0), hipErrorInvalidValue);
  OK(hipMemAddressReserve(&range, 8 * step, 0, nullptr, 0));
  char *const p = static_cast<char *>(range);
  hipMemGenericAllocationHandle_t big, little;
  FAILS(hipMemCreate(&big, step + 1, &prop, 0), hipErrorInvalidValue);
  FAILS(hipMemCreate(&big, total / step * step * 2, &prop, 0), hipErrorOutOfMemory);
  OK(hipMemCreate(&big, 2 * step, &prop, 0));
  OK(hipMemCreate(&little, step, &prop, 0));
  OK(hipMemGetInfo(&now, &total));
  CHECK(before - now == 3 * step);
  FAILS(hipMemMap(p + 7 * step, 2 * step, 0, big, 0), hipErrorInvalidValue);
  FAILS(hipMemMap(p + 1, 2 * step, 0, big, 0), hipErrorInvalidValue);
  FAILS(hipMemMap(p, step, 0, big, 0), hipErrorInvalidValue);
  OK(hipMemMap(p + 3 * step, 2 * step, 0, big, 0));
  FAILS(hipMemMap(p + 4 * step, step, 0, little, 0), hipErrorInvalidValue);
  FAILS(hipMemMap(p + 2 * step, 2 * step, 0, big, 0), hipErrorInvalidValue);
  OK(hipMemMap(p + 2 * step, step, 0, little, 0));
  FAILS(hipMemSetAccess(p + 3 * step, step, &access, 1), hipErrorInvalidValue);
  OK(hipMemSetAccess(p + 3 * step, 2 * step, &access, 1));
  OK(hipMemSetAccess(p + 2 * step, step, &access, 1));
  OK(hipMemRelease(little));
  FAILS(hipMemAddressFree(p, 8 * step), hipErrorInvalidValue);
  OK(hipMemset(p + 2 * step, 7, 3 * step)); // over both
  OK(hipDeviceSynchronize());
  CHECK(p[2 * step] == 7 && p[5 * step - 1] == 7);
  hipPointerAttribute_t a;
  OK(hipPointerGetAttributes(&a, p + 3 * step));
  CHECK(a.type == hipMemoryTypeDevice);
  FAILS(hipFree(p), hipErrorInvalidValue);
  hipIpcMemHandle_t handle;
  FAILS(hipIpcGetMemHandle(&handle, p), hipErrorInvalidValue);
  int fd;
  OK(hipMemExportToShareableHandle(&fd, big, hipMemHandleTypePosixFileDescriptor, 0));
  OK(hipMemRelease(big));
  CHECK(in_child([&] {
          void *mine;
          hipMemGenericAllocationHandle_t theirs;
          STEP(hipMemImportFromShareableHandle(&theirs, reinterpret_cast<void *>(intptr_t(fd)),
                                               hipMemHandleTypePosixFileDescriptor) == hipSuccess);
          close(fd);
          STEP(hipMemAddressReserve(&mine, 2 * step, 0, nullptr, 0) == hipSuccess);
          STEP(hipMemMap(mine, 2 * step, 0, theirs, 0) == hipSuccess);
          STEP(hipMemSetAccess(mine, 2 * step, &access, 1) == hipSuccess);
          STEP(hipMemRelease(theirs) == hipSuccess);
          char *const q = static_cast<char *>(mine);
          STEP(q[2 * step - 1] == 7);
          q[2 * step - 1] = 8;
          STEP(hipMemUnmap(mine, 2 * step) == hipSuccess);
          STEP(hipMemAddressFree(mine, 2 * step) == hipSuccess);
          return 0;
        }) == 0);
  close(fd);
  CHECK(p[5 * step - 1] == 8);
  CHECK(in_child([&] {
          void *mine;
          STEP(hipMemAddressReserve(&mine, step, 0, nullptr, 0) == hipSuccess);
          *static_cast<volatile char *>(mine) = 1; // there is nothing
          return 0;
        }) != 0);
  FAILS(hipMemUnmap(p + 3 * step, step), hipErrorInvalidValue);
  OK(hipMemUnmap(p + 3 * step, 2 * step));
  OK(hipMemUnmap(p + 2 * step, step));
  OK(hipMemAddressFree(p, 8 * step));
  OK(hipMemGetInfo(&now, &total));
  CHECK(before == now);
  OK(hipSetDevice(0));
}

void failures(void **) {
  void *p;
  hip_cpu::fail_call("hipMalloc", 2, hipErrorUnknown);
  OK(hipMalloc(&p, 8));
  OK(hipFree(p));
  FAILS(hipMalloc(&p, 8), hipErrorUnknown);
  CHECK(hipGetLastError() == hipErrorUnknown);
  OK(hipMalloc(&p, 8));
  hip_cpu::fail_call("hipFree", 1, hipErrorInvalidContext);
  hip_cpu::fail_call(nullptr, 0, hipSuccess);
  OK(hipFree(p));
}

} // namespace

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "env") == 0) { // run again by the test below
    void *p;
    return !(hipMalloc(&p, 8) == hipSuccess && hipMalloc(&p, 8) == hipErrorOutOfMemory &&
             hipGetDeviceCount(&argc) == hipErrorNotReady && hipMalloc(&p, 8) == hipSuccess);
  }
  setenv("SHMEM_CPU_DEVICES", "2", 1);
  static char *self = argv[0];
  auto env_failures = [](void **) {
    setenv("SHMEM_CPU_FAIL", "hipMalloc:2:hipErrorOutOfMemory,hipGetDeviceCount:1:hipErrorNotReady",
           1);
    CHECK(run_again(self, "env") == 0);
    setenv("SHMEM_CPU_FAIL", "hipMalloc:2:hipErrorOutOfMemry", 1);
    CHECK(run_again(self, "env") == 128 + SIGABRT);
    unsetenv("SHMEM_CPU_FAIL");
  };
  const CMUnitTest tests[] = {
      cmocka_unit_test(devices),     cmocka_unit_test(peers),
      cmocka_unit_test(no_peers),    cmocka_unit_test(no_device),
      cmocka_unit_test(memory),      cmocka_unit_test(host_memory),
      cmocka_unit_test(copies),      cmocka_unit_test(ipc),
      cmocka_unit_test(ipc_no_peer), cmocka_unit_test(chunks),
      cmocka_unit_test(failures),    cmocka_unit_test(no_names),
      cmocka_unit_test(overruns),    {"env_failures", env_failures, nullptr, nullptr, nullptr},
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: MIT
// Streams, events and graphs: their order, and what has none.
#include "platform.hpp"
#include <atomic>

namespace {

// Holds a stream until the test lets it go on.
struct Gate {
  std::atomic<int> *open;

  Gate() {
    OK(hipHostMalloc(&open, sizeof *open));
    *open = 0;
  }
  ~Gate() { (void)hipHostFree(open); }
};
__global__ void wait_open(std::atomic<int> *open) {
  if (threadIdx.x == 0)
    while (!open->load()) hip_cpu::pause();
}
void close(hipStream_t s, const Gate &gate) {
  hipLaunchKernelGGL(wait_open, 1, 2, 0, s, gate.open);
}

__global__ void times_plus(int *p, int times, int plus) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *p = *p * times + plus;
}
void step(hipStream_t s, int *p, int digit) {
  hipLaunchKernelGGL(times_plus, 2, 3, 0, s, p, 10, digit);
}

hipStream_t make(unsigned flags = hipStreamDefault) {
  hipStream_t s;
  OK(hipStreamCreateWithFlags(&s, flags));
  return s;
}
hipEvent_t make_event(unsigned flags = hipEventDefault) {
  hipEvent_t e;
  OK(hipEventCreateWithFlags(&e, flags));
  return e;
}
int *device_int() {
  int *p;
  OK(hipMalloc(&p, sizeof *p));
  return p;
}
// Long enough for a wrong order to show, if one is possible.
void a_while() {
  usleep(20000);
}

// In order on one stream, and the host does not wait until it says so.
void in_order(void **) {
  Gate gate;
  hipStream_t s = make();
  int *p = device_int(), five = 5;
  close(s, gate);
  OK(hipMemcpyAsync(p, &five, sizeof five, hipMemcpyHostToDevice, s));
  five = 6; // it was taken at the call
  step(s, p, 1);
  OK(hipMemsetAsync(p + 0, 0, 0, s));
  step(s, p, 2);
  OK(hipLaunchHostFunc(
      s, [](void *x) { *static_cast<int *>(x) += 1000; }, p));
  step(s, p, 3);
  a_while();
  CHECK(*p == 0);
  FAILS(hipStreamQuery(s), hipErrorNotReady);
  OK(hipGetLastError());
  gate.open->store(1);
  OK(hipStreamSynchronize(s));
  CHECK(*p == 15123);
  OK(hipStreamQuery(s));
  OK(hipStreamDestroy(s));
  FAILS(hipStreamDestroy(s), hipErrorInvalidHandle);
  FAILS(hipStreamSynchronize(s), hipErrorInvalidHandle);
  FAILS(hipStreamDestroy(nullptr), hipErrorInvalidHandle);
  FAILS(hipStreamCreateWithFlags(&s, 2), hipErrorInvalidValue);
  OK(hipFree(p));
}

// Two streams run side by side; each waits for the other's store.
__global__ void meet(std::atomic<int> *mine, std::atomic<int> *theirs) {
  mine->store(1);
  while (!theirs->load()) hip_cpu::pause();
}
void side_by_side(void **) {
  Gate a, b;
  hipStream_t s = make(), t = make();
  hipLaunchKernelGGL(meet, 1, 1, 0, s, a.open, b.open);
  hipLaunchKernelGGL(meet, 1, 1, 0, t, b.open, a.open);
  OK(hipDeviceSynchronize());
  OK(hipStreamDestroy(s));
  OK(hipStreamDestroy(t));
}

// The NULL stream waits for blocking streams, and they for it; others do not care.
void null_stream(void **) {
  Gate gate;
  hipStream_t blocking = make(), free = make(hipStreamNonBlocking);
  unsigned flags;
  OK(hipStreamGetFlags(free, &flags));
  CHECK(flags == hipStreamNonBlocking);
  int *p = device_int(), *q = device_int();
  close(blocking, gate);
  step(nullptr, p, 1);
  step(blocking, p, 2);
  step(free, q, 7);
  OK(hipStreamSynchronize(free));
  CHECK(*q == 7);
  a_while();
  CHECK(*p == 0);
  FAILS(hipStreamQuery(nullptr), hipErrorNotReady);
  gate.open->store(1);
  OK(hipStreamSynchronize(nullptr)); // and blocking streams
  CHECK(*p == 12);

  gate.open->store(0);
  close(nullptr, gate);
  step(blocking, p, 3);
  step(free, q, 8);
  OK(hipStreamSynchronize(free));
  CHECK(*q == 78);
  a_while();
  CHECK(*p == 12);
  gate.open->store(1);
  OK(hipStreamSynchronize(blocking));
  CHECK(*p == 123);

  // a copy that waits, behind what is under way; and what a destroyed stream was given
  gate.open->store(0);
  close(blocking, gate);
  step(blocking, p, 4);
  OK(hipStreamDestroy(blocking));
  std::thread opener([&] {
    a_while();
    gate.open->store(1);
  });
  int got = 0;
  OK(hipMemcpy(&got, p, sizeof got, hipMemcpyDeviceToHost));
  CHECK(got == 1234);
  opener.join();
  OK(hipStreamDestroy(free));
  OK(hipFree(p));
  OK(hipFree(q));
}

void events(void **) {
  Gate gate;
  hipStream_t s = make(), t = make();
  hipEvent_t start = make_event(), stop = make_event(), plain = make_event(hipEventDisableTiming);
  int *p = device_int();
  float ms;
  OK(hipEventQuery(start));         // never recorded: as if done
  OK(hipStreamWaitEvent(t, start)); // the same
  FAILS(hipEventElapsedTime(&ms, start, stop), hipErrorInvalidHandle);
  OK(hipEventRecord(start, s));
  OK(hipEventSynchronize(start)); // the stream's thread may come late to it, and a_while is short
  close(s, gate);
  step(s, p, 1);
  OK(hipEventRecord(stop, s));
  OK(hipStreamWaitEvent(t, stop));
  step(t, p, 2);
  OK(hipEventRecord(plain, t));
  a_while();
  FAILS(hipEventQuery(stop), hipErrorNotReady);
  FAILS(hipEventElapsedTime(&ms, start, stop), hipErrorNotReady);
  CHECK(*p == 0);
  // the wait was for that record, not for a later one
  Gate later;
  close(s, later);
  OK(hipEventRecord(stop, s));
  gate.open->store(1);
  OK(hipEventSynchronize(plain));
  CHECK(*p == 12);
  FAILS(hipEventQuery(stop), hipErrorNotReady);
  later.open->store(1);
  OK(hipEventSynchronize(stop));
  OK(hipEventElapsedTime(&ms, start, stop));
  CHECK(ms >= 20 && ms < 20000);
  FAILS(hipEventElapsedTime(&ms, start, plain), hipErrorInvalidHandle);
  for (hipEvent_t e : {start, stop, plain}) OK(hipEventDestroy(e));
  FAILS(hipEventRecord(stop, s), hipErrorInvalidHandle);
  OK(hipStreamDestroy(s));
  OK(hipStreamDestroy(t));
  OK(hipFree(p));
}

__global__ void add(int *to, const int *a, const int *b) {
  *to = *a + *b;
}
// s: set a; fork t: b = a * 10 + 3, meeting s's own branch; join: c = a + b
void graph(void **) {
  hipStream_t s = make(), t = make();
  hipEvent_t fork = make_event(), join = make_event();
  int *v;
  OK(hipMalloc(&v, 4 * sizeof *v));
  Gate left, right;
  hipStreamCaptureStatus status;
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  OK(hipMemsetAsync(v, 0, 4 * sizeof *v, s));
  step(s, v, 4);
  OK(hipEventRecord(fork, s));
  OK(hipStreamWaitEvent(t, fork));
  OK(hipStreamIsCapturing(t, &status));
  CHECK(status == hipStreamCaptureStatusActive);
  OK(hipMemcpyAsync(v + 1, v, sizeof *v, hipMemcpyDeviceToDevice, t));
  step(t, v + 1, 3);
  hipLaunchKernelGGL(meet, 1, 1, 0, t, left.open, right.open); // the branches run side by side
  hipLaunchKernelGGL(meet, 1, 1, 0, s, right.open, left.open);
  OK(hipEventRecord(join, t));
  OK(hipStreamWaitEvent(s, join));
  hipLaunchKernelGGL(add, 1, 1, 0, s, v + 2, v, v + 1);
  OK(hipLaunchHostFunc(
      s, [](void *x) { static_cast<int *>(x)[3]++; }, v));
  FAILS(hipEventQuery(join), hipErrorCapturedEvent);
  hipGraph_t g;
  OK(hipStreamEndCapture(s, &g));
  OK(hipStreamIsCapturing(t, &status));
  CHECK(status == hipStreamCaptureStatusNone && v[0] == 0 && v[2] == 0);
  size_t n;
  OK(hipGraphGetNodes(g, nullptr, &n));
  CHECK(n == 8);
  hipGraphExec_t exec;
  OK(hipGraphInstantiate(&exec, g, nullptr, nullptr, 0));
  OK(hipGraphDestroy(g));
  for (int i = 1; i <= 3; i++) {
    left.open->store(0);
    right.open->store(0);
    OK(hipGraphLaunch(exec, i == 2 ? t : s));
    OK(hipDeviceSynchronize());
    CHECK(v[0] == 4 && v[1] == 43 && v[2] == 47 && v[3] == 1);
    v[2] = 0;
  }

  // a graph within a graph; and an exec that goes away while it runs
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
  OK(hipGraphLaunch(exec, s));
  step(s, v + 2, 9);
  OK(hipStreamEndCapture(s, &g));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphInstantiateWithFlags(&exec, g, 0));
  OK(hipGraphDestroy(g));
  left.open->store(0);
  right.open->store(0);
  Gate gate;
  close(s, gate);
  OK(hipGraphLaunch(exec, s));
  OK(hipGraphExecDestroy(exec));
  a_while();
  CHECK(v[2] == 0);
  gate.open->store(1);
  OK(hipStreamSynchronize(s));
  CHECK(v[2] == 479 && v[3] == 1);
  for (hipEvent_t e : {fork, join}) OK(hipEventDestroy(e));
  OK(hipStreamDestroy(s));
  OK(hipStreamDestroy(t));
  OK(hipFree(v));
}

// Launches of one graph on two streams do not overtake each other.
void graph_again(void **) {
  hipStream_t s = make(), t = make();
  int *p = device_int();
  hipGraph_t g;
  hipGraphExec_t exec;
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeThreadLocal));
  for (int i = 0; i < 10; i++) hipLaunchKernelGGL(times_plus, 1, 1, 0, s, p, 1, 1);
  OK(hipStreamEndCapture(s, &g));
  OK(hipGraphInstantiate(&exec, g, nullptr, nullptr, 0));
  for (int i = 0; i < 20; i++) OK(hipGraphLaunch(exec, i % 2 ? s : t));
  OK(hipDeviceSynchronize());
  CHECK(*p == 200);
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(g));
  OK(hipStreamDestroy(s));
  OK(hipStreamDestroy(t));
  OK(hipFree(p));
}

// Each of these spoils the capture, and EndCapture says so.
void spoil(hipStream_t s, hipError_t got, hipError_t want, hipError_t end) {
  hipGraph_t g;
  hipStreamCaptureStatus status;
  OK(hipStreamIsCapturing(s, &status));
  CHECK(got == want);
  CHECK((status == hipStreamCaptureStatusInvalidated) == (end == hipErrorStreamCaptureInvalidated));
  FAILS(hipStreamEndCapture(s, &g), end);
  CHECK(!g);
  OK(hipStreamIsCapturing(s, &status));
  CHECK(status == hipStreamCaptureStatusNone);
  (void)hipGetLastError();
}
void not_in_capture(void **) {
  hipStream_t s = make(), t = make(), u = make(hipStreamNonBlocking);
  hipEvent_t e = make_event(), before = make_event();
  int *p = device_int();
  void *q;
  const hipError_t bad = hipErrorStreamCaptureUnsupported,
                   spoilt = hipErrorStreamCaptureInvalidated;
  auto begin = [&](hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
    OK(hipStreamBeginCapture(s, mode));
  };
  OK(hipEventRecord(before, t));
  begin();
  spoil(s, hipStreamSynchronize(s), bad, spoilt);
  begin();
  spoil(s, hipStreamQuery(s), bad, spoilt);
  begin();
  spoil(s, hipMalloc(&q, 8), bad, spoilt);
  begin();
  spoil(s, hipMemcpy(p, p, 4, hipMemcpyDefault), bad, spoilt);
  begin(hipStreamCaptureModeThreadLocal);
  spoil(s, hipDeviceSynchronize(), bad, spoilt);
  begin();
  spoil(s, hipMemsetAsync(p, 0, 4, nullptr), hipErrorStreamCaptureImplicit, spoilt);
  begin();
  spoil(s, hipStreamWaitEvent(s, before), hipErrorStreamCaptureIsolation, spoilt);
  begin();
  OK(hipEventRecord(e, s));
  OK(hipStreamWaitEvent(t, e));
  step(t, p, 1);
  spoil(s, hipSuccess, hipSuccess, hipErrorStreamCaptureUnjoined);
  begin();
  OK(hipEventRecord(e, s));
  OK(hipStreamBeginCapture(u, hipStreamCaptureModeRelaxed));
  FAILS(hipStreamWaitEvent(u, e), hipErrorStreamCaptureMerge);
  hipGraph_t g;
  FAILS(hipStreamEndCapture(u, &g), spoilt);
  OK(hipStreamEndCapture(s, &g));
  OK(hipGraphDestroy(g));
  FAILS(hipStreamEndCapture(s, &g), hipErrorIllegalState);
  FAILS(hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal), bad);
  (void)hipGetLastError();

  // relaxed: the thread may allocate; a thread-local capture is no matter for other threads
  begin(hipStreamCaptureModeRelaxed);
  OK(hipMalloc(&q, 8));
  OK(hipFree(q));
  OK(hipStreamEndCapture(s, &g));
  OK(hipGraphDestroy(g));
  // or has been made so for a while
  begin();
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == hipStreamCaptureModeGlobal);
  OK(hipEventQuery(before));
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == hipStreamCaptureModeRelaxed);
  spoil(s, hipEventQuery(before), bad, spoilt);
  begin(hipStreamCaptureModeThreadLocal);
  hipError_t other = hipErrorUnknown, end = hipSuccess;
  std::thread([&] {
    other = hipMalloc(&q, 8);
    end = hipStreamEndCapture(s, &g);
  }).join();
  CHECK(other == hipSuccess && end == hipErrorStreamCaptureWrongThread);
  OK(hipStreamEndCapture(s, &g));
  OK(hipGraphDestroy(g));
  OK(hipFree(q));
  OK(hipFree(p));
  OK(hipEventDestroy(e));
  OK(hipEventDestroy(before));
  for (hipStream_t x : {s, t, u}) OK(hipStreamDestroy(x));
}

// Streams of many threads of the host at once, on two devices.
void many(void **) {
  std::atomic<int> bad{0};
  auto work = [&bad](int me) {
    bool ok = hipSetDevice(me % 2) == hipSuccess;
    int *p = nullptr, *q = nullptr;
    for (int round = 0; ok && round < 5; round++) {
      hipStream_t s, t;
      hipEvent_t e;
      ok = ok && hipMalloc(&p, 4) == hipSuccess && hipHostMalloc(&q, 4) == hipSuccess;
      ok = ok && hipStreamCreate(&s) == hipSuccess && hipStreamCreateWithFlags(&t, 1) == hipSuccess;
      ok = ok && hipEventCreate(&e) == hipSuccess;
      if (!ok) break;
      for (int i = 0; i < 8; i++) {
        hipLaunchKernelGGL(times_plus, 1, 1, 0, i % 2 ? s : t, p, 2, 1);
        ok = ok && hipEventRecord(e, i % 2 ? s : t) == hipSuccess;
        ok = ok && hipStreamWaitEvent(i % 2 ? t : s, e) == hipSuccess;
      }
      ok = ok && hipMemcpyAsync(q, p, 4, hipMemcpyDeviceToHost, t) == hipSuccess;
      ok = ok && hipStreamSynchronize(t) == hipSuccess && *q == 255;
      ok = ok && hipStreamDestroy(s) == hipSuccess && hipStreamDestroy(t) == hipSuccess;
      ok = ok && hipEventDestroy(e) == hipSuccess && hipFree(p) == hipSuccess;
      ok = ok && hipHostFree(q) == hipSuccess;
    }
    if (!ok) bad++;
  };
  std::thread threads[4];
  for (int i = 0; i < 4; i++) threads[i] = std::thread(work, i);
  for (std::thread &t : threads) t.join();
  CHECK(bad == 0);
}

__global__ void forever() {
  for (;;) hip_cpu::pause();
}
// A program may end while its kernels run, and fork while its threads are at work.
void exits_and_forks(void **) {
  auto run_forever = [] {
    for (int i = 0; i < 3; i++) {
      hipStream_t s;
      STEP(hipStreamCreateWithFlags(&s, hipStreamNonBlocking) == hipSuccess);
      hipLaunchKernelGGL(forever, 2, 3, 0, s);
      STEP(hipGetLastError() == hipSuccess);
    }
    usleep(20000);
  };
  CHECK(in_child([&] {
          run_forever();
          exit(0);
          return 1;
        }) == 0);
#ifndef __SANITIZE_THREAD__ // it does not go on after a fork with threads
  CHECK(in_child([&] {
          run_forever();
          int inner = in_child([] {
            int *p;
            STEP(hipMalloc(&p, 4) == hipSuccess);
            step(nullptr, p, 5);
            STEP(hipDeviceSynchronize() == hipSuccess && *p == 5);
            return 0;
          });
          STEP(inner == 0);
          int *p;
          hipStream_t s;
          STEP(hipStreamCreateWithFlags(&s, hipStreamNonBlocking) == hipSuccess);
          STEP(hipMalloc(&p, 4) == hipSuccess);
          step(s, p, 6);
          STEP(hipStreamSynchronize(s) == hipSuccess && *p == 6);
          return 0;
        }) == 0);
#endif
}

} // namespace

int main() {
  setenv("SHMEM_CPU_DEVICES", "2", 1);
  const CMUnitTest tests[] = {
      cmocka_unit_test(exits_and_forks),
      cmocka_unit_test(in_order),
      cmocka_unit_test(side_by_side),
      cmocka_unit_test(null_stream),
      cmocka_unit_test(events),
      cmocka_unit_test(graph),
      cmocka_unit_test(graph_again),
      cmocka_unit_test(not_in_capture),
      cmocka_unit_test(many),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

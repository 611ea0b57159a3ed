// SPDX-License-Identifier: MIT
// The packet processor with packets that wait, and with doorbells.
#include "driver.hpp"
#include "machine.hpp"
#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <ctime>
#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <thread>
#if __has_include(<hsakmt.h>) || __has_include(<hsakmt/hsakmt.h>)
#define HAS_EVENTS
#include "hsakmt.hpp"
#endif

extern "C" {
#include <cmocka.h>
#undef stop // a macro of cmocka 2
}

using namespace amdgpu;

namespace {

constexpr uint64_t slots = 8;
constexpr uint16_t vendor = 0;

// A queue as ROCr makes one, and the memory of its packets. The processor keeps it: nothing is
// freed.
struct Packets {
  alignas(64) uint8_t ring[slots * packet_bytes] = {};
  alignas(64) amd_queue_t queue = {};
  alignas(64) amd_signal_t signal[5] = {}, done = {};
  volatile uint64_t doorbell = 0;
  uint64_t id;
  Packets() {
    for (uint64_t at = 0; at < slots; at++) put<uint16_t>(at, 0, HSA_PACKET_TYPE_INVALID);
    id = create_queue(1, ring, sizeof ring, &queue.read_dispatch_id, &doorbell);
  }
  ~Packets() { assert_true(destroy_queue(id)); }
  template <class T> void put(uint64_t packet, size_t offset, T value) {
    memcpy(ring + packet % slots * packet_bytes + offset, &value, sizeof value);
  }
  uint64_t take() { return __atomic_fetch_add(&queue.write_dispatch_id, 1, __ATOMIC_SEQ_CST); }
  // From here on the packet is the processor's. Its end counts `done` down.
  void give(uint64_t packet, uint16_t type) {
    put(packet, 56, &done);
    void *const at = __builtin_assume_aligned(ring + packet % slots * packet_bytes, packet_bytes);
    __atomic_store_n(static_cast<uint16_t *>(at), type, __ATOMIC_RELEASE);
  }
  void ring_for(uint64_t packet) { __atomic_store_n(&doorbell, packet, __ATOMIC_RELEASE); }
  void set(int which, int64_t value) {
    __atomic_store_n(&signal[which].value, value, __ATOMIC_SEQ_CST);
  }
  // So many packets have ended: soon, and then no more of them.
  void expect(int64_t ended) const {
    const auto value = [&] { return -__atomic_load_n(&done.value, __ATOMIC_SEQ_CST); };
    const timespec step = {0, 1000000};
    for (int ms = 0; ms < 5000 && value() < ended; ms++) nanosleep(&step, nullptr);
    for (int ms = 0; ms < 20; ms++) nanosleep(&step, nullptr);
    assert_int_equal(value(), ended);
    assert_int_equal(queue.read_dispatch_id, ended);
  }
};

void test_barriers(void **) {
  Packets p;
  const auto barrier = [&](uint16_t type) {
    const uint64_t packet = p.take();
    for (size_t i = 0; i < 2; i++)
      p.put(packet, 8 + 8 * 3 * i, p.signal + i); // the packet's first and fourth
    for (int i = 0; i < 2; i++) p.set(i, 1);
    p.give(packet, type);
    p.ring_for(packet);
  };
  barrier(HSA_PACKET_TYPE_BARRIER_AND);
  p.expect(0);
  p.set(1, 0);
  p.expect(0);
  p.set(0, 0);
  p.expect(1);
  barrier(HSA_PACKET_TYPE_BARRIER_OR);
  p.expect(1);
  p.set(1, 0);
  p.expect(2);
  // A packet that names no signal waits for none.
  for (uint16_t type : {HSA_PACKET_TYPE_BARRIER_AND, HSA_PACKET_TYPE_BARRIER_OR}) {
    const uint64_t packet = p.take();
    p.give(packet, type);
    p.ring_for(packet);
  }
  p.expect(4);
}

// AMD's own, of HIP's graphs from 6.4 on: (value & mask) beside a number.
void test_barrier_value(void **) {
  const struct {
    hsa_signal_condition_t condition;
    int64_t number, no, yes;
  } rows[] = {{HSA_SIGNAL_CONDITION_EQ, 4, 5, 0x1004},
              {HSA_SIGNAL_CONDITION_NE, 4, 0x1004, 5},
              {HSA_SIGNAL_CONDITION_LT, 4, 4, 0x1003},
              {HSA_SIGNAL_CONDITION_GTE, 4, 0x1003, 4}};
  Packets p;
  int64_t ended = 0;
  for (const auto &row : rows) {
    const uint64_t packet = p.take();
    p.put<uint8_t>(packet, 2, 2);
    p.put(packet, 8, p.signal);
    p.put<int64_t>(packet, 16, row.number), p.put<int64_t>(packet, 24, 0xfff);
    p.put<uint32_t>(packet, 32, row.condition);
    p.set(0, row.no);
    p.give(packet, vendor);
    p.ring_for(packet);
    p.expect(ended);
    p.set(0, row.yes);
    p.expect(++ended);
  }
}

// Two threads take a packet each; the second is ready first. Its packet must not be forgotten when
// the first one's ring, of a smaller number, takes its place.
void test_doorbell_goes_back(void **) {
  Packets p;
  for (int64_t turn = 0; turn < 20; turn++) { // more than the ring has slots
    const uint64_t first = p.take(), then = p.take();
    p.give(then, HSA_PACKET_TYPE_BARRIER_AND);
    p.ring_for(then);
    if (turn % 4 == 0) p.expect(2 * turn);
    p.give(first, HSA_PACKET_TYPE_BARRIER_AND);
    p.ring_for(first);
    p.expect(2 * turn + 2);
  }
}

// A packet without a ring stays.
void test_no_doorbell(void **) {
  Packets p;
  const uint64_t first = p.take();
  p.give(first, HSA_PACKET_TYPE_BARRIER_AND);
  p.expect(0);
  p.ring_for(first);
  p.expect(1);
}

#ifdef HAS_EVENTS
// Each thread that waits for an event hears of it, also when another came first.
void test_two_waiters(void **) {
  HsaEventDescriptor description = {};
  description.EventType = HSA_EVENTTYPE_SIGNAL;
  HsaEvent *event;
  assert_int_equal(hsaKmtCreateEvent(&description, false, false, &event), HSAKMT_STATUS_SUCCESS);
  constexpr int rounds = 200;
  std::atomic<int> heard{0};
  std::thread other([&] {
    while (heard < rounds) {
      hsaKmtWaitOnEvent(event, ~0u);
      heard++;
    }
  });
  const timespec step = {0, 200000};
  for (int round = 0; round < rounds; round++) {
    nanosleep(&step, nullptr); // it waits, as a rule
    hsaKmtSetEvent(event);
    assert_int_equal(hsaKmtWaitOnEvent(event, 0), HSAKMT_STATUS_SUCCESS);
    for (int tries = 0; tries < 25000 && heard <= round; tries++) nanosleep(&step, nullptr);
    assert_int_equal(heard, round + 1);
  }
  other.join();
  assert_int_equal(hsaKmtWaitOnEvent(event, 0), HSAKMT_STATUS_WAIT_TIMEOUT);
  hsaKmtDestroyEvent(event);
}
#endif

} // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(test_barriers), cmocka_unit_test(test_barrier_value),
                              cmocka_unit_test(test_doorbell_goes_back),
#ifdef HAS_EVENTS
                              cmocka_unit_test(test_two_waiters),
#endif
                              cmocka_unit_test(test_no_doorbell)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

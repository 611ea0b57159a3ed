// SPDX-License-Identifier: MIT
// Events, on which host threads sleep until a packet is done.
#include "driver.hpp"
#include "hsakmt.hpp"
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

namespace amdgpu {
namespace {

struct Event {
  HsaEvent event = {};
  bool manual = false;
  uint64_t mailbox = 0; // the packet processor writes the id there
  uint64_t age = 1;     // how often it was set, from 1: a thread that has seen less need not wait
};
// Not destroyed when the process ends: threads of the runtime, and the processor, are still there.
std::mutex &lock = *new std::mutex;
auto &changed = *new std::condition_variable;
auto &events = *new std::map<HSAuint32, std::unique_ptr<Event>>;
HSAuint32 next_id = 1;
// The age that this thread has seen of each event. Runtimes before 5.6 do not say it, and two of
// their threads wait for one event when a queue is destroyed: while the first to wake took it from
// the other, one exit in 500 hung on a busy machine (2026-11-23). Not destroyed either: the end of
// a process waits as well.
thread_local auto &seen = *new std::map<HSAuint32, uint64_t>;

Event *of(HsaEvent *event) {
  const auto at = events.find(event->EventId);
  return at == events.end() ? nullptr : at->second.get();
}

} // namespace

void set_event(uint32_t id) {
  if (!id) return;
  {
    std::lock_guard guard(lock);
    const auto at = events.find(id);
    if (at == events.end()) return;
    at->second->age++;
  }
  changed.notify_all();
}

} // namespace amdgpu

using namespace amdgpu;

extern "C" {

// Newer than 5.2's header.
HSAKMT_STATUS HSAKMTAPI hsaKmtWaitOnMultipleEvents_Ext(HsaEvent *[], HSAuint32, bool, HSAuint32,
                                                       uint64_t *);
HSAKMT_STATUS HSAKMTAPI hsaKmtWaitOnEvent_Ext(HsaEvent *, HSAuint32, uint64_t *);

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor *description, bool manual, bool set,
                                HsaEvent **event) {
  std::lock_guard guard(lock);
  auto made = std::make_unique<Event>();
  made->manual = manual, made->age += set;
  made->event.EventId = next_id++;
  made->event.EventData.EventType = description->EventType;
  made->event.EventData.EventData.SyncVar = description->SyncVar;
  made->event.EventData.HWData1 = made->event.EventId;
  made->event.EventData.HWData2 = reinterpret_cast<HSAuint64>(&made->mailbox);
  made->event.EventData.HWData3 = made->event.EventId;
  *event = &made->event;
  events[made->event.EventId] = std::move(made);
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent *event) {
  std::lock_guard guard(lock);
  // Its mailbox may still be written to: the packet processor and this thread do not know of each
  // other.
  if (const auto at = events.find(event->EventId); at != events.end())
    (void)at->second.release(), events.erase(at);
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtSetEvent(HsaEvent *event) {
  set_event(event->EventId);
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtWaitOnMultipleEvents_Ext(HsaEvent *list[], HSAuint32 count, bool all,
                                             HSAuint32 milliseconds, uint64_t *ages) {
  const auto ready = [&] {
    HSAuint32 set = 0;
    for (HSAuint32 i = 0; i < count; i++)
      if (const Event *e = of(list[i])) {
        const auto found = seen.find(list[i]->EventId);
        const uint64_t before = ages && ages[i]                    ? ages[i]
                                : e->manual || found == seen.end() ? 1
                                                                   : found->second;
        set += e->age != before;
      }
    return all ? set == count : set > 0;
  };
  std::unique_lock guard(lock);
  if (milliseconds == HSA_EVENTTIMEOUT_INFINITE)
    changed.wait(guard, ready);
  else if (!changed.wait_for(guard, std::chrono::milliseconds(milliseconds), ready))
    return HSAKMT_STATUS_WAIT_TIMEOUT;
  for (HSAuint32 i = 0; i < count; i++) {
    const Event *e = of(list[i]);
    if (!e) continue;
    seen[list[i]->EventId] = e->age;
    if (ages) ages[i] = e->age;
  }
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent *list[], HSAuint32 count, bool all,
                                         HSAuint32 milliseconds) {
  return hsaKmtWaitOnMultipleEvents_Ext(list, count, all, milliseconds, nullptr);
}
HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent *event, HSAuint32 milliseconds) {
  return hsaKmtWaitOnMultipleEvents_Ext(&event, 1, true, milliseconds, nullptr);
}
HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent *event, HSAuint32 milliseconds, uint64_t *age) {
  return hsaKmtWaitOnMultipleEvents_Ext(&event, 1, true, milliseconds, age);
}

} // extern "C"

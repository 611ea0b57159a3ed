// SPDX-License-Identifier: MIT
// PyTorch's symmetric memory on the symmetric heap: what torch.distributed._symmetric_memory and
// torch.ops.symm_mem take from an allocator. _backend.py builds it, and gives it four functions:
// memory comes from shmem.empty, so that its lifetime is that of any array of the package.
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>
#include <torch/extension.h>

#include <chrono>
#include <map>
#include <mutex>

// Of the library, which _library.py has loaded with its names global.
extern "C" {
int shmem_my_pe(void);
void *shmem_ptr(const void *dest, int pe);
void shmem_quiet(void);
void shmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe);
uint64_t shmem_signal_fetch(const uint64_t *sig_addr);
uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value);
void shmemx_quiet_on_stream(void *stream);
void shmemx_signal_add_on_stream(uint64_t *sig_addr, uint64_t signal, int pe, void *stream);
void shmemx_signal_wait_until_on_stream(uint64_t *sig_addr, int cmp, uint64_t cmp_value,
                                        void *stream);
}

namespace {

namespace symm = c10d::symmetric_memory;
using Group = std::optional<std::string>;

// Python's, of _backend.py, and never destroyed: PyTorch frees memory after Python has ended.
struct Python {
  py::function allocate;  // bytes, of which the last `zeros` become 0, type of device -> tensor
  py::function members;   // name of a group -> its PEs
  py::function stream;    // number of a device -> its current stream
  py::function on_device; // numbers, type of device -> tensor
};
Python *python = nullptr;

// A text in one piece: PyTorch would join pieces by a stream of the C++ library, and crashed where
// the compiler links this extension with a static copy of that (Ubuntu 24.04's image with CUDA 13,
// 2026-11-27).
using std::to_string;
[[noreturn]] void fail(const std::string &text) {
  TORCH_CHECK(false, "PE " + to_string(shmem_my_pe()) + ": " + text);
}

constexpr size_t align = 256;
constexpr int compare_ge = COMPARE_GE;

// Behind a buffer lie its signal pad, of kernels, and a counter for each word of the pad, of
// put_signal and its like: a signal counts up, a wait counts down, and so does a graph's.
struct SymmetricBlock {
  at::Tensor memory;
  char *start;
  size_t bytes, pad_bytes;
  c10::Device device;
  Group group;

  char *pad() const { return start + (bytes + align - 1) / align * align; }
  uint64_t *counters() const { return reinterpret_cast<uint64_t *>(pad() + pad_bytes); }
};

class Memory : public symm::SymmetricMemory {
public:
  Memory(const SymmetricBlock &block, size_t offset, std::vector<int> pes)
      : block(block), offset(offset), pes(std::move(pes)) {
    for (size_t i = 0; i < this->pes.size(); i++) {
      const int pe = this->pes[i];
      if (pe == shmem_my_pe()) me = int(i);
      buffers.push_back(shmem_ptr(block.start, pe));
      pads.push_back(shmem_ptr(block.pad(), pe));
      direct = direct && buffers.back();
    }
    if (me < 0) fail("rendezvous: group: this PE is not a member");
    if (block.device.is_cpu()) return;
    // The constructor copies the tables: a call that a graph captures may not copy from the host.
    buffers_dev = on_device(buffers);
    pads_dev = on_device(pads);
    ranks_dev = on_device(this->pes).to(at::kInt);
  }

  std::vector<void *> get_buffer_ptrs() override { return buffers; }
  std::vector<void *> get_signal_pad_ptrs() override { return pads; }
  void **get_buffer_ptrs_dev() override { return of(buffers, buffers_dev); }
  void **get_signal_pad_ptrs_dev() override { return of(pads, pads_dev); }
  size_t get_buffer_size() override { return block.bytes; }
  size_t get_offset() override { return offset; }
  bool has_multicast_support() override { return false; }
  void *get_multicast_ptr() override { return nullptr; }
  int get_rank() override { return me; }
  int get_world_size() override { return int(pes.size()); }
  c10::Device get_device() override { return block.device; }
  const std::vector<int> &get_rank_to_global_rank() override { return pes; }
  bool world_within_direct_access() override { return direct; }

  int *get_rank_to_global_rank_dev() override { return of(pes, ranks_dev); }

  void put_signal(int dst, int channel, size_t) override {
    uint64_t *const counter = counter_of("put_signal", "dst_rank", dst, channel, me);
    complete();
    add(counter, 1, pes[dst]);
  }

  void wait_signal(int src, int channel, size_t timeout_ms) override {
    take(counter_of("wait_signal", "src_rank", src, channel, src), src, timeout_ms);
  }

  void barrier(int channel, size_t timeout_ms) override {
    counter_of("barrier", "rank", me, channel, me); // checks, where there is no peer, too
    complete();
    const int n = get_world_size();
    for (int i = 0; i < n; i++)
      if (i != me) add(counter_of("barrier", "rank", i, channel, me), 1, pes[i]);
    for (int i = 0; i < n; i++)
      if (i != me) take(counter_of("barrier", "rank", i, channel, i), i, timeout_ms);
  }

private:
  SymmetricBlock block; // also keeps the memory
  size_t offset;
  std::vector<int> pes;
  std::vector<void *> buffers, pads;
  int me = -1;
  bool direct = true;
  at::Tensor buffers_dev, pads_dev, ranks_dev;

  template <class T> at::Tensor on_device(const std::vector<T> &values) {
    std::vector<int64_t> numbers;
    for (T value : values) numbers.push_back(int64_t(value));
    const py::gil_scoped_acquire gil;
    return python->on_device(numbers, block.device.str()).template cast<at::Tensor>();
  }

  // The address of the values for code on the block's device.
  template <class T> T *of(std::vector<T> &values, const at::Tensor &copy) {
    return block.device.is_cpu() ? values.data() : static_cast<T *>(copy.data_ptr());
  }

  uint64_t *counter_of(const char *fn, const char *arg, int peer, int channel, int from) {
    const int n = get_world_size(), channels = int(block.pad_bytes / 4 / n);
    if (peer < 0 || peer >= n)
      fail(std::string(fn) + ": " + arg + " = " + to_string(peer) + ": the group has " +
           to_string(n) + " members");
    if (channel < 0 || channel >= channels)
      fail(std::string(fn) + ": channel = " + to_string(channel) + ": a signal pad of " +
           to_string(block.pad_bytes) + " bytes has " + to_string(channels) + " channels for " +
           to_string(n) + " members");
    return block.counters() + channel * n + from;
  }

  void *stream() {
    py::gil_scoped_acquire gil;
    return reinterpret_cast<void *>(python->stream(block.device.index()).cast<intptr_t>());
  }

  void complete() {
    if (block.device.is_cpu())
      shmem_quiet();
    else
      shmemx_quiet_on_stream(stream());
  }

  void add(uint64_t *counter, uint64_t n, int pe) {
    if (block.device.is_cpu())
      shmem_signal_add(counter, n, pe);
    else
      shmemx_signal_add_on_stream(counter, n, pe, stream());
  }

  void take(uint64_t *counter, int from, size_t timeout_ms) {
    if (!block.device.is_cpu()) {
      shmemx_signal_wait_until_on_stream(counter, compare_ge, 1, stream());
    } else if (!timeout_ms) {
      shmem_signal_wait_until(counter, compare_ge, 1);
    } else {
      using clock = std::chrono::steady_clock;
      const auto until = clock::now() + std::chrono::milliseconds(timeout_ms);
      while (!shmem_signal_fetch(counter))
        if (clock::now() >= until)
          fail("rank " + to_string(from) + " has not signalled for " + to_string(timeout_ms) +
               " ms");
    }
    add(counter, uint64_t(-1), shmem_my_pe());
  }
};

class Allocator : public symm::SymmetricMemoryAllocator {
public:
  explicit Allocator(c10::DeviceType type) : type(type) {}

  void *alloc(size_t size, int device_idx, const Group &group) override {
    SymmetricBlock block{{}, nullptr, size, symm::get_signal_pad_size(), c10::Device(type), group};
    const size_t zeros = 3 * block.pad_bytes; // words of 4 bytes, and their counters of 8
    py::gil_scoped_acquire gil;
    const size_t bytes = size_t(block.pad() - block.start) + zeros;
    block.memory =
        python->allocate(bytes, zeros, c10::DeviceTypeName(type, true)).cast<at::Tensor>();
    block.device = block.memory.device();
    // After the allocation, in which all PEs take part.
    if (device_idx >= 0 && block.device.has_index() && block.device.index() != device_idx)
      fail("empty: device = " + c10::DeviceTypeName(type, true) + ":" + to_string(device_idx) +
           ": this PE has " + block.device.str());
    block.start = static_cast<char *>(block.memory.data_ptr());
    const std::lock_guard<std::mutex> lock(mutex);
    blocks.insert_or_assign(block.start, SharedBlock{block, {}});
    return block.start;
  }

  void free(void *ptr) override {
    if (symm::is_finalizing() || !Py_IsInitialized()) return;
    py::gil_scoped_acquire gil; // before the lock: the tensors below are objects of Python's
    std::unique_lock<std::mutex> lock(mutex);
    auto gone = blocks.extract(static_cast<char *>(ptr));
    lock.unlock();
  }

  size_t get_alloc_size(void *ptr) override {
    const std::lock_guard<std::mutex> lock(mutex);
    const SharedBlock *shared = find(ptr);
    if (!shared)
      fail("get_alloc_size: address " + to_string(uintptr_t(ptr)) +
           ": not of torch.distributed._symmetric_memory.empty");
    return shared->block.bytes;
  }

  // Operators of PyTorch call this function in each call of theirs, some to ask whether a tensor is
  // of this memory: null if it is not, as from PyTorch's own back ends.
  c10::intrusive_ptr<symm::SymmetricMemory> rendezvous(void *ptr, const Group &group) override {
    std::unique_lock<std::mutex> lock(mutex);
    const SharedBlock *shared = find(ptr);
    if (!shared) return nullptr;
    const Group &name = group ? group : shared->block.group;
    if (!name) fail("rendezvous: group: neither here nor where the tensor was made");
    const std::pair key(*name, size_t(static_cast<char *>(ptr) - shared->block.start));
    const auto resolved = c10d::resolve_process_group(key.first);
    const auto kept = shared->handles.find(key);
    if (kept != shared->handles.end() && kept->second.group.lock() == resolved)
      return kept->second.memory;
    const SymmetricBlock block = shared->block; // a copy, because the table is unlocked from here
    lock.unlock();
    std::vector<int> pes;
    {
      py::gil_scoped_acquire gil;
      pes = python->members(key.first).cast<std::vector<int>>();
    }
    auto memory = c10::make_intrusive<Memory>(block, key.second, std::move(pes));
    lock.lock();
    SharedBlock *const again = find(ptr);
    if (!again) return memory; // the tensor has been freed meanwhile
    const auto gone = again->handles.extract(key);
    again->handles.emplace(key, MemoryOfGroup{decltype(MemoryOfGroup::group)(resolved), memory});
    lock.unlock(); // `gone` ends after this line: its tensors are objects of Python's
    return memory;
  }

  bool has_multicast_support(int) override { return false; }
  c10::DeviceType supported_device_type() override { return type; }
  std::string name() override { return "SHMEM"; }

private:
  // Another group may have the same name later.
  struct MemoryOfGroup {
    c10::weak_intrusive_ptr<c10d::ProcessGroup> group;
    c10::intrusive_ptr<Memory> memory;
  };
  struct SharedBlock {
    SymmetricBlock block;
    std::map<std::pair<std::string, size_t>, MemoryOfGroup> handles; // by group and offset
  };
  c10::DeviceType type;
  std::mutex mutex;
  std::map<char *, SharedBlock> blocks; // by start

  // With the lock held. Null: no block has the address.
  SharedBlock *find(void *ptr) {
    char *const at = static_cast<char *>(ptr);
    auto it = blocks.upper_bound(at);
    if (it == blocks.begin() || at - (--it)->first > ptrdiff_t(it->second.block.bytes))
      return nullptr;
    return &it->second;
  }
};

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("install", [](py::function allocate, py::function members, py::function stream,
                      py::function on_device) {
    python = new Python{allocate, members, stream, on_device};
    // PyTorch destroys the allocators that it knows at the process's end, after its allocator of
    // GPU memory. The tables of handles are GPU memory, so one reference stays for ever.
    const auto make = [](c10::DeviceType type) {
      return *new c10::intrusive_ptr<Allocator>(c10::make_intrusive<Allocator>(type));
    };
    symm::register_allocator(c10::DeviceType::CPU, make(c10::DeviceType::CPU));
    symm::register_availability("SHMEM", make(c10::DeviceType::CUDA));
  });
}

// SPDX-License-Identifier: MIT
// Kernels whose results do not depend on the machine: the same source, compiled by hipcc for a GPU
// and by the host's compiler for the CPU platform, prints the same lines. reference.py compares
// them.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shmem/device/number.hpp>

#define HIP(call)                                                                                  \
  do {                                                                                             \
    const hipError_t error_ = (call);                                                              \
    if (error_ != hipSuccess) {                                                                    \
      printf("%s: %s\n", #call, hipGetErrorString(error_));                                        \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

constexpr unsigned n = 256;

template <class T> struct NameOf;
#define NAME(type, sums)                                                                           \
  template <> struct NameOf<type> {                                                                \
    static constexpr const char *text = #type;                                                     \
    using Wraps = sums;                                                                            \
  }
NAME(uint8_t, uint8_t);
NAME(uint16_t, uint16_t);
NAME(uint32_t, uint32_t);
NAME(uint64_t, uint64_t);
NAME(int8_t, uint8_t);
NAME(int16_t, uint16_t);
NAME(int32_t, uint32_t);
NAME(int64_t, uint64_t);
NAME(float, float);
NAME(double, double);
template <class T> constexpr bool integer = T(0.5) == T(0);
template <class T> using Wraps = typename NameOf<T>::Wraps; // sums that leave the range

static uint64_t state = 88172645463325252;
static uint64_t random_bits() {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
// Integers of all lengths, and floating-point numbers whose quotients are normal, with special ones
// first.
template <class T> static T value(unsigned i) {
  if constexpr (integer<T>) {
    const T special[] = {
        0, 1, T(-1),  T(T(1) << (8 * sizeof(T) - 1)), T(~(T(1) << (8 * sizeof(T) - 1))),
        2, 3, T(0x55)};
    return i < 8 ? special[i] : T(random_bits() >> random_bits() % 64);
  } else {
    const T special[] = {0, T(-0.0), 1, -1, T(INFINITY), T(-INFINITY), T(NAN), T(0x1p-149)};
    const T mantissa = T(int64_t(random_bits())) * T(0x1p-63);
    return i < 8 ? special[i] : std::ldexp(mantissa, int(random_bits() % 60) - 30);
  }
}
template <class R> __host__ __device__ uint64_t bits_of(R r) { // of NaNs there are many
  uint64_t bits = 0;
  if (r != r) return 0x7ff8;
  __builtin_memcpy(&bits, &r, sizeof r);
  return bits;
}

struct Lines { // what kernels write
  uint64_t *at;
  Lines() {
    HIP(hipHostMalloc(reinterpret_cast<void **>(&at), n * 8, 0));
    memset(at, 0, n * 8);
  }
  ~Lines() {
    HIP(hipGetLastError());
    HIP(hipHostFree(at));
  }
  void print(const char *what, const char *type) const {
    HIP(hipDeviceSynchronize());
    for (unsigned i = 0; i < n; i++)
      printf("%s %s %u %016llx\n", what, type, i, static_cast<unsigned long long>(at[i]));
  }
};
template <class T> struct Values {
  T *at;
  explicit Values(unsigned from = 0) {
    HIP(hipHostMalloc(reinterpret_cast<void **>(&at), n * sizeof(T), 0));
    // Each special one with each.
    for (unsigned i = 0; i < n; i++) at[i] = value<T>(i >= 64 ? i : from ? i / 8 : i % 8);
  }
  ~Values() { HIP(hipHostFree(at)); }
};

template <class F, class A, class B>
__global__ void apply(const A *a, const B *b, uint64_t *out, F f) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = bits_of(f(a[i], b[i]));
}
template <class T, class F> static void each(const char *what, F f) {
  const Values<T> a, b(1);
  const Lines out;
  hipLaunchKernelGGL((apply<F, T, T>), dim3(n / 64), dim3(64), 0, nullptr,
                     static_cast<const T *>(a.at), static_cast<const T *>(b.at), out.at, f);
  out.print(what, NameOf<T>::text);
}
#define OPERATION(name, ...)                                                                       \
  struct name {                                                                                    \
    template <class T> __device__ auto operator()(T a, T b) const {                                \
      using U = Wraps<T>;                                                                          \
      (void)a, (void)b, (void)sizeof(U);                                                           \
      return __VA_ARGS__;                                                                          \
    }                                                                                              \
  };
OPERATION(Add, T(U(a) + U(b)))
OPERATION(Subtract, T(U(a) - U(b)))
OPERATION(Multiply, T(uint64_t(a) * uint64_t(b)))
OPERATION(Divide, b == T(0) || (b == T(-1) && !(T(-1) > 0)) ? T(7) : T(a / b))
OPERATION(Rest, b == T(0) || (b == T(-1) && !(T(-1) > 0)) ? T(7) : T(a % b))
OPERATION(Narrow, T((a & 0xfff) / ((b & 63) + 1)))
OPERATION(And, T(a &b))
OPERATION(Or, T(a | b))
OPERATION(Xor, T(a ^ b))
OPERATION(Not, T(~a))
OPERATION(Left, T(U(a) << (unsigned(b) % (8 * sizeof(T)))))
OPERATION(Right, T(a >> (unsigned(b) % (8 * sizeof(T)))))
OPERATION(Rotate, T(U(a) << 3 | U(a) >> (8 * sizeof(T) - 3)))
OPERATION(Minimum, a < b ? a : b)
OPERATION(Maximum, a > b ? a : b)
OPERATION(Order, int(a < b) | int(a <= b) << 1 | int(a == b) << 2 | int(a != b) << 3 |
                     int(a > b) << 4 | int(a >= b) << 5)
OPERATION(Bits, __popcll(uint64_t(a)) | __clzll(uint64_t(a)) << 8 |
                    __ffsll((unsigned long long)(b)) << 16 | __popc(unsigned(b)) << 24)
OPERATION(High, uint64_t((unsigned __int128)(uint64_t(a)) * uint64_t(b) >> 64))
OPERATION(Sum, a + b)
OPERATION(Difference, a - b)
OPERATION(Product, a *b)
OPERATION(Quotient, a / b)
OPERATION(Fused, __builtin_fma(double(a), double(b), 1.25))
OPERATION(FusedFloat, __builtin_fmaf(float(a), float(b), -0.75f))
OPERATION(Root, std::sqrt(std::fabs(a)))
OPERATION(Rounded, std::floor(a) + T(4) * (std::ceil(b) - b) + std::trunc(a) + std::rint(b))
OPERATION(Scaled, std::ldexp(a, 5))
OPERATION(Magnitude, std::fabs(a) - std::copysign(b, a))
OPERATION(Halves, shmem::to_float(shmem::from_float<shmem::Half>(float(a))) + float(b != b))

template <class T> static void integers() {
  each<T>("add", Add{}), each<T>("subtract", Subtract{}), each<T>("multiply", Multiply{}),
      each<T>("divide", Divide{});
  each<T>("rest", Rest{}), each<T>("narrow", Narrow{}), each<T>("and", And{}), each<T>("or", Or{}),
      each<T>("xor", Xor{});
  each<T>("not", Not{}), each<T>("left", Left{}), each<T>("right", Right{}),
      each<T>("rotate", Rotate{});
  each<T>("minimum", Minimum{}), each<T>("maximum", Maximum{}), each<T>("order", Order{}),
      each<T>("bits", Bits{});
  // Of shorter ones that are negative, clang 15 takes a signed upper half (v_mul_hi_i32_i24) for an
  // unsigned one.
  if constexpr (sizeof(T) >= 4) each<T>("high", High{});
}
template <class T> static void floats() {
  each<T>("sum", Sum{}), each<T>("difference", Difference{}), each<T>("product", Product{}),
      each<T>("quotient", Quotient{});
  each<T>("fused", Fused{}), each<T>("fused float", FusedFloat{}), each<T>("root", Root{}),
      each<T>("rounded", Rounded{});
  each<T>("scaled", Scaled{}), each<T>("magnitude", Magnitude{}), each<T>("minimum", Minimum{});
  each<T>("maximum", Maximum{}), each<T>("order", Order{}), each<T>("halves", Halves{});
}

// Conversions of the types that the target has.
template <class To> struct Convert {
  template <class From> __device__ To operator()(From a, From) const {
    if constexpr (integer<To> && !integer<From>) {
      const From most = sizeof(To) == 1   ? 100
                        : sizeof(To) == 2 ? 30000
                        : sizeof(To) == 4 ? From(2e9)
                                          : From(9e18);
      if (!(std::fabs(a) < most)) return To(3);
      return To(To(-1) > 0 ? std::fabs(a) : a);
    }
    return To(a);
  }
};
template <class From, class... To> static void conversions() {
  (each<From>(NameOf<To>::text, Convert<To>{}), ...);
}

// Lanes learn of each other.
template <class T> __global__ void lanes(const T *a, uint64_t *out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const int lane = int(threadIdx.x % 64);
  const T v = a[i];
  uint64_t h = bits_of(__shfl(v, (lane * 7 + 3) % 64));
  h = h * 31 + bits_of(__shfl_up(v, 5u));
  h = h * 31 + bits_of(__shfl_down(v, 9u, 32));
  h = h * 31 + bits_of(__shfl_xor(v, 17));
  h = h * 31 + bits_of(__shfl(v, lane % 3, 16));
  h = h * 31 + __ballot(v > T(7)) + uint64_t(__any(v == T(1))) + 2 * uint64_t(__all(lane < 64));
  T sum = v; // of the wave, by halves
  for (int by = 32; by; by /= 2) sum = T(Wraps<T>(sum) + Wraps<T>(__shfl_xor(sum, by)));
  out[i] = h * 31 + bits_of(sum);
}
template <class T> static void waves() {
  Values<T> a;
  if (!integer<T>)
    for (unsigned i = 0; i < n; i++) a.at[i] = T(int(i * 37 % 101)); // sums that are exact
  const Lines out;
  hipLaunchKernelGGL(lanes<T>, dim3(2), dim3(128), 0, nullptr, static_cast<const T *>(a.at),
                     out.at);
  out.print("lanes", NameOf<T>::text);
}

// Shared memory, each type by its own accesses, and wide ones: a scan, and turned round.
template <class T> struct alignas(16) Four { T v[16 / sizeof(T)]; };
template <class T> __global__ void block(const T *a, uint64_t *out) {
  __shared__ T kept[2][n];
  __shared__ Four<T> wide[n];
  const unsigned i = threadIdx.x;
  kept[0][i] = a[i];
  __syncthreads();
  unsigned from = 0;
  for (unsigned by = 1; by < n; by *= 2, from ^= 1) {
    kept[from ^ 1][i] =
        i < by ? kept[from][i] : T(Wraps<T>(kept[from][i]) + Wraps<T>(kept[from][i - by]));
    __syncthreads();
  }
  Four<T> f;
  for (unsigned k = 0; k < 16 / sizeof(T); k++) f.v[k] = kept[from][(i + k * 5) % n];
  wide[n - 1 - i] = f;
  __syncthreads();
  uint64_t h = 0;
  const Four<T> g = wide[(i * 3 + 1) % n];
  for (unsigned k = 0; k < 16 / sizeof(T); k++) h = h * 31 + bits_of(g.v[k]);
  out[i] = h;
}
template <class T> static void blocks() {
  Values<T> a;
  if (!integer<T>)
    for (unsigned i = 0; i < n; i++) a.at[i] = T(int(i * 29 % 97));
  const Lines out;
  hipLaunchKernelGGL(block<T>, dim3(1), dim3(n), 0, nullptr, static_cast<const T *>(a.at), out.at);
  out.print("block", NameOf<T>::text);
}

// Atomics whose result does not depend on the order, in global and in shared memory.
template <class T> __device__ void change(T *words, unsigned i) {
  atomicAdd(words + i % 5, T(i));
  atomicSub(words + 5 + i % 3, T(i * 7));
  atomicMin(words + 8, T(1000 - i));
  atomicMax(words + 9, T(i * 11 % 509));
  atomicAnd(words + 10, T(~(T(1) << i % 29)));
  atomicOr(words + 11, T(T(1) << i % 31));
  atomicXor(words + 12, T(i * 2654435761u));
  if (atomicExch(words + 13, T(1)) == T(0)) atomicAdd(words + 14, T(1)); // once
  for (T old = words[15];;) { // a product, modulo a prime
    const T seen = atomicCAS(words + 15, old, T(T(old % 251) * T(i % 13 + 1) % 251));
    if (seen == old) break;
    old = seen;
  }
}
template <class T> __global__ void atomics(T *words, uint64_t *out) {
  __shared__ T own[16];
  if (threadIdx.x < 16) own[threadIdx.x] = T(threadIdx.x == 15);
  __syncthreads();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  change(words, i);
  change(own, i);
  __syncthreads();
  if (threadIdx.x < 16) out[blockIdx.x * 16 + threadIdx.x] = bits_of(own[threadIdx.x]);
}
template <class T> static void atomics_of(const char *type) {
  T *words;
  HIP(hipMalloc(reinterpret_cast<void **>(&words), 16 * sizeof(T)));
  T host[16] = {};
  host[15] = 1;
  HIP(hipMemcpy(words, host, sizeof host, hipMemcpyHostToDevice));
  const Lines out;
  hipLaunchKernelGGL(atomics<T>, dim3(4), dim3(64), 0, nullptr, words, out.at);
  HIP(hipDeviceSynchronize());
  HIP(hipMemcpy(host, words, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < 16; i++) out.at[64 + i] = bits_of(host[i]);
  out.print("atomics", type);
  HIP(hipFree(words));
}

// Branches, loops and private memory: lanes go different ways.
__global__ void ways(const uint32_t *a, uint64_t *out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t x = a[i] % 10000 + 1, steps = 0;
  while (x != 1 && steps < 400) x = x % 2 ? 3 * x + 1 : x / 2, steps++;
  uint32_t p = a[i] | 1, q = i + 3;
  while (q) { // the greatest common divisor
    const uint32_t r = p % q;
    p = q, q = r;
  }
  uint16_t list[24];
  for (unsigned k = 0; k < 24; k++) list[k] = uint16_t(a[(i + k * k) % n] >> k % 7);
  for (unsigned k = 1; k < 24; k++) { // sorted
    const uint16_t v = list[k];
    unsigned at = k;
    for (; at && list[at - 1] > v; at--) list[at] = list[at - 1];
    list[at] = v;
  }
  uint64_t h = 0;
  for (unsigned k = 0; k < 24; k++) h = h * 65599 + list[(k + i) % 24];
  switch (i % 5) {
  case 0:
    h ^= steps;
    break;
  case 1:
    h += p;
    [[fallthrough]];
  case 2:
    h *= 3;
    break;
  case 3:
    if (h & 1) break;
    h = ~h;
    break;
  default:
    h -= steps * uint64_t(p);
  }
  out[i] = h;
}

int main() {
  integers<int8_t>(), integers<uint8_t>(), integers<int16_t>(), integers<uint16_t>();
  integers<int32_t>(), integers<uint32_t>(), integers<int64_t>(), integers<uint64_t>();
  floats<float>(), floats<double>();
#define ALL int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, float, double
  conversions<int8_t, ALL>(), conversions<uint8_t, ALL>(), conversions<int16_t, ALL>(),
      conversions<uint16_t, ALL>();
  conversions<int32_t, ALL>(), conversions<uint32_t, ALL>(), conversions<int64_t, ALL>(),
      conversions<uint64_t, ALL>();
  conversions<float, ALL>(), conversions<double, ALL>();
  waves<int32_t>(), waves<uint32_t>(), waves<float>(), waves<double>();
  blocks<int8_t>(), blocks<uint16_t>(), blocks<int32_t>(), blocks<uint64_t>(), blocks<float>(),
      blocks<double>();
  atomics_of<int>("int"), atomics_of<unsigned>("unsigned"),
      atomics_of<unsigned long long>("unsigned long long");
  const Values<uint32_t> a;
  const Lines out;
  hipLaunchKernelGGL(ways, dim3(4), dim3(64), 0, nullptr, static_cast<const uint32_t *>(a.at),
                     out.at);
  out.print("ways", "uint32_t");
  return 0;
}

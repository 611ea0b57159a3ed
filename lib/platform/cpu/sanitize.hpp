// SPDX-License-Identifier: MIT
// What the sanitizers have to be told; empty without them.
#pragma once
#include <cstddef>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define HIP_CPU_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define HIP_CPU_TSAN
#endif
#endif
#if defined __SANITIZE_ADDRESS__ && !defined HIP_CPU_ASAN
#define HIP_CPU_ASAN
#endif
#if defined __SANITIZE_THREAD__ && !defined HIP_CPU_TSAN
#define HIP_CPU_TSAN
#endif

#ifdef HIP_CPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

// Fibers of one thread are threads of a GPU: they race unless they meet, and TSan is told where.
#ifdef HIP_CPU_TSAN
#include <sanitizer/tsan_interface.h>
#define HIP_CPU_NO_TSAN __attribute__((no_sanitize("thread")))
inline constexpr bool with_tsan = true;
#else
#define HIP_CPU_NO_TSAN
inline constexpr bool with_tsan = false;
#define __tsan_create_fiber(flags) nullptr
#define __tsan_get_current_fiber() nullptr
#define __tsan_switch_to_fiber(fiber, flags) ((void)(flags))
#define __tsan_acquire(p) ((void)(p))
#define __tsan_release(p) ((void)(p))
#endif

#ifndef HIP_CPU_ASAN // last: TSan's header declares them
#define __sanitizer_start_switch_fiber(save, stack, bytes) ((void)0)
#define __sanitizer_finish_switch_fiber(saved, stack, bytes) ((void)(saved))
#endif

// SPDX-License-Identifier: MIT
// The stubs note which routine was called and with what; expect looks whether that was right.
#ifndef TEST_HEADERS_STUBS_H
#define TEST_HEADERS_STUBS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define nullptr_ nullptr
extern "C" {
#else
#define nullptr_ NULL
#endif
#include <cmocka.h>

extern const char *called;
extern uintptr_t called_args[10];
extern int called_count;

// names: those of the routines that will do, with | between them. Types that are one type in C have
// several.
static inline void expect(const char *names, int count, const uintptr_t *args) {
  const size_t n = called ? strlen(called) : 0;
  int found = 0;
  for (const char *at = names; n && (at = strstr(at, called)); at += n)
    if ((at == names || at[-1] == '|') && (at[n] == 0 || at[n] == '|')) found = 1;
  if (!found) fail_msg("called %s, want %s", called ? called : "nothing", names);
  if (count != called_count) fail_msg("%s: %d arguments, want %d", called, called_count, count);
  for (int i = 0; i < count; i++)
    if (args[i] != called_args[i]) fail_msg("%s: argument %d is another one", called, i);
  called = nullptr_;
}

#ifdef __cplusplus
}
#endif
#endif

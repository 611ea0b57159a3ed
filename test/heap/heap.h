// SPDX-License-Identifier: MIT
// Objects in all places where one can be: device heap, host heap, static data, and private memory.
// The tests never touch device memory themselves: the CPU may not be able to. They fill and read
// objects by puts and gets to their own PE.
#ifndef TEST_HEAP_H
#define TEST_HEAP_H

#include "harness.h"
#include <shmemx.h>

enum place { DEVICE, HOST, STATIC, PRIVATE };
enum { SYMMETRIC = 3, PLACES = 4, ROOM = 1 << 20 };
extern const char *const place_names[PLACES];

// Each place has two objects of ROOM bytes, so that source and dest may lie in the same.
extern unsigned char *object[PLACES][2];

// Writes and reads n bytes of this PE's object, whatever its place.
void fill(enum place place, void *to, const void *from, size_t n);
void look_at(enum place place, void *to, const void *from, size_t n);

// Bytes that tell the PE, the place in the object and the round.
void make(unsigned char *to, size_t n, int pe, int round);

extern const struct pe_list transfers, atomics, waits, collectives, memory;

#endif

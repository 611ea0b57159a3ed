// SPDX-License-Identifier: MIT
// What late.cpp does with HIP: true where that went well.
#pragma once
#include <cstddef>

bool hip_set_device(int device);
bool hip_malloc(void **p, size_t bytes);
bool hip_free(void *p);
bool hip_finish(); // the default stream

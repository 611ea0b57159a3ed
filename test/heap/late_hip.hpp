// SPDX-License-Identifier: MIT
// late.cpp's calls of HIP: true if all went well.
#pragma once
#include <cstddef>

bool hip_set_device(int device);
bool hip_malloc(void **p, size_t bytes);
bool hip_free(void *p);
bool hip_finish(); // the default stream

// SPDX-License-Identifier: MIT
// The interface to ROCr, where the ROCm that is here has it: 6.1 moved it into a folder.
#pragma once
#if __has_include(<hsakmt/hsakmt.h>)
#include <hsakmt/hsakmt.h>
#else
#include <hsakmt.h>
#endif

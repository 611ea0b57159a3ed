// SPDX-License-Identifier: MIT
#include "nvshmemx.h"

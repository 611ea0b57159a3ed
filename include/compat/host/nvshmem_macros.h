// SPDX-License-Identifier: MIT
#include "../nvshmem.h"

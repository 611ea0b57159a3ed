// SPDX-License-Identifier: MIT
// Of the runtime; there are no names of the driver.
#pragma once
#include <cuda_runtime_api.h>

// SPDX-License-Identifier: MIT
#include "rocshmem.hpp"

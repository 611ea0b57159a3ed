// SPDX-License-Identifier: MIT
#include "device.hpp"

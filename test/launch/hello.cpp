// SPDX-License-Identifier: MIT
#include "hello.c" // a C++ compiler, the same program

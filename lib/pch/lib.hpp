// SPDX-License-Identifier: MIT
// The compiler parses these headers once for all files of the library. Each file still includes the
// headers that it uses: a build with -Db_pch=false, whose commands clang-tidy reads, has no such
// header.
#include "../state.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

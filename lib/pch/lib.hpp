// SPDX-License-Identifier: MIT
// What most files of the library include, parsed once. Each file still includes what it uses,
// because -Db_pch=false builds without this header, and clang-tidy reads the files so.
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

// SPDX-License-Identifier: MIT
// From code to operations, by LLVM's disassembler and the table of meanings.
#pragma once
#include "machine.hpp"
#include <string_view>
#include <unordered_map>

namespace amdgpu {

// The operation at the wave's pc. Decoded when it is met first, and kept.
const Op &decoded(const Wave &wave);
// Code that was there may be gone: after memory is freed, and where a packet empties the caches.
void forget_code();
// LLVM's text of the instruction there.
std::string text_of(const uint8_t *code);
// Of one line of assembly, without its bytes. Its run is NULL if the table does not have it.
Op parse(std::string_view text);

// The table of meanings, isa.def and access.def: by mnemonic without the ending that tells the
// encoding.
const std::unordered_map<std::string_view, Run> &meanings();
// Of access.def alone.
const std::unordered_map<std::string_view, Run> &accesses();

} // namespace amdgpu

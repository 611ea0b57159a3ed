// SPDX-License-Identifier: MIT
#include "decode.hpp"
#include "driver.hpp"
#include "memory.hpp"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <map>

namespace amdgpu {
namespace {

std::vector<std::string_view> split(std::string_view text) { // at commas outside brackets
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t from = 0;
  for (size_t i = 0; i <= text.size(); i++) {
    if (i < text.size() && (text[i] == '[' || text[i] == '(')) depth++;
    if (i < text.size() && (text[i] == ']' || text[i] == ')')) depth--;
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      std::string_view part = text.substr(from, i - from);
      while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
      while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
      parts.push_back(part);
      from = i + 1;
    }
  }
  return parts;
}

long number(std::string_view text) {
  return long(strtoull(std::string(text).c_str(), nullptr, 0));
}

bool starts(std::string_view &text, std::string_view with) {
  if (!text.starts_with(with)) return false;
  text.remove_prefix(with.size());
  return true;
}

struct Named {
  std::string_view name;
  uint16_t reg;
  uint8_t count;
};
constexpr Named named[] = {{"vcc", 106, 2},
                           {"vcc_lo", 106, 1},
                           {"vcc_hi", 107, 1},
                           {"exec", 126, 2},
                           {"exec_lo", 126, 1},
                           {"exec_hi", 127, 1},
                           {"flat_scratch", 102, 2},
                           {"flat_scratch_lo", 102, 1},
                           {"flat_scratch_hi", 103, 1},
                           {"xnack_mask", 104, 2},
                           {"xnack_mask_lo", 104, 1},
                           {"xnack_mask_hi", 105, 1},
                           {"m0", 124, 1}};
struct Value {
  std::string_view name;
  uint64_t bits;
};
constexpr Value values[] = {{"src_shared_base", shared_base},
                            {"src_shared_limit", shared_base | 0xffffffff},
                            {"src_private_base", private_base},
                            {"src_private_limit", private_base | 0xffffffff}};

bool operand_of(std::string_view text, Operand &o) {
  o = {};
  if (text == "off") {
    o.kind = Operand::constant;
    return true;
  }
  if (text.size() > 1 && text[0] == '-' && (text[1] < '0' || text[1] > '9'))
    o.neg = true, text.remove_prefix(1);
  if (starts(text, "neg(")) o.neg = true, text.remove_suffix(1);
  if (starts(text, "sext(")) o.sext = true, text.remove_suffix(1);
  if (text.size() > 2 && text[0] == '|') o.abs = true, text = text.substr(1, text.size() - 2);
  for (const Named &n : named)
    if (text == n.name) {
      o.kind = Operand::scalar, o.reg = n.reg, o.count = n.count;
      return true;
    }
  for (const Value &v : values)
    if (text == v.name) {
      o.kind = Operand::constant, o.bits = v.bits;
      return true;
    }
  unsigned first_bit = 0,
           size = 0; // of the hardware registers, the windows of the flat address space
  if (sscanf(std::string(text).c_str(), "hwreg(HW_REG_SH_MEM_BASES, %u, %u)", &first_bit, &size) ==
      2) {
    const uint64_t bases = private_base >> 48 | shared_base >> 48 << 16;
    o.kind = Operand::constant, o.bits = bases >> first_bit & ((uint64_t(1) << size) - 1);
    return true;
  }
  if (starts(text, "gpr_idx(")) { // which operands s_set_gpr_idx_on means
    o.kind = Operand::constant;
    for (std::string_view which : {"SRC0", "SRC1", "SRC2", "DST"}) {
      const bool named = text.find(which) != text.npos;
      o.bits = o.bits >> 1 | (named ? 8 : 0);
    }
    return true;
  }
  if (text == "scc" || text == "src_scc") return o.kind = Operand::scc, true;
  if (text == "vccz" || text == "src_vccz") return o.kind = Operand::vccz, true;
  if (text == "execz" || text == "src_execz") return o.kind = Operand::execz, true;
  const bool trap = starts(text, "ttmp");
  const char first = trap ? 't' : text.empty() ? 0 : text[0];
  if (first == 't' || first == 's' || first == 'v' || first == 'a') {
    if (!trap) text.remove_prefix(1);
    o.kind = first == 's' || trap ? Operand::scalar : Operand::vector;
    o.accumulator = first == 'a';
    unsigned low = 0, high = 0;
    const std::string copy(text);
    if (sscanf(copy.c_str(), "[%u:%u]", &low, &high) != 2) {
      if (sscanf(copy.c_str(), "%u", &low) != 1) return false;
      high = low;
    }
    o.reg = uint16_t(low + (trap ? 108 : 0)), o.count = uint8_t(high - low + 1);
    return true;
  }
  if (first != '-' && (first < '0' || first > '9')) return false;
  o.kind = Operand::constant;
  const std::string copy(text);
  if (text.find('.') != text.npos) {
    o.decimal = true, o.number = strtod(copy.c_str(), nullptr);
  } else if (text.find('x') != text.npos) {
    o.literal = true, o.bits = strtoull(copy.c_str(), nullptr, 16);
  } else {
    o.bits = uint64_t(strtoll(copy.c_str(), nullptr, 10)), o.number = double(int64_t(o.bits));
  }
  return true;
}

Part part_of(std::string_view text) {
  constexpr std::string_view names[] = {"DWORD",  "BYTE_0", "BYTE_1", "BYTE_2",
                                        "BYTE_3", "WORD_0", "WORD_1"};
  for (int i = 0; i < 7; i++)
    if (text == names[i]) return Part(i);
  return Part::all;
}

uint8_t bits_of(std::string_view text) { // [0,1,1]
  uint8_t bits = 0;
  for (size_t i = 1, k = 0; i < text.size(); i += 2, k++) bits |= uint8_t((text[i] == '1') << k);
  return bits;
}

// False for a word that is not known: hardware would do something else than this machine.
bool modifier(std::string_view word, Op &op) {
  struct Dpp {
    std::string_view name;
    Move move;
  };
  constexpr Dpp moves[] = {{"row_shl:", Move::row_shl},   {"row_shr:", Move::row_shr},
                           {"row_ror:", Move::row_ror},   {"wave_shl:", Move::wave_shl},
                           {"wave_rol:", Move::wave_rol}, {"wave_shr:", Move::wave_shr},
                           {"wave_ror:", Move::wave_ror}, {"row_newbcast:", Move::newbcast}};
  for (const Dpp &m : moves)
    if (starts(word, m.name)) return op.move = m.move, op.move_by = uint8_t(number(word)), true;
  if (starts(word, "offset0:")) return op.offset = int32_t(number(word)), true;
  if (starts(word, "offset1:")) return op.offset1 = int32_t(number(word)), true;
  if (starts(word, "offset:"))
    return op.offset = int32_t(strtol(std::string(word).c_str(), nullptr, 0)), true;
  if (word == "slc" || word == "nt") return op.bits |= 4, true;
  if (word == "scc" || word == "sc1") return op.bits |= 2, true;
  if (word == "glc" || word == "sc0") return op.bits |= 1, op.returns = true;
  if (word == "offen") return op.offen = true;
  if (word == "clamp") return op.clamp = true;
  if (word == "mul:2") return op.omod = 1, true;
  if (word == "mul:4") return op.omod = 2, true;
  if (word == "div:2") return op.omod = 3, true;
  if (starts(word, "bitop3:")) return op.table = uint8_t(number(word)), true;
  if (starts(word, "op_sel:")) return op.select = bits_of(word), true;
  if (starts(word, "op_sel_hi:")) return op.select_hi = bits_of(word), true;
  if (starts(word, "neg_lo:")) return op.neg_lo = bits_of(word), true;
  if (starts(word, "neg_hi:")) return op.neg_hi = bits_of(word), true;
  if (starts(word, "dst_sel:")) return op.part[0] = part_of(word), true;
  if (starts(word, "src0_sel:")) return op.part[1] = part_of(word), true;
  if (starts(word, "src1_sel:")) return op.part[2] = part_of(word), true;
  if (word == "dst_unused:UNUSED_PAD") return op.rest = Rest::zero, true;
  if (word == "dst_unused:UNUSED_SEXT") return op.rest = Rest::sign, true;
  if (word == "dst_unused:UNUSED_PRESERVE") return op.rest = Rest::keep, true;
  if (word == "row_mirror") return op.move = Move::mirror, true;
  if (word == "row_half_mirror") return op.move = Move::half_mirror, true;
  if (word == "row_bcast:15") return op.move = Move::bcast15, true;
  if (word == "row_bcast:31") return op.move = Move::bcast31, true;
  if (starts(word, "quad_perm:")) {
    op.move = Move::quad;
    for (int k = 0; k < 4; k++) op.move_by |= uint8_t((word[size_t(1 + 2 * k)] - '0') << 2 * k);
    return true;
  }
  if (starts(word, "row_mask:")) return op.rows = uint8_t(number(word)), true;
  if (starts(word, "bank_mask:")) return op.banks = uint8_t(number(word)), true;
  if (word.starts_with("bound_ctrl:")) return op.bound_zero = true;
  return false;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}
// And what the clock does: which part of a unit it takes, for how long.
void kind_of(std::string_view name, Op &op) {
  int m, n, k;
  if (op.effect == Effect::vm || op.effect == Effect::flat || op.effect == Effect::lgkm)
    op.kind = has(name, "_store_") || has(name, "ds_write") ? Kind::store
              : has(name, "_atomic_")                       ? Kind::atomic
                                                            : Kind::load;
  if (!op.vectors) return;
  op.kind = Kind::vector;
  for (std::string_view slow : {"v_rcp_", "v_rsq_", "v_sqrt_", "v_exp_", "v_log_", "v_sin_",
                                "v_cos_", "v_mul_lo_u32", "v_mul_hi_", "v_mad_u64_u32"})
    if (name.starts_with(slow)) op.kind = Kind::quarter;
  if (sscanf(std::string(name).c_str(), "v_mfma_f32_%dx%dx%d", &m, &n, &k) != 3) return;
  op.kind = Kind::matrix;
  op.flops = 2.0f * float(m) * float(n) * float(k);
  op.bytes_each = has(name, "f8") ? 1 : has(name, "f16") ? 2 : 4;
}
// The strict machine's facts of an instruction whose operands are known.
void effect_of(std::string_view name, Op &op) {
  if (name == "s_endpgm") op.effect = Effect::end;
  if (name == "buffer_wbl2") op.effect = Effect::write_back;
  if (name == "buffer_invl2") op.effect = Effect::invalidate_l2;
  if (name == "buffer_inv") op.effect = Effect::invalidate;
  if (name.starts_with("buffer_wbinvl1")) op.effect = Effect::invalidate_l1;
  op.vectors = name.starts_with("v_");
  if (name.starts_with("s_load") || name.starts_with("s_mem"))
    op.effect = Effect::scalar, op.gives = true;
  const bool memory = op.operands > 1, stores = has(name, "_store_"),
             swaps = has(name, "_cmpswap_x2");
  for (std::string_view begin : {"global_", "scratch_", "buffer_"})
    if (memory && name.starts_with(begin)) op.effect = Effect::vm;
  if (memory && name.starts_with("flat_")) op.effect = Effect::flat;
  if (memory && name.starts_with("ds_")) op.effect = Effect::lgkm;
  if (op.effect == Effect::vm || op.effect == Effect::flat || op.effect == Effect::lgkm)
    op.gives = has(name, "_load_") || has(name, "ds_read") || has(name, "_rtn_") ||
               has(name, "permute") || (has(name, "_atomic_") && op.returns);
  op.to_lds = has(name, "_load_lds_");
  op.gives = op.gives && !op.to_lds;
  if ((stores || swaps) && !name.starts_with("buffer_")) {
    const int data = stores || !op.returns ? 1 : 2;
    if (op.operand[data].count > 2) op.wide = int8_t(data);
  }
  kind_of(name, op);
}

LLVMDisasmContextRef disassembler() {
  static const LLVMDisasmContextRef context = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    return LLVMCreateDisasmCPU("amdgcn-amd-amdhsa", nodes().name.c_str(), nullptr, 0, nullptr,
                               nullptr);
  }();
  if (!context) stop(nullptr, "this LLVM has no disassembler for %s", nodes().name.c_str());
  return context;
}

size_t disassemble(const uint8_t *code, const uint8_t *end, char (&text)[256]) {
  uint8_t bytes[12]; // the longest instruction
  const size_t count = std::min<size_t>(sizeof bytes, size_t(end - code));
  memcpy(bytes, code, count);
  return LLVMDisasmInstruction(disassembler(), bytes, count, 0, text, sizeof text);
}

// The operations of an allocation that holds code, by the instruction's place.
struct Code {
  const uint8_t *begin, *end;
  std::vector<std::unique_ptr<Op>> at;
};
auto &codes = *new std::map<const uint8_t *,
                            Code>; // not destroyed: the processor goes on while the process ends
Code *last;
[[noreturn]] void unknown(Wave &wave, const Op &) {
  stop(&wave, "unknown instruction");
}

} // namespace

std::string text_of(const uint8_t *code) {
  char text[256] = "";
  const Range range = range_of(code);
  if (!range.bytes || !disassemble(code, range.begin + range.bytes, text)) return "no instruction";
  std::string out;
  for (char c : std::string_view(text)) // one line, without the tabs between
    if (c != '\t' || !out.empty()) out += c == '\t' ? ' ' : c;
  return out;
}

Op parse(std::string_view text) {
  Op op;
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
  const size_t space = text.find(' ');
  std::string_view name = text.substr(0, space);
  std::string_view rest = space == text.npos ? std::string_view() : text.substr(space + 1);
  for (std::string_view ending : {"_e32", "_e64", "_sdwa", "_dpp"})
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  const auto meaning = meanings().find(name);
  if (meaning == meanings().end()) return op;
  op.run = meaning->second;
  if (name == "s_waitcnt") { // as many as may be under way; what it does not name may all be
    op.effect = Effect::wait, op.offset = op.offset1 = 63;
    unsigned left = 0;
    const std::string copy(rest);
    if (const char *at = strstr(copy.c_str(), "vmcnt("); at && sscanf(at, "vmcnt(%u)", &left) == 1)
      op.offset = int32_t(left);
    if (const char *at = strstr(copy.c_str(), "lgkmcnt(");
        at && sscanf(at, "lgkmcnt(%u)", &left) == 1)
      op.offset1 = int32_t(left);
    if (copy == "0") op.offset = op.offset1 = 0;
    return op;
  }
  if (name == "s_nop") return op.idle = uint8_t(number(rest)), op;
  if (rest.empty()) return effect_of(name, op), op;
  if (name.starts_with("v_fma_mix")) op.select_hi = 0; // what LLVM does not print
  const auto parts = split(rest);
  for (size_t i = 0; i < parts.size(); i++) {
    std::string_view part = parts[i];
    // After the last operand come words; an instruction without operands has only these.
    size_t end = part.starts_with("hwreg(") ? part.find(')') + 1 : part.find(' ');
    if (end >= part.size()) end = part.npos;
    std::string_view words = end == part.npos ? std::string_view() : part.substr(end + 1);
    part = part.substr(0, end);
    if (op.operands < 6 && operand_of(part, op.operand[op.operands])) {
      op.operands++;
    } else if (!modifier(part, op)) {
      op.run = nullptr;
      return op;
    }
    while (!words.empty()) {
      end = words.find(' ');
      if (end != 0 && !modifier(words.substr(0, end), op)) {
        op.run = nullptr;
        return op;
      }
      words = end == words.npos ? std::string_view() : words.substr(end + 1);
    }
  }
  if (name.starts_with("v_fmac") || name.starts_with("v_mac_"))
    op.operand[op.operands++] = op.operand[0];
  if (name.starts_with("s_branch") || name.starts_with("s_cbranch"))
    op.offset = 4 * int16_t(op.operand[0].bits);
  effect_of(name, op);
  return op;
}

void forget_code() {
  codes.clear();
  last = nullptr;
}

const Op &decoded(const Wave &wave) {
  const uint8_t *pc = wave.pc;
  if (!last || pc < last->begin || pc >= last->end) {
    auto code = codes.upper_bound(pc);
    if (code == codes.begin() || pc >= std::prev(code)->second.end) {
      const Range range = range_of(pc);
      if (!range.bytes) stop(&wave, "no code at %p", static_cast<const void *>(pc));
      code = codes.emplace(range.begin, Code{range.begin, range.begin + range.bytes, {}}).first;
      code->second.at.resize(range.bytes / 4 + 1);
      last = &code->second;
    } else {
      last = &std::prev(code)->second;
    }
  }
  auto &op = last->at[size_t(pc - last->begin) / 4];
  if (!op) {
    char text[256] = "";
    const size_t bytes = disassemble(pc, last->end, text);
    op = std::make_unique<Op>(parse(text));
    op->bytes = uint8_t(bytes);
    if (!bytes || !op->run) op->run = unknown, op->bytes = 4;
  }
  return *op;
}

} // namespace amdgpu

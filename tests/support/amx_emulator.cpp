// See amx_emulator.h.
#include "support/amx_emulator.h"

#include "support/evex_emulator.h"

#ifdef QINFER_HAVE_AMX

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace qinfer::test::emulator {
namespace {

thread_local Tiles thread_tiles;
thread_local Counts thread_counts;
bool arithmetic = true;
thread_local std::uintptr_t watched_begin = 0, watched_end = 0;

/// A decoded VEX instruction of map 0F38.
struct Decoded {
  unsigned prefix = 0, opcode = 0, mod = 0, reg = 0, rm = 0, vvvv = 0;
  bool has_sib = false;
  std::uint64_t address = 0, stride = 0;
  std::size_t length = 0;
};

std::int32_t read_32(const std::uint8_t* at) {
  std::int32_t value = 0;
  std::memcpy(&value, at, 4);
  return value;
}

/// ModRM, SIB and displacement of a memory operand (SDM volume 2, 2.1.5).
void decode_memory(Decoded& d, const std::uint8_t* code, unsigned x, unsigned b, const Registers& registers) {
  std::int64_t displacement = 0;
  bool relative = false;
  if ((d.rm & 7) == 4) {
    d.has_sib = true;
    const std::uint8_t sib = code[d.length++];
    const unsigned index = (sib >> 3 & 7) | x << 3, base = (sib & 7u) | b << 3;
    if ((sib & 7) == 5 && d.mod == 0) {
      displacement = read_32(code + d.length);
      d.length += 4;
    } else {
      d.address = registers.general[base];
    }
    if (index != 4) d.stride = registers.general[index] << (sib >> 6);
  } else if ((d.rm & 7) == 5 && d.mod == 0) {
    displacement = read_32(code + d.length);
    d.length += 4;
    relative = true;
  } else {
    d.address = registers.general[(d.rm & 7) | b << 3];
  }
  if (d.mod == 1) displacement = static_cast<std::int8_t>(code[d.length++]);
  if (d.mod == 2) {
    displacement = read_32(code + d.length);
    d.length += 4;
  }
  d.address += static_cast<std::uint64_t>(displacement);
  if (relative) d.address += registers.instruction + d.length;
}

const char* decode(Decoded& d, const std::uint8_t* code, const Registers& registers) {
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2) return "not an instruction of AMX";
  const unsigned r = ~code[1] >> 7 & 1, x = ~code[1] >> 6 & 1, b = ~code[1] >> 5 & 1;
  if ((code[2] >> 7) != 0) return "VEX.W is set";
  if ((code[2] >> 2 & 1) != 0) return "VEX.L is set";
  d.vvvv = ~(code[2] >> 3) & 15;
  d.prefix = code[2] & 3;
  d.opcode = code[3];
  d.mod = code[4] >> 6;
  d.reg = (code[4] >> 3 & 7u) | r << 3;
  d.rm = code[4] & 7u;
  d.length = 5;
  if (d.mod != 3) {
    decode_memory(d, code, x, b, registers);
  } else {
    d.rm |= b << 3;
  }
  return nullptr;
}

const char* load_config(Tiles& tiles, std::uint64_t address) {
  std::uint8_t bytes[64];
  std::memcpy(bytes, reinterpret_cast<const void*>(address), 64);
  TileConfig config;
  config.palette = bytes[0];
  config.start_row = bytes[1];
  if (config.palette > 1) return "palette beyond 1";
  for (const auto& [begin, end] : {std::pair{2, 16}, std::pair{32, 48}, std::pair{56, 64}})
    for (int i = begin; i < end; ++i)
      if (config.palette == 1 && bytes[i] != 0) return "a reserved byte of the configuration is set";
  for (int i = 0; i < 8 && config.palette == 1; ++i) {
    std::memcpy(&config.bytes_per_row[i], bytes + 16 + 2 * i, 2);
    config.rows[i] = bytes[48 + i];
    if (config.bytes_per_row[i] > 64 || config.rows[i] > 16) return "a tile larger than 16 rows of 64 bytes";
    if ((config.bytes_per_row[i] == 0) != (config.rows[i] == 0)) return "a tile with rows or columns of zero";
  }
  tiles = Tiles();
  if (config.palette == 1) tiles.config = config;
  return nullptr;
}

void store_config(const Tiles& tiles, std::uint64_t address) {
  std::uint8_t bytes[64] = {};
  if (tiles.config.palette != 0) {
    bytes[0] = tiles.config.palette;
    bytes[1] = tiles.config.start_row;
    std::memcpy(bytes + 16, tiles.config.bytes_per_row, 16);
    std::memcpy(bytes + 48, tiles.config.rows, 8);
  }
  std::memcpy(reinterpret_cast<void*>(address), bytes, 64);
}

const char* check_tile(const Tiles& tiles, unsigned tile) {
  if (tiles.config.palette == 0) return "tiles are not configured";
  if (tile > 7) return "no such tile";
  if (tiles.config.rows[tile] == 0) return "the tile has no rows";
  if (tiles.config.bytes_per_row[tile] % 4 != 0) return "a tile's rows are no whole dwords";
  return nullptr;
}

const char* check_multiplication(const Tiles& tiles, unsigned c, unsigned a, unsigned b) {
  for (const unsigned tile : {c, a, b})
    if (const char* reason = check_tile(tiles, tile)) return reason;
  if (c == a || c == b || a == b) return "two operands are the same tile";
  const TileConfig& config = tiles.config;
  if (config.rows[c] != config.rows[a] || config.bytes_per_row[c] != config.bytes_per_row[b] ||
      config.bytes_per_row[a] / 4 != config.rows[b])
    return "the tiles' sizes do not go together";
  return nullptr;
}

const char* configure(Tiles& tiles, Counts& counts, const Decoded& d) {
  if (d.vvvv != 0) return "VEX.vvvv is used";
  if (d.mod != 3) {
    if (d.reg != 0) return "ModRM.reg is used";
    if (d.prefix == 0) {
      ++counts.configured;
      return load_config(tiles, d.address + d.stride);
    }
    if (d.prefix != 1) return "no such instruction";
    ++counts.stored_config;
    store_config(tiles, d.address + d.stride);
    return nullptr;
  }
  if (d.prefix == 0 && d.reg == 0 && d.rm == 0) {
    ++counts.released;
    tiles = Tiles();
    return nullptr;
  }
  if (d.prefix != 3 || d.rm != 0) return "no such instruction";
  if (const char* reason = check_tile(tiles, d.reg)) return reason;
  ++counts.zeros;
  std::memset(tiles.data[d.reg], 0, sizeof tiles.data[d.reg]);
  tiles.config.start_row = 0;
  return nullptr;
}

const char* move(Tiles& tiles, Counts& counts, const Decoded& d) {
  if (d.mod == 3 || !d.has_sib) return "loads and stores of tiles need an index register";
  if (d.vvvv != 0) return "VEX.vvvv is used";
  if (const char* reason = check_tile(tiles, d.reg)) return reason;
  const std::size_t bytes = tiles.config.bytes_per_row[d.reg], rows = tiles.config.rows[d.reg];
  if (tiles.config.start_row >= rows) return "start_row is after the last row";
  if (d.prefix != 1 && d.prefix != 2 && d.prefix != 3) return "no such instruction";
  const bool store = d.prefix == 2;
  if (!store) std::memset(tiles.data[d.reg], 0, sizeof tiles.data[d.reg]);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::uint64_t at = d.address + r * d.stride;
    void* memory = reinterpret_cast<void*>(at);
    store ? std::memcpy(memory, tiles.data[d.reg][r], bytes) : std::memcpy(tiles.data[d.reg][r], memory, bytes);
    if (store) continue;
    ++counts.lines;
    if (at % 64 + bytes > 64) ++counts.splits;
    if (at >= watched_begin && at < watched_end) ++counts.watched_lines;
  }
  ++(store ? counts.stores : counts.loads);
  tiles.config.start_row = 0;
  return nullptr;
}

/// One row of products: both accumulators of every lane, as the SDM's operation of TDPBF16PS has them.
__attribute__((target("avx2,fma"))) void multiply_row(const Tiles& tiles, unsigned a, unsigned b, unsigned row,
                                                      float* sums) {
  const unsigned pairs = tiles.config.bytes_per_row[a] / 4;
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  for (int half = 0; half < 2; ++half) {
    __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
    for (unsigned k = 0; k < pairs; ++k) {
      std::uint32_t weights = 0;
      std::memcpy(&weights, tiles.data[a][row] + 4 * k, 4);
      const __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tiles.data[b][k] + 32 * half));
      const __m256i low_weight = _mm256_set1_epi32(static_cast<int>(weights << 16)),
                    high_weight = _mm256_set1_epi32(static_cast<int>(weights & 0xffff0000u));
      even = _mm256_fmadd_ps(_mm256_castsi256_ps(low_weight), _mm256_castsi256_ps(_mm256_slli_epi32(lanes, 16)), even);
      odd = _mm256_fmadd_ps(_mm256_castsi256_ps(high_weight), _mm256_castsi256_ps(_mm256_and_si256(lanes, high)), odd);
    }
    const __m256 before = _mm256_loadu_ps(sums + 8 * half);
    _mm256_storeu_ps(sums + 8 * half, _mm256_add_ps(before, _mm256_add_ps(even, odd)));
  }
}

std::uint64_t enabled_state() {
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

/// The configuration of the interrupted thread: component 17 of the XSAVE area in the signal frame (SDM volume
/// 1, 13.4).
void take_config(Tiles& tiles, const ucontext_t& context) {
  const auto* area = reinterpret_cast<const std::uint8_t*>(context.uc_mcontext.fpregs);
  std::uint64_t present = 0;
  std::memcpy(&present, area + 512, 8);
  unsigned a = 0, offset = 0, c = 0, d = 0;
  __cpuid_count(0xd, 17, a, offset, c, d);
  TileConfig config;
  if ((present >> 17 & 1) != 0) {
    const std::uint8_t* bytes = area + offset;
    config.palette = bytes[0];
    std::memcpy(config.bytes_per_row, bytes + 16, 16);
    std::memcpy(config.rows, bytes + 48, 8);
  }
  tiles.config = config;
}

Registers registers_of(const ucontext_t& context) {
  constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  Registers registers;
  for (int i = 0; i < 16; ++i) registers.general[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  registers.instruction = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
  return registers;
}

/// Executes the instruction that a thread was interrupted at; returns its length, or ends the process.
std::size_t execute_interrupted(const Registers& registers, void* ucontext) {
  const auto* code = reinterpret_cast<const std::uint8_t*>(registers.instruction);
  if (const std::size_t length = execute_evex(code, registers, ucontext)) return length;
  const char* reason = nullptr;
  const std::size_t length = execute(thread_tiles, thread_counts, code, registers, reason);
  if (length != 0) return length;
  char text[160];
  const int size = std::snprintf(text, sizeof text, "an AMX instruction that hardware refuses: %s\n", reason);
  (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(size));
  _exit(99);
}

/// Whether the next instruction would end in SIGILL, too. It is executed at once then: most instructions of AMX follow
/// each other, and the way here and back takes longer than what is done.
bool is_ours(std::uint64_t instruction) {
  const auto* code = reinterpret_cast<const std::uint8_t*>(instruction);
  if (code[0] == 0xc4) return (code[1] & 0x1f) == 2 && (code[3] == 0x4b || code[3] == 0x5c);
  return is_emulated_evex(code);
}

void on_sigill(int, siginfo_t*, void* raw) {
  auto& context = *static_cast<ucontext_t*>(raw);
  Registers registers = registers_of(context);
  if (configures_natively()) take_config(thread_tiles, context);
  do {
    registers.instruction += execute_interrupted(registers, raw);
  } while (is_ours(registers.instruction));
  context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(registers.instruction);
}

}  // namespace

void multiply(Tiles& tiles, unsigned sums, unsigned a, unsigned b) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // denormals are zero, in and out; to nearest even; nothing traps
  const unsigned rows = tiles.config.rows[sums], bytes = tiles.config.bytes_per_row[sums];
  for (unsigned m = 0; m < 16; ++m) {
    auto* row = tiles.data[sums][m];
    if (m < rows) {
      float values[16];
      std::memcpy(values, row, 64);
      multiply_row(tiles, a, b, m, values);
      std::memcpy(row, values, bytes);
    }
    std::memset(row + (m < rows ? bytes : 0), 0, 64 - (m < rows ? bytes : 0));
  }
  _mm_setcsr(before);
  tiles.config.start_row = 0;
}

std::size_t execute(Tiles& tiles, Counts& counts, const std::uint8_t* code, const Registers& registers,
                    const char*& reason) {
  Decoded d;
  reason = decode(d, code, registers);
  if (reason == nullptr) {
    if (d.opcode == 0x49) {
      reason = configure(tiles, counts, d);
    } else if (d.opcode == 0x4b) {
      reason = move(tiles, counts, d);
    } else if (d.opcode == 0x5c && d.mod == 3 && d.prefix == 2) {
      reason = check_multiplication(tiles, d.reg, d.rm, d.vvvv);
      if (reason == nullptr) {
        if (arithmetic) multiply(tiles, d.reg, d.rm, d.vvvv);
        ++counts.multiplications;
      }
    } else {
      reason = "no such instruction";
    }
  }
  return reason == nullptr ? d.length : 0;
}

bool is_native() {
  constexpr int kGetPermission = 0x1022;  // ARCH_GET_XCOMP_PERM
  std::uint64_t permitted = 0;
  return syscall(SYS_arch_prctl, kGetPermission, &permitted) == 0 && (permitted >> 18 & 1) != 0;
}

bool configures_natively() { return (enabled_state() >> 17 & 1) != 0; }

void install() {
  struct sigaction action = {};
  action.sa_sigaction = on_sigill;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGILL, &action, nullptr);
}

void skip_arithmetic() { arithmetic = false; }

Counts& counts() { return thread_counts; }

void watch(const void* begin, std::size_t bytes) {
  watched_begin = reinterpret_cast<std::uintptr_t>(begin);
  watched_end = watched_begin + bytes;
}

bool tiles_in_use() {
  alignas(64) std::uint8_t config[64];
  asm volatile("sttilecfg %0" : "=m"(config));
  return config[0] != 0;
}

}  // namespace qinfer::test::emulator
#endif

// Executes AMX instructions where the CPU or the system does not, so that AMX machine code is tested everywhere: a
// handler for SIGILL decodes them and does what the Intel SDM says, bit for bit, after the checks that the hardware
// makes, and counts what ran.
//
// LDTILECFG, STTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILELOADDT1, TILESTORED, TDPBF16PS: SDM volume 2, and volume
// 1 chapter 18. On a CPU with AMX whose process has not asked for permission the instructions that touch tile data end
// in SIGILL too, but LDTILECFG and TILERELEASE run; the configuration is then taken from the interrupted thread's
// state.
//
// The handler executes what kernels use of AVX512-BF16 and AVX512-FP16, too (evex_emulator.h): a CPU needs AVX-512
// alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qinfer::test::emulator {

struct TileConfig {
  std::uint8_t palette = 0, start_row = 0;
  std::uint16_t bytes_per_row[8] = {};
  std::uint8_t rows[8] = {};
};

struct Tiles {
  TileConfig config;
  alignas(64) std::uint8_t data[8][16][64] = {};
};

/// What a thread executed. Loads and stores count instructions, lines their rows, splits rows that end in another cache
/// line than they begin.
struct Counts {
  std::uint64_t configured = 0, stored_config = 0, released = 0;
  std::uint64_t zeros = 0, loads = 0, stores = 0, multiplications = 0;
  std::uint64_t lines = 0, splits = 0;
  std::uint64_t watched_lines = 0;  ///< of the range given to watch()
};

/// The sixteen general registers in the order of the encoding, and where the instruction is.
struct Registers {
  std::uint64_t general[16] = {};
  std::uint64_t instruction = 0;
};

/// Executes one instruction. Returns its length, or 0 and the reason why the hardware would not execute it.
std::size_t execute(Tiles& tiles, Counts& counts, const std::uint8_t* code, const Registers& registers,
                    const char*& reason);

/// TDPBF16PS on register numbers, without decoding.
void multiply(Tiles& tiles, unsigned sums, unsigned a, unsigned b);

/// Whether this process may use the CPU's own tiles (it has asked for them).
bool is_native();
/// Whether LDTILECFG and TILERELEASE are executed by the CPU, and are not counted.
bool configures_natively();

/// Executes for this process from now on what ends in SIGILL. An instruction that the hardware would refuse ends the
/// process with a message.
void install();

/// Counts only: multiplications leave their sums as they are. For predictions of what something costs.
void skip_arithmetic();

/// Of this thread.
Counts& counts();
void watch(const void* begin, std::size_t bytes);
/// Whether this thread's tiles are configured: false is what a thread must leave behind.
bool tiles_in_use();

}  // namespace qinfer::test::emulator

// ceilings.h: what this machine can do at best, measured on the threads a benchmark uses: reading memory and fused
// multiply-adds. Speeds are given as shares of these, so that they mean the same on every machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace cli {

struct Bandwidth {
  double bytes_per_second = 0;
  std::uint64_t buffer_bytes = 0;
  bool buffer_reduced = false;  // less than was wanted, because memory is short
  // The combination that was fastest. Huge pages were asked for; the system may have given less.
  bool huge_pages = false;
  unsigned prefetch_lines = 0;
};

struct FmaPeak {
  double flops = 0;             // per second, in f32 with the widest registers; a multiply-add counts as two
  double avx2_flops = 0;        // the same with registers of 256 bits; 0 where the CPU has no AVX2
  double f16_flops = 0;         // the same in f16 (AVX512-FP16); 0 where the CPU has none
  double int16_flops = 0;       // of products of 16-bit integers with 32-bit sums (AVX512-VNNI or AVX2); 0: none
  double dot_flops = 0;         // of products of bf16 with f32 sums (AVX512-BF16); 0 where the CPU has none
  double tile_flops = 0;        // of bf16 tiles (AMX) with random values; 0 where they were not asked for
  double int16_tile_flops = 0;  // half of that: a product of 16-bit integers takes two of bf16
  const char* isa = "";         // "avx512", "avx2", "sse2"
};

/// The logical CPUs this thread may run on, in ascending order but one of each core first: pinned to the front of the
/// list, a few threads never share a core while another is free.
std::vector<std::uint32_t> usable_cpus();

/// The CPUs to pin to: as many as threads were asked for, or (0) one per core the library would use. Throws UsageError
/// if there are too few.
std::vector<std::uint32_t> choose_cpus(std::uint32_t threads);

/// Both run one thread per entry of cpus, pinned to it. They throw Failure where that or the memory is refused.
Bandwidth measure_read_bandwidth(const std::vector<std::uint32_t>& cpus,
                                 std::uint64_t wanted_bytes = std::uint64_t{2} << 30);
/// `tiles`: the process may use AMX, and wants to know how fast.
FmaPeak measure_fma_peak(const std::vector<std::uint32_t>& cpus, bool tiles = false);

/// What multiplies.
enum class Multiplier { widest_fma, avx2_fma, int16_dot, f16_fma, bf16_dot, bf16_tiles, int16_tiles };

/// The peak of a multiplier at this moment, in some hundredths of a second: less than measure_fma_peak would find at
/// its best. Where a core has two hyperthreads and another program, or another virtual machine, uses one of them, the
/// peak falls for seconds, that of tiles to half or less: a sample taken meanwhile says little. Tiles: the process
/// must be permitted to use tiles. A multiplier that this CPU has not is replaced by the widest FMA.
class PeakProbe {
 public:
  PeakProbe(const std::vector<std::uint32_t>& cpus, Multiplier multiplier);
  ~PeakProbe();
  double flops_per_second();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The read bandwidth of this moment, in a tenth of a second or so: less than measure_read_bandwidth would find at its
/// best, but often enough to tell a minute in which memory is slow from one in which it is fast. Keeps its buffer,
/// smaller than wanted if memory is short, and its threads.
class BandwidthProbe {
 public:
  explicit BandwidthProbe(const std::vector<std::uint32_t>& cpus,
                          std::uint64_t wanted_bytes = std::uint64_t{512} << 20);
  ~BandwidthProbe();
  double bytes_per_second();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cli

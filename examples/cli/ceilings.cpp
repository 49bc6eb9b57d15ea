// ceilings.cpp: see ceilings.h. The only file of the program with intrinsics. Each measuring loop exists once per
// instruction set, compiled through target attributes and chosen at run time, so one binary serves every CPU.
#include "ceilings.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <fstream>
#include <numeric>
#include <string>

#include <qinfer/qinfer.hpp>

#include "pinned_team.h"
#include "support.h"

#if defined(__x86_64__)
#include <immintrin.h>
#if __GNUC__ >= 12 || __clang_major__ >= 14
#define QI_HAVE_FP16
#endif
#endif

namespace cli {
namespace {

constexpr int kRuns = 5;  // of each variant; the best counts: a ceiling is what the machine can do undisturbed
constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kStreams = 8;
/// Lines by which each run is shorter than its share of a buffer: runs that begin at multiples of a large power of two
/// meet in the same sets of the caches and banks of the memory, which then gives up to a third less (25 to 31 GB/s
/// instead of 34 to 36 on two cores of a Zen 4).
constexpr std::size_t kSkewLines = 845;

// ---- Loops ----------------------------------------------------------------------------------------------------------
// read_*: sums n_lines cache lines, kStreams runs of memory side by side, since one thread with one run does not reach
// what the memory can give, and prefetches `ahead` lines ahead, which may reach past the end: a prefetch never faults.
// fma_*: `rounds` times one multiply-add per accumulator, on factors that the compiler does not know and so cannot
// fold. The results only keep it from dropping the loop.

// The big buffer is not for sanitizers to watch: thread sanitizer would take four times its size.
#define QI_UNWATCHED __attribute__((no_sanitize("address", "thread")))

/// Writes to every page: pages never written are all one and the same page of zeros.
QI_UNWATCHED void touch_pages(std::byte* data, std::size_t size) {
  constexpr std::size_t kPage = 4096;
  for (std::size_t i = 0; i < size; i += kPage) data[i] = std::byte{1};
}

// 16-byte vectors of the compiler: SSE2 on x86-64, the like elsewhere.
using U64x2 = std::uint64_t __attribute__((vector_size(16)));
using F32x4 = float __attribute__((vector_size(16)));

QI_UNWATCHED std::uint64_t read_16(const std::byte* data, std::size_t n_lines, std::size_t ahead) {
  const std::size_t run = n_lines / kStreams;
  U64x2 sums[kStreams] = {};
  for (std::size_t i = 0; i < run; ++i) {
    for (std::size_t j = 0; j < kStreams; ++j) {
      const std::byte* line = data + (j * run + i) * kLine;
      if (ahead != 0) __builtin_prefetch(line + ahead * kLine, 0, 3);
      const auto* words = reinterpret_cast<const U64x2*>(line);
      for (int k = 0; k < 4; ++k) sums[j] += words[k];
    }
  }
  const U64x2 sum = std::accumulate(sums + 1, sums + kStreams, sums[0]);
  return sum[0] + sum[1];
}

#define QI_REPEAT_12(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define QI_REPEAT_24(DO) \
  QI_REPEAT_12(DO)       \
  DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)

// Named variables and not an array: an array may end up in memory. 16 registers hold 12 accumulators and the operands.
float fma_16(std::size_t rounds, float factor, float summand) {
  const F32x4 scale = F32x4{} + factor, step = F32x4{} + summand;
#define QI_DECLARE(i) F32x4 s##i = step * static_cast<float>(i);
#define QI_STEP(i) s##i = s##i * scale + step;
#define QI_ADD(i) total += s##i;
  QI_REPEAT_12(QI_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QI_REPEAT_12(QI_STEP)
  }
  F32x4 total = {};
  QI_REPEAT_12(QI_ADD)
  return total[0] + total[1] + total[2] + total[3];
#undef QI_DECLARE
#undef QI_STEP
#undef QI_ADD
}

#if defined(__x86_64__)

QI_UNWATCHED __attribute__((target("avx2"))) std::uint64_t read_avx2(const std::byte* data, std::size_t n_lines,
                                                                     std::size_t ahead) {
  const std::size_t run = n_lines / kStreams;
  __m256i sums[kStreams] = {};
  for (std::size_t i = 0; i < run; ++i) {
    for (std::size_t j = 0; j < kStreams; ++j) {
      const std::byte* line = data + (j * run + i) * kLine;
      if (ahead != 0) __builtin_prefetch(line + ahead * kLine, 0, 3);
      const auto* halves = reinterpret_cast<const __m256i*>(line);
      sums[j] = _mm256_add_epi64(sums[j], _mm256_load_si256(halves));
      sums[j] = _mm256_add_epi64(sums[j], _mm256_load_si256(halves + 1));
    }
  }
  alignas(32) std::uint64_t words[4 * kStreams];
  for (std::size_t j = 0; j < kStreams; ++j) _mm256_store_si256(reinterpret_cast<__m256i*>(words + 4 * j), sums[j]);
  return std::accumulate(words, words + 4 * kStreams, std::uint64_t{0});
}

QI_UNWATCHED __attribute__((target("avx512f"))) std::uint64_t read_avx512(const std::byte* data, std::size_t n_lines,
                                                                          std::size_t ahead) {
  const std::size_t run = n_lines / kStreams;
  __m512i sums[kStreams] = {};
  for (std::size_t i = 0; i < run; ++i) {
    for (std::size_t j = 0; j < kStreams; ++j) {
      const std::byte* line = data + (j * run + i) * kLine;
      if (ahead != 0) __builtin_prefetch(line + ahead * kLine, 0, 3);
      sums[j] = _mm512_add_epi64(sums[j], _mm512_load_si512(line));
    }
  }
  alignas(64) std::uint64_t words[8 * kStreams];  // g++ 12 warns about its own _mm512_reduce_add_epi64
  for (std::size_t j = 0; j < kStreams; ++j) _mm512_store_si512(words + 8 * j, sums[j]);
  return std::accumulate(words, words + 8 * kStreams, std::uint64_t{0});
}

__attribute__((target("avx2,fma"))) float fma_avx2(std::size_t rounds, float factor, float summand) {
  const __m256 scale = _mm256_set1_ps(factor), step = _mm256_set1_ps(summand);
#define QI_DECLARE(i) __m256 s##i = _mm256_set1_ps(static_cast<float>(i));
#define QI_STEP(i) s##i = _mm256_fmadd_ps(s##i, scale, step);
#define QI_ADD(i) total = _mm256_add_ps(total, s##i);
  QI_REPEAT_12(QI_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QI_REPEAT_12(QI_STEP)
  }
  __m256 total = _mm256_setzero_ps();
  QI_REPEAT_12(QI_ADD)
  return _mm256_cvtss_f32(total);
#undef QI_DECLARE
#undef QI_STEP
#undef QI_ADD
}

/// One multiplication and one addition for each sum, in its register: GCC would put some of them into memory.
__attribute__((target("avx2"))) float dot_int16(std::size_t rounds, float factor, float summand) {
  const __m256i a = _mm256_set1_epi32(static_cast<int>(factor * 1e6F)),
                b = _mm256_set1_epi32(static_cast<int>(summand * 1e6F));
#define QI_DECLARE(i) __m256i s##i = _mm256_set1_epi32(i);
#define QI_STEP(i) \
  asm volatile("vpmaddwd %1, %2, %%ymm15\n\tvpaddd %%ymm15, %0, %0" : "+x"(s##i) : "x"(a), "x"(b) : "ymm15");
#define QI_ADD(i) total = _mm256_add_epi32(total, s##i);
  QI_REPEAT_12(QI_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QI_REPEAT_12(QI_STEP)
  }
  __m256i total = _mm256_setzero_si256();
  QI_REPEAT_12(QI_ADD)
  return static_cast<float>(_mm256_extract_epi32(total, 0));
#undef QI_DECLARE
#undef QI_STEP
#undef QI_ADD
}

// AVX512VL only for the compiler: without it clang 16 keeps to 16 of the 32 registers and spills inside the loop.
__attribute__((target("avx512f,avx512vl"))) float fma_avx512(std::size_t rounds, float factor, float summand) {
  const __m512 scale = _mm512_set1_ps(factor), step = _mm512_set1_ps(summand);
#define QI_DECLARE(i) __m512 s##i = _mm512_set1_ps(static_cast<float>(i));
#define QI_STEP(i) s##i = _mm512_fmadd_ps(s##i, scale, step);
#define QI_ADD(i) total = _mm512_add_ps(total, s##i);
  QI_REPEAT_24(QI_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QI_REPEAT_24(QI_STEP)
  }
  __m512 total = _mm512_setzero_ps();
  QI_REPEAT_24(QI_ADD)
  return _mm512_cvtss_f32(total);
#undef QI_DECLARE
#undef QI_STEP
#undef QI_ADD
}

/// The same by one instruction of AVX512-VNNI.
__attribute__((target("avx512f,avx512vl,avx512vnni"))) float dot_int16_vnni(std::size_t rounds, float factor,
                                                                            float summand) {
  const __m512i a = _mm512_set1_epi32(static_cast<int>(factor * 1e6F)),
                b = _mm512_set1_epi32(static_cast<int>(summand * 1e6F));
#define QI_DECLARE(i) __m512i s##i = _mm512_set1_epi32(i);
#define QI_STEP(i) asm volatile("vpdpwssd %1, %2, %0" : "+v"(s##i) : "v"(a), "v"(b));
#define QI_ADD(i) total = _mm512_add_epi32(total, s##i);
  QI_REPEAT_24(QI_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QI_REPEAT_24(QI_STEP)
  }
  __m512i total = _mm512_setzero_si512();
  QI_REPEAT_24(QI_ADD)
  return static_cast<float>(_mm512_cvtsi512_si32(total));
#undef QI_DECLARE
#undef QI_STEP
#undef QI_ADD
}

#ifdef QI_HAVE_FP16
__attribute__((target("avx512f,avx512vl,avx512bw,avx512fp16"))) float fma_fp16(std::size_t rounds, float factor,
                                                                               float summand) {
  const __m512h scale = _mm512_set1_ph(static_cast<_Float16>(factor)),
                step = _mm512_set1_ph(static_cast<_Float16>(summand));
#define QI_DECLARE(i) __m512h s##i = _mm512_set1_ph(static_cast<_Float16>(i));
#define QI_STEP(i) s##i = _mm512_fmadd_ph(s##i, scale, step);
#define QI_ADD(i) total = _mm512_add_ph(total, s##i);
  QI_REPEAT_24(QI_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QI_REPEAT_24(QI_STEP)
  }
  __m512h total = _mm512_setzero_ph();
  QI_REPEAT_24(QI_ADD)
  return static_cast<float>(_mm_cvtsh_h(_mm512_castph512_ph128(total)));
#undef QI_DECLARE
#undef QI_STEP
#undef QI_ADD
}
#endif

#ifdef QI_HAVE_FP16  // compilers that know the one know the other
__attribute__((target("avx512f,avx512vl,avx512bw,avx512bf16"))) float dot_bf16(std::size_t rounds, float factor,
                                                                               float summand) {
  const __m512i scale = _mm512_castps_si512(_mm512_set1_ps(factor)),
                step = _mm512_castps_si512(_mm512_set1_ps(summand));
#define QI_DECLARE(i) __m512 s##i = _mm512_set1_ps(static_cast<float>(i));
#define QI_STEP(i) s##i = _mm512_dpbf16_ps(s##i, (__m512bh)scale, (__m512bh)step);
#define QI_ADD(i) total = _mm512_add_ps(total, s##i);
  QI_REPEAT_24(QI_DECLARE)
  for (std::size_t round = 0; round < rounds; ++round) {
    QI_REPEAT_24(QI_STEP)
  }
  __m512 total = _mm512_setzero_ps();
  QI_REPEAT_24(QI_ADD)
  return _mm512_cvtss_f32(total);
#undef QI_DECLARE
#undef QI_STEP
#undef QI_ADD
}
#endif

/// Four sums of tiles that do not depend on each other, operands in registers. These have random values: the clock
/// follows the data, and zeros would claim 1.2 to 1.35 times of what is to be had (Emerald Rapids).
float multiply_tiles(std::size_t rounds, float, float) {
  struct alignas(64) {
    std::uint8_t palette = 1, zeros[15] = {}, bytes_per_row[32] = {}, rows[16] = {};
  } config;
  for (std::size_t i = 0; i < 8; ++i) config.bytes_per_row[2 * i] = 64, config.rows[i] = 16;
  alignas(64) std::uint16_t values[4][512];
  std::uint32_t state = 1;
  for (auto& tile : values)
    for (std::uint16_t& value : tile) {  // of magnitudes from 1/4 to 1, of either sign
      state = state * 1664525u + 1013904223u;
      value = static_cast<std::uint16_t>((state >> 16 & 0x8000) | (0x3e80 + (state >> 20 & 0xff)));
    }
  const long stride = 64;
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile(
      "tileloadd (%0,%1,1), %%tmm0\n tileloadd 1024(%0,%1,1), %%tmm1\n"
      "tileloadd 2048(%0,%1,1), %%tmm2\n tileloadd 3072(%0,%1,1), %%tmm3"
      :
      : "r"(values), "r"(stride)
      : "memory");
  for (std::size_t round = 0; round < rounds; ++round)
    asm volatile(
        "tdpbf16ps %tmm2, %tmm0, %tmm4\n tdpbf16ps %tmm3, %tmm0, %tmm5\n"
        "tdpbf16ps %tmm2, %tmm1, %tmm6\n tdpbf16ps %tmm3, %tmm1, %tmm7");
  asm volatile("tilerelease");
  return 0;
}

#endif  // __x86_64__

struct Loops {
  const char* isa;
  std::uint64_t (*read)(const std::byte* data, std::size_t n_lines, std::size_t ahead);
  float (*fma)(std::size_t rounds, float factor, float summand);
  double flops_per_round;  // 2 per lane and accumulator
};

Loops choose_loops() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    return {"avx512", read_avx512, fma_avx512, 2.0 * 16 * 24};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", read_avx2, fma_avx2, 2.0 * 8 * 12};
  }
  return {"sse2", read_16, fma_16, 2.0 * 4 * 12};
#else
  return {"128-bit", read_16, fma_16, 2.0 * 4 * 12};
#endif
}

// ---- Memory -------------------------------------------------------------------------------------------------------

/// Bytes the system can give without swapping; 0 where it does not say.
std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13)) * 1024;
  }
  return 0;
}

/// Anonymous memory at a multiple of the huge page size, with or without a request for huge pages.
class Buffer {
 public:
  Buffer(std::size_t size, bool huge_pages) : size_(size), mapped_size_(size + kHugePage) {
    mapping_ = mmap(nullptr, mapped_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping_ == MAP_FAILED) throw Failure("not enough memory to measure the read bandwidth");
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    data_ = static_cast<std::byte*>(mapping_) + (kHugePage - address % kHugePage) % kHugePage;
    granted_ = madvise(data_, size_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0 || !huge_pages;
  }
  ~Buffer() { munmap(mapping_, mapped_size_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool granted() const { return granted_; }  // false: the system has no huge pages to ask for

 private:
  std::size_t size_, mapped_size_;
  void* mapping_ = nullptr;
  std::byte* data_ = nullptr;
  bool granted_ = false;
};

/// `usual` bytes, less where memory is short.
std::uint64_t affordable_bytes(std::uint64_t usual, std::uint64_t share) {
  const std::uint64_t available = available_memory();
  if (available != 0) usual = std::min(usual, available / share / kHugePage * kHugePage);
  return std::max<std::uint64_t>(usual, kHugePage);
}

/// Each worker touches its own part, so that on NUMA machines it is near its reader.
void touch_slices(PinnedTeam& team, const Buffer& buffer) {
  const std::size_t slice = buffer.size() / team.size();
  team.run([&](std::size_t worker) { touch_pages(buffer.data() + worker * slice, slice); });
}

/// Best bytes per second of a few passes over the buffer, each worker reading a slice of its own.
double read_speed(PinnedTeam& team, const Buffer& buffer, const Loops& loops, std::size_t ahead, int runs = kRuns) {
  const std::size_t slice = buffer.size() / team.size() / (kStreams * kLine) * (kStreams * kLine);
  const std::size_t share = slice / kLine / kStreams;
  const std::size_t lines = (share > 4 * kSkewLines ? share - kSkewLines : share) * kStreams;
  std::atomic<std::uint64_t> sink{0};
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const double seconds = team.run([&](std::size_t worker) {
      sink.fetch_add(loops.read(buffer.data() + worker * slice, lines, ahead), std::memory_order_relaxed);
    });
    best = std::max(best, static_cast<double>(lines * kLine * team.size()) / seconds);
  }
  return best;
}

}  // namespace

std::vector<std::uint32_t> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw Failure("cannot read the CPU affinity mask");
  std::vector<std::uint32_t> first, later;
  std::vector<std::string> cores;
  for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    std::string core;
    const bool known = static_cast<bool>(std::getline(file, core));
    const bool taken = known && std::find(cores.begin(), cores.end(), core) != cores.end();
    (taken ? later : first).push_back(cpu);
    cores.push_back(core);
  }
  first.insert(first.end(), later.begin(), later.end());
  return first;
}

std::vector<std::uint32_t> choose_cpus(std::uint32_t threads) {
  std::vector<std::uint32_t> cpus = usable_cpus();
  const std::size_t wanted = threads != 0 ? threads : qi::cpu_info().n_physical_cores;
  if (threads > cpus.size()) {
    throw UsageError(
        format("--threads %u: this process may use %zu CPUs, and each thread needs its own", threads, cpus.size()));
  }
  cpus.resize(std::max<std::size_t>(1, std::min(wanted, cpus.size())));
  return cpus;
}

Bandwidth measure_read_bandwidth(const std::vector<std::uint32_t>& cpus, std::uint64_t wanted_bytes) {
  Bandwidth best;
  best.buffer_bytes = affordable_bytes(wanted_bytes, 4);
  best.buffer_reduced = best.buffer_bytes < wanted_bytes;

  const Loops loops = choose_loops();
  PinnedTeam team(cpus);
  for (const bool huge_pages : {true, false}) {
    const Buffer buffer(static_cast<std::size_t>(best.buffer_bytes), huge_pages);
    if (!buffer.granted()) continue;
    touch_slices(team, buffer);
    for (const unsigned ahead : {0u, 32u, 64u}) {
      const double speed = read_speed(team, buffer, loops, ahead);
      if (speed <= best.bytes_per_second) continue;
      best.bytes_per_second = speed;
      best.huge_pages = huge_pages;
      best.prefetch_lines = ahead;
    }
    break;  // small pages only where large ones are refused
  }
  return best;
}

struct BandwidthProbe::State {
  State(const std::vector<std::uint32_t>& cpus, std::uint64_t wanted_bytes)
      : team(cpus), buffer(static_cast<std::size_t>(affordable_bytes(wanted_bytes, 8)), true) {
    touch_slices(team, buffer);
    double best = 0;
    for (const unsigned lines : {0u, 32u, 64u}) {
      const double speed = read_speed(team, buffer, loops, lines, kFew);
      if (speed > best) best = speed, ahead = lines;
    }
  }
  static constexpr int kFew = 3;
  Loops loops = choose_loops();
  PinnedTeam team;
  Buffer buffer;
  unsigned ahead = 0;  // the best distance of prefetching
};

BandwidthProbe::BandwidthProbe(const std::vector<std::uint32_t>& cpus, std::uint64_t wanted_bytes)
    : state_(std::make_unique<State>(cpus, wanted_bytes)) {}
BandwidthProbe::~BandwidthProbe() = default;

double BandwidthProbe::bytes_per_second() {
  return read_speed(state_->team, state_->buffer, state_->loops, state_->ahead, State::kFew);
}

namespace {

/// A loop that multiplies; none where this CPU, or the compiler, has no such instructions.
struct PeakLoop {
  float (*run)(std::size_t rounds, float factor, float summand) = nullptr;
  double flops_per_round = 0;
  std::size_t rounds = std::size_t{1} << 23;  // about 50 ms
};

PeakLoop peak_loop(Multiplier multiplier) {
  const Loops loops = choose_loops();
#ifdef __x86_64__
  const std::string features = std::string(" ") + qi::cpu_features() + " ";
  const auto has = [&](const char* feature) { return features.find(feature) != features.npos; };
  if (multiplier == Multiplier::avx2_fma)
    return has(" avx2 ") && has(" fma ") ? PeakLoop{fma_avx2, 2.0 * 8 * 12} : PeakLoop();
  if (multiplier == Multiplier::int16_dot)
    return has(" avx512_vnni ") ? PeakLoop{dot_int16_vnni, 2.0 * 32 * 24}
           : has(" avx2 ")      ? PeakLoop{dot_int16, 2.0 * 16 * 12}
                                : PeakLoop();
  if (multiplier == Multiplier::bf16_tiles) return {multiply_tiles, 4 * 16384.0, std::size_t{1} << 20};
  if (multiplier == Multiplier::int16_tiles) return {multiply_tiles, 2 * 16384.0, std::size_t{1} << 20};
#endif
#ifdef QI_HAVE_FP16
  if (multiplier == Multiplier::f16_fma) return has(" avx512_fp16 ") ? PeakLoop{fma_fp16, 2.0 * 32 * 24} : PeakLoop();
  if (multiplier == Multiplier::bf16_dot) return has(" avx512_bf16 ") ? PeakLoop{dot_bf16, 2.0 * 32 * 24} : PeakLoop();
#endif
  if (multiplier != Multiplier::widest_fma) return {};
  return {loops.fma, loops.flops_per_round};
}

/// The best of some runs of all workers, in operations per second; 0 where there is no such loop.
double best_peak(PinnedTeam& team, const PeakLoop& loop, int runs, std::size_t rounds) {
  if (loop.run == nullptr) return 0;
  std::vector<float> sinks(team.size());
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const double seconds = team.run([&](std::size_t worker) { sinks[worker] = loop.run(rounds, 0.999f, 1e-3f); });
    best = std::max(best, loop.flops_per_round * static_cast<double>(rounds * team.size()) / seconds);
  }
  volatile float used = sinks[0];
  (void)used;
  return best;
}

}  // namespace

struct PeakProbe::State {
  State(const std::vector<std::uint32_t>& cpus, Multiplier multiplier) : team(cpus) {
    const PeakLoop own = peak_loop(multiplier);
    loop = own.run != nullptr ? own : peak_loop(Multiplier::widest_fma);
  }
  PinnedTeam team;
  PeakLoop loop;
};

PeakProbe::PeakProbe(const std::vector<std::uint32_t>& cpus, Multiplier multiplier)
    : state_(std::make_unique<State>(cpus, multiplier)) {}
PeakProbe::~PeakProbe() = default;

double PeakProbe::flops_per_second() {
  constexpr int kFew = 3;
  return best_peak(state_->team, state_->loop, kFew, state_->loop.rounds / 4);
}

FmaPeak measure_fma_peak(const std::vector<std::uint32_t>& cpus, bool tiles) {
  PinnedTeam team(cpus);
  const auto peak_of = [&](Multiplier multiplier) {
    const PeakLoop loop = peak_loop(multiplier);
    return best_peak(team, loop, kRuns, loop.rounds);
  };
  FmaPeak peak;
  peak.isa = choose_loops().isa;
  peak.flops = peak_of(Multiplier::widest_fma);
  peak.avx2_flops = peak_of(Multiplier::avx2_fma);
  peak.int16_flops = peak_of(Multiplier::int16_dot);
  peak.f16_flops = peak_of(Multiplier::f16_fma);
  peak.dot_flops = peak_of(Multiplier::bf16_dot);
  if (tiles) peak.tile_flops = peak_of(Multiplier::bf16_tiles), peak.int16_tile_flops = peak.tile_flops / 2;
  return peak;
}

}  // namespace cli

// What the tests of the AMX backend's kernels share: its sets, emulated or not, memory between pages that cannot be
// read, and a linear layer all of whose operands lie in such memory.
#pragma once

#include <sys/mman.h>

#include <span>

#include "amx_emulator.h"
#include "kernels_support.h"

namespace qinfer::test {

/// A set of the backend, if this CPU has what it needs beside tiles: those are emulated.
inline const KernelSet* emulated_set(std::string_view name = "amx") {
  const std::string features = platform::detect_cpu().features;
  const KernelSet* set = find_kernel_set(name, features + " amx_tile amx_bf16");
  if (set == nullptr) {
    WARN("this CPU has no AVX-512 with BF16: the AMX backend is not tested here");
    return nullptr;
  }
  if (!amx::is_native()) amx::install();
  return set;
}

/// Memory between two pages that cannot be read, at the end of its own pages or at their beginning.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, bool at_end = true) : bytes_(bytes) {
    const std::size_t page = 4096;
    size_ = (bytes + page - 1) / page * page + 2 * page;
    base_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + size_ - page, page, PROT_NONE);
    data_ = at_end ? base_ + size_ - page - bytes : base_ + page;
    std::memset(base_ + page, 0xff, size_ - 2 * page);
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::span<float> values() const { return {floats(), bytes_ / sizeof(float)}; }

 private:
  std::size_t bytes_, size_ = 0;
  std::byte *base_ = nullptr, *data_ = nullptr;
};

inline std::uint16_t bf16_of(float value) { return f32_to_bf16(value); }

/// Bound of one sum over k of products of bf16 numbers, as the hardware adds them up: each of two accumulators takes
/// 16 products of a step, then both are added to the total.
inline double amx_bound(const Sum& sum, std::int64_t cols) {
  return (18 + static_cast<double>(cols) / 32) * kEps * sum.magnitude + static_cast<double>(cols) * 0x1p-126;
}

struct LinearRun {
  std::vector<float> out;
  amx::Counts counts;
};

/// A linear layer all of whose operands lie between pages that cannot be read; `offset` bytes off a cache line.
inline LinearRun guarded_linear(const KernelSet& set, std::int64_t n, std::int64_t cols, std::int64_t outputs,
                                bool at_end) {
  Random random(static_cast<unsigned>(n + 3 * cols + 7 * outputs));
  const Guarded weights(static_cast<std::size_t>(cols * outputs) * 2, at_end),
      x(static_cast<std::size_t>(n * cols) * 4, at_end), out(static_cast<std::size_t>(n * outputs) * 4, at_end);
  std::vector<float> w(static_cast<std::size_t>(cols * outputs));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint16_t bits = bf16_of(random.value());
    std::memcpy(weights.data() + 2 * i, &bits, 2);
    w[i] = bf16_to_f32(bits);
  }
  for (float& value : x.values()) value = bf16_to_f32(bf16_of(random.value()));
  const Shape shape{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(cols), 1, 1, 2, 1, 1, 1};
  const WorkspaceSize size = set.linear_workspace(shape);
  const Guarded shared(round_up(size.shared, 64)), own(round_up(size.per_worker, 64));
  LinearArgs args{n,
                  {x.floats(), cols},
                  {weights.data(), {DType::bf16, WeightLayout::row_major}, outputs, cols},
                  nullptr,
                  false,
                  {out.floats(), outputs},
                  {shared.data(), own.data(), size.per_worker}};
  amx::watch(weights.data(), static_cast<std::size_t>(cols * outputs) * 2);
  const amx::Counts before = amx::counts();
  for (int phase = 0; phase < 2; ++phase) set.linear.run(args, phase, {0, set.linear.units(args, phase), 0});
  LinearRun run{{out.values().begin(), out.values().end()}, amx::counts()};
  run.counts.multiplications -= before.multiplications;
  run.counts.loads -= before.loads;
  run.counts.watched_lines -= before.watched_lines;
  run.counts.splits -= before.splits;
  CHECK_FALSE(amx::tiles_in_use());
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t j = 0; j < outputs; ++j) {
      const Sum want = dot(x.floats() + m * cols, w.data() + j * cols, cols);
      const double got = run.out[static_cast<std::size_t>(m * outputs + j)];
      if (std::fabs(got - want.value) <= amx_bound(want, cols)) continue;
      FAIL("n " << n << " cols " << cols << " outputs " << outputs << " row " << m << " output " << j << ": got " << got
                << ", want " << want.value << " within " << amx_bound(want, cols));
    }
  return run;
}

}  // namespace qinfer::test

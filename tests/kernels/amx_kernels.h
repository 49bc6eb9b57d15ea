// What the tests of the AMX backend's kernels share: its sets, emulated or not, memory between pages that cannot be
// read, and a linear layer all of whose operands are in such memory.
#pragma once

#include <sys/mman.h>

#include "kernels/support.h"
#include "support/amx_emulator.h"
#include "support/amx_runtime.h"
#include "support/skip.h"

namespace qinfer::test {

/// A set of the backend, NULL unless this CPU has what it needs beside tiles: those are emulated.
inline const KernelSet* emulated_set(std::string_view name = "amx") {
  const KernelSet* set = find_kernel_set(name, platform::cpu_features(system_with_tiles()));
  if (set != nullptr && !emulator::is_native()) emulator::install();
  return set;
}

/// Memory between two pages that cannot be read, at the end of its own pages or at their beginning.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, bool at_end = true) {
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

 private:
  std::size_t size_ = 0;
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
  emulator::Counts counts;
};

/// A linear layer all of whose operands are between pages that cannot be read, with weights in one of the layouts.
inline LinearRun guarded_linear(const KernelSet& set, std::int64_t n, std::int64_t cols, std::int64_t outputs,
                                bool at_end, WeightLayout layout = WeightLayout::row_major) {
  Random random(static_cast<unsigned>(n + 3 * cols + 7 * outputs));
  const ActivationLayout operands = set.layouts.operand_of(n), results = set.layouts.residual_of(n);
  const WeightFormat format{Encoding::bf16, layout};
  const std::uint64_t weight_size = weight_bytes(format, outputs, cols);
  const Guarded weights(weight_size, at_end), x_memory(ActivationBuffer::bytes(operands, n, cols), at_end),
      out_memory(ActivationBuffer::bytes(results, n, outputs), at_end);
  ActivationBuffer in(operands, n, cols, x_memory.data()), out(results, n, outputs, out_memory.data());
  std::vector<float> x = random.values(static_cast<std::size_t>(n * cols));
  std::vector<float> w(static_cast<std::size_t>(cols * outputs));
  std::vector<std::uint16_t> rows(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) {
    rows[i] = bf16_of(random.value());
    w[i] = bf16_to_f32(rows[i]);
  }
  const Matrix in_rows{
      reinterpret_cast<const std::byte*>(rows.data()), {Encoding::bf16, WeightLayout::row_major}, outputs, cols};
  set.pack(in_rows, format, {}, weights.data(), 0, outputs);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = bf16_to_f32(bf16_of(x[i]));
    in.set(static_cast<std::int64_t>(i) / cols, static_cast<std::int64_t>(i) % cols, x[i]);
  }
  in.fill_up();
  const Shape shape{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(cols), 1, 1, 2, 1, 1, 1};
  const WorkspaceSize size = set.linear_workspace(shape);
  const Guarded shared(round_up(size.shared, 64)), own(round_up(size.per_worker, 64));
  LinearArgs args{n,     in.view(),  Matrix{weights.data(), format, outputs, cols},
                  false, out.view(), {shared.data(), own.data(), size.per_worker}};
  emulator::watch(weights.data(), weight_size);
  const emulator::Counts before = emulator::counts();
  for (const int phase : {0, 1}) set.linear.run(args, phase, {0, set.linear.units(args, phase), 0});
  LinearRun run{out.rows(), emulator::counts()};
  run.counts.multiplications -= before.multiplications;
  run.counts.loads -= before.loads;
  run.counts.watched_lines -= before.watched_lines;
  run.counts.splits -= before.splits;
  CHECK_FALSE(emulator::tiles_in_use());
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t j = 0; j < outputs; ++j) {
      const Sum want = dot(x.data() + m * cols, w.data() + j * cols, cols);
      const double got = run.out[static_cast<std::size_t>(m * outputs + j)];
      if (std::fabs(got - want.value) <= amx_bound(want, cols)) continue;
      FAIL("n " << n << " cols " << cols << " outputs " << outputs << " row " << m << " output " << j << ": got " << got
                << ", want " << want.value << " within " << amx_bound(want, cols));
    }
  return run;
}

}  // namespace qinfer::test

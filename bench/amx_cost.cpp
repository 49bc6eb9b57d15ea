// What a layer costs on AMX, predicted from the instructions that the emulator of tests/ counts: how busy the tile
// multiplier is, and how many bytes come from memory. It needs no AMX (and must not have asked the system for tiles).
//
//   amx_cost [bytes per cycle that one core reads from memory, default 4]
//
// Taken as given: a multiplication takes 16 cycles, a load of a tile 8, and 8 more if its 16 rows are split, a store
// 16; loads and multiplications overlap. Weights come from memory once for each operation, activations from the caches.
// Units of an operation cost the same, so some of them are run and scaled. Experts get the same number of tokens each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../tests/support/amx_emulator.h"
#include "kernel_set.h"
#include "platform/cpu.h"
#include "platform/memory.h"

namespace {

using namespace qinfer;
using namespace qinfer::kernels;
namespace emulator = qinfer::test::emulator;

struct Cost {
  double multiplications = 0, loads = 0, stores = 0, splits = 0, weight_bytes = 0, flops = 0;

  void add(const Cost& other, double times) {
    multiplications += other.multiplications * times;
    loads += other.loads * times;
    stores += other.stores * times;
    splits += other.splits * times;
    weight_bytes += other.weight_bytes * times;
    flops += other.flops * times;
  }
  double tile_cycles() const { return std::max(16 * multiplications, 8 * loads + 8 * splits / 16 + 16 * stores); }
};

/// Zeros on whole pages, as far as anything reads them.
class Zeros {
 public:
  explicit Zeros(std::uint64_t bytes) {
    auto buffer = platform::Buffer::allocate({}, bytes + 4096, "zeros", platform::Pages::normal);
    if (!buffer.ok()) throw std::bad_alloc();
    buffer_ = std::move(buffer.value());
  }
  std::byte* data() const { return buffer_.data(); }

 private:
  platform::Buffer buffer_;
};

/// Runs at most 16 units of a phase and returns what all would cost.
template <typename Args>
Cost cost_of_phase(const Operation<Args>& operation, const Args& args, std::int32_t phase) {
  const std::int64_t units = operation.units(args, phase), some = std::min<std::int64_t>(units, 16);
  Cost cost;
  if (units == 0) return cost;
  const emulator::Counts before = emulator::counts();
  operation.run(args, phase, {0, some, 0});
  const emulator::Counts& after = emulator::counts();
  const double scale = static_cast<double>(units) / static_cast<double>(some);
  cost.multiplications = scale * static_cast<double>(after.multiplications - before.multiplications);
  cost.loads = scale * static_cast<double>(after.loads - before.loads);
  cost.stores = scale * static_cast<double>(after.stores - before.stores);
  cost.splits = scale * static_cast<double>(after.splits - before.splits);
  return cost;
}

Matrix zero_matrix(const Zeros& weights, std::int64_t rows, std::int64_t cols) {
  return {weights.data(), {Encoding::bf16, WeightLayout::row_major}, rows, cols};
}

std::uint64_t activation_bytes(ActivationLayout layout, std::int64_t n, std::int64_t width) {
  return layout_bytes(layout, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(width));
}

double bytes_of(std::int64_t rows, std::int64_t cols) { return 2.0 * static_cast<double>(rows * cols); }

Cost linear_cost(const KernelSet& set, std::int64_t n, std::int64_t cols, std::int64_t rows) {
  const Shape shape{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(cols), 1, 1, 2, 1, 1, 1};
  const WorkspaceSize size = set.linear_workspace(shape);
  const Zeros weights(static_cast<std::uint64_t>(rows * cols) * 2),
      x(activation_bytes(set.layouts.operand_of(n), n, cols)),
      out(activation_bytes(set.layouts.residual_of(n), n, rows)), space(size.shared + size.per_worker);
  const LinearArgs args{n,
                        {x.data(), set.layouts.operand_of(n), cols},
                        zero_matrix(weights, rows, cols),
                        false,
                        {out.data(), set.layouts.residual_of(n), rows},
                        {space.data(), space.data() + size.shared, size.per_worker}};
  Cost cost = cost_of_phase(set.linear, args, 1);
  cost.weight_bytes = bytes_of(rows, cols);
  cost.flops = cost.weight_bytes * static_cast<double>(n);
  return cost;
}

Cost ffn_cost(const KernelSet& set, std::int64_t n, std::int64_t hidden, std::int64_t width) {
  const Shape shape{static_cast<std::uint32_t>(n),
                    static_cast<std::uint32_t>(hidden),
                    1,
                    1,
                    2,
                    static_cast<std::uint32_t>(width),
                    1,
                    1};
  const WorkspaceSize size = set.ffn_workspace(shape);
  const Zeros weights(static_cast<std::uint64_t>(width * hidden) * 2),
      x(activation_bytes(set.layouts.operand_of(n), n, hidden)),
      out(activation_bytes(set.layouts.residual_of(n), n, hidden)), space(size.shared + size.per_worker);
  const FfnArgs args{n,
                     {x.data(), set.layouts.operand_of(n), hidden},
                     zero_matrix(weights, width, hidden),
                     zero_matrix(weights, width, hidden),
                     zero_matrix(weights, hidden, width),
                     {out.data(), set.layouts.residual_of(n), hidden},
                     {space.data(), space.data() + size.shared, size.per_worker}};
  Cost cost;
  for (std::int32_t phase = 0; phase < set.ffn.phases(args); ++phase) cost.add(cost_of_phase(set.ffn, args, phase), 1);
  cost.weight_bytes = 3 * bytes_of(width, hidden);
  cost.flops = cost.weight_bytes * static_cast<double>(n);
  return cost;
}

struct Geometry {
  const char* name;
  std::int64_t hidden, heads, kv_heads, head_dim, ffn;
  std::int64_t experts, used;  ///< 1 and 1: a dense network
};

Cost layer_cost(const KernelSet& set, const Geometry& g, std::int64_t n) {
  Cost cost;
  cost.add(linear_cost(set, n, g.hidden, (g.heads + 2 * g.kv_heads) * g.head_dim), 1);
  cost.add(linear_cost(set, n, g.heads * g.head_dim, g.hidden), 1);
  const std::int64_t busy = std::min(g.experts, n * g.used), each = std::max<std::int64_t>(1, n * g.used / busy);
  cost.add(ffn_cost(set, each, g.hidden, g.ffn), static_cast<double>(busy));
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  const double bytes_per_cycle = argc > 1 ? std::strtod(argv[1], nullptr) : 4;
  const KernelSet* set = find_kernel_set("amx", platform::cpu_features() + " avx512_bf16 amx_tile amx_bf16");
  if (set == nullptr || !(bytes_per_cycle > 0)) return std::fputs("amx_cost: needs AVX-512\n", stderr), 1;
  if (emulator::is_native()) return std::fputs("amx_cost: this process uses the CPU's own tiles\n", stderr), 1;
  emulator::install();
  emulator::skip_arithmetic();
  const Geometry geometries[] = {{"Qwen3-0.6B", 1024, 16, 8, 128, 3072, 1, 1},
                                 {"Qwen3-4B", 2560, 32, 8, 128, 9728, 1, 1},
                                 {"Qwen3-30B-A3B", 2048, 32, 4, 128, 768, 128, 8},
                                 {"Mixtral-8x22B", 6144, 48, 8, 128, 16384, 8, 2}};
  std::printf("one layer without attention, %.1f bytes a cycle from memory\n", bytes_per_cycle);
  std::printf("%-15s %6s %12s %8s %10s %10s %12s %12s\n", "", "tokens", "TDPBF16PS", "loads", "MB weights", "FLOP/byte",
              "multiplier", "multiplier");
  std::printf("%-15s %6s %12s %8s %10s %10s %12s %12s\n", "", "", "", "each", "", "of tiles", "in caches",
              "from memory");
  for (const Geometry& g : geometries)
    for (const std::int64_t n : {1, 16, 32, 512}) {
      const Cost cost = layer_cost(*set, g, n);
      const double busy = 16 * cost.multiplications, memory = cost.weight_bytes / bytes_per_cycle;
      // The paper's ideal for 32 x 32: four multiplications of 16,384 FLOP for four tiles of 1 KiB, 16 FLOP a byte.
      std::printf("%-15s %6lld %12.0f %8.2f %10.1f %10.1f %11.0f%% %11.0f%%\n", g.name, static_cast<long long>(n),
                  cost.multiplications, cost.loads / cost.multiplications, cost.weight_bytes / 1e6,
                  16384 * cost.multiplications / (1024 * cost.loads), 100 * busy / cost.tile_cycles(),
                  100 * busy / std::max(cost.tile_cycles(), memory));
    }
  return 0;
}

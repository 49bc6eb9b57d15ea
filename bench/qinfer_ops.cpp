// qinfer_ops: the operations that onednn_bench measures with oneDNN, computed by qinfer's kernels on a pinned team; one
// line of JSON for each (items.h). `qinfer_ops --ceilings` prints only what the machine can do at best,
// `qinfer_ops --bandwidth` only how fast memory is at this moment; `qinfer_ops --encodings` multiplies with every
// encoding of weights on every kernel set, the portable one too.
//
// Who is measured: each kernel set that this CPU can run (the portable one only where there is no other), with the
// weights it would choose if its sums are f16, otherwise with bf16 weights, which is what oneDNN has here:
// qinfer-avx512 multiplies bf16 weights with f32 activations and sums in f32. A set that multiplies packed weights
// another way than the file's is there twice. As in oneDNN's case, activations are
// brought into the kernel's layout within the measured time, except that qinfer-amx finds them in panels as its norms
// leave them.
#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "ceilings.h"
#include "harness.h"
#include "items.h"

namespace qinfer::bench {
namespace {

using kernels::KernelSet;
using kernels::WeightRole;

struct Contender {
  const KernelSet* set;
  Encoding weights;
  std::string name;
  bool packed = false;
};

/// Sets feature k of row m of operands.
void set_operand(const kernels::Activations& x, std::int64_t m, std::int64_t k, float value) {
  if (x.is_row_major()) {
    x.row(m)[k] = value;
    return;
  }
  const std::int64_t lines = (x.ld + 31) / 32 * 16;
  std::uint32_t& pair = x.pairs()[(m / 16 * lines + k / 2) * 16 + m % 16];
  const std::uint32_t bits = f32_to_bf16(value);
  pair = k % 2 == 0 ? (pair & 0xffff0000u) | bits : (pair & 0xffffu) | bits << 16;
}

/// A router whose output e is the input e.
class EvenRouter {
 public:
  EvenRouter(const KernelSet& set, std::int64_t experts, std::int64_t hidden) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(experts * hidden));
    for (std::int64_t e = 0; e < experts; ++e) values[static_cast<std::size_t>(e * hidden + e)] = f32_to_bf16(1);
    const kernels::Matrix source{reinterpret_cast<const std::byte*>(values.data()),
                                 {Encoding::bf16, kernels::WeightLayout::row_major},
                                 experts,
                                 hidden,
                                 {}};
    const kernels::WeightFormat format = format_for(set, WeightRole::router, nullptr);
    bytes_.resize(kernels::weight_bytes(format, experts, hidden));
    const float largest = set.pack(source, format, {}, bytes_.data(), 0, experts);
    view_ = {bytes_.data(), format, experts, hidden, {1, largest}};
  }
  const kernels::Matrix& view() const { return view_; }

 private:
  std::vector<std::byte> bytes_;
  kernels::Matrix view_;
};

/// The ceiling of products with such weights.
const char* peak_name(const KernelSet& set, Encoding weights) {
  switch (row_of(set).numerics.multiplier(weights)) {
    case kernels::Multiplier::f32_fma: return std::string_view(set.name).starts_with("avx2") ? "avx2-fma" : "f32-fma";
    case kernels::Multiplier::int16_dot: return "int16-dot";
    case kernels::Multiplier::int16_tiles: return "amx-int16";
    case kernels::Multiplier::f16_fma: return "f16-fma";
    case kernels::Multiplier::bf16_tiles: return "amx-bf16";
    case kernels::Multiplier::bf16_dot: return "bf16-dot";
  }
  return nullptr;
}

class Operations {
 public:
  Operations(const ItemOptions& options, const std::vector<std::uint32_t>& cpus) : items_(options), team_(cpus) {
    const Ceilings kinds{.f32_flops = 1, .f16_flops = 2};  // only to tell f32 sums from f16 sums
    for (const KernelSet* set : usable_sets()) {
      if (row_of(*set).needs.empty() && !contenders_.empty()) continue;
      const Encoding own = format_for(*set, WeightRole::gate, nullptr).encoding;
      const Encoding weights = projection_peak(kinds, *set, own) == kinds.f16_flops ? own : Encoding::bf16;
      contenders_.push_back({set, weights, std::string("qinfer-").append(set->name)});
      if (set->pack_format == nullptr) continue;
      kernels::WeightFormat packed = format_for(*set, WeightRole::gate, &weights);
      set->pack_format(WeightRole::gate, packed);
      if (packed != format_for(*set, WeightRole::gate, &weights))
        contenders_.push_back({set, weights, std::string("qinfer-").append(set->name).append("-packed"), true});
    }
  }

  /// One matrix in each encoding on each set that can hold it so.
  void run_encodings() {
    for (const KernelSet* set : usable_sets())
      for (const EncodingTraits& traits : encodings()) encoded(*set, traits.encoding);
  }

  void run() {
    for (const Contender& contender : contenders_) {
      ffn(contender);
      for (const std::int64_t experts : kMoeExperts) moe_ffn(contender, experts);
      for (const MatmulShape& shape : kMatmuls) matmul(contender, shape);
    }
    // Sets that differ only in projections share their attention: the first one stands for all.
    for (const std::int64_t head_size : kSdpaHeadSizes)
      for (const bool causal : {false, true}) sdpa(contenders_.front(), head_size, causal);
  }

 private:
  /// Whether any of these rows is wanted, so that weights are not made for nothing.
  bool any_wanted(const char* item, std::int64_t inputs, std::int64_t outputs, const std::vector<std::int64_t>& rows,
                  const std::string& who) const {
    for (const std::int64_t n : rows)
      if (items_.wanted(item_name(item, inputs, outputs, n) + who)) return true;
    return false;
  }

  Weights weights(const Contender& who, WeightRole role, std::int64_t rows, std::int64_t cols, std::int64_t copies) {
    kernels::WeightFormat format = format_for(*who.set, role, &who.weights);
    if (who.packed) who.set->pack_format(role, format);
    return Weights(team_, *who.set, format, rows, cols, copies);
  }

  void ffn(const Contender& who) {
    if (!any_wanted("ffn", kExpertHidden, kExpertWidth, kExpertRows, who.name)) return;
    const Weights gate = weights(who, WeightRole::gate, kExpertWidth, kExpertHidden, 1);
    const Weights up = weights(who, WeightRole::up, kExpertWidth, kExpertHidden, 1);
    const Weights down = weights(who, WeightRole::down, kExpertHidden, kExpertWidth, 1);
    for (const std::int64_t n : kExpertRows) {
      const std::string name = item_name("ffn", kExpertHidden, kExpertWidth, n) + who.name;
      if (!items_.wanted(name)) continue;
      const RandomRows x = random_operand(*who.set, n, kExpertHidden),
                       out = random_residual(*who.set, n, kExpertHidden);
      kernels::Shape sizes;
      sizes.batch = static_cast<std::uint32_t>(n);
      sizes.hidden = kExpertHidden, sizes.ffn = kExpertWidth;
      const OperationMemory memory(who.set->ffn_workspace(sizes), team_.size());
      kernels::FfnArgs args;
      args.n = n;
      args.x = x.view(), args.out = out.view();
      args.gate = gate.copy(0), args.up = up.copy(0), args.down = down.copy(0);
      args.workspace = memory.view();
      items_.measure(name, product_work(3, kExpertHidden, kExpertWidth, n),
                     [&](std::int64_t first, std::int64_t count) {
                       return team_.time(first, count, [&](std::int32_t worker, std::int64_t) {
                         team_.run_operation(who.set->ffn, args, worker);
                       });
                     });
    }
  }

  /// Experts of one step, each with the same number of rows; routing, gathering and weighted sums are timed, too.
  void moe_ffn(const Contender& who, std::int64_t experts) {
    const auto name_of = [&](std::int64_t rows) { return moe_name(experts, rows) + who.name; };
    if (std::none_of(kExpertRows.begin(), kExpertRows.end(), [&](auto n) { return items_.wanted(name_of(n)); })) return;
    const Weights gate = weights(who, WeightRole::gate, kExpertWidth, kExpertHidden, experts);
    const Weights up = weights(who, WeightRole::up, kExpertWidth, kExpertHidden, experts);
    const Weights down = weights(who, WeightRole::down, kExpertHidden, kExpertWidth, experts);
    const EvenRouter router(*who.set, experts, kExpertHidden);
    for (const std::int64_t rows : kExpertRows) {
      if (!items_.wanted(name_of(rows))) continue;
      const std::int64_t n = rows * experts;
      const RandomRows x = random_operand(*who.set, n, kExpertHidden),
                       out = random_residual(*who.set, n, kExpertHidden);
      for (std::int64_t m = 0; m < n; ++m)
        for (std::int64_t e = 0; e < experts; ++e) set_operand(x.view(), m, e, m % experts == e ? 9.0f : 0.0f);
      kernels::Shape sizes;
      sizes.batch = static_cast<std::uint32_t>(n);
      sizes.hidden = kExpertHidden, sizes.expert_width = kExpertWidth;
      sizes.experts = static_cast<std::uint32_t>(experts), sizes.top_k = 1;
      const kernels::MoeWorkspace size = who.set->moe_workspace(sizes);
      const Memory buffers(size.routes + size.gathered + size.inner);
      const OperationMemory memory({0, size.per_worker}, team_.size());
      kernels::MoeArgs args;
      args.n = n, args.x = x.view(), args.out = out.view();
      args.router = router.view();
      args.gate = &gate.copy(0), args.up = &up.copy(0), args.down = &down.copy(0);
      args.experts = sizes.experts, args.top_k = 1, args.normalise = true;
      args.buffers = {buffers.data(), buffers.data() + size.routes, buffers.data() + size.routes + size.gathered};
      args.workspace = memory.view();
      items_.measure(name_of(rows), moe_work(experts, rows), [&](std::int64_t first, std::int64_t count) {
        return team_.time(first, count, [&](std::int32_t worker, std::int64_t) {
          team_.run_operation(who.set->moe_ffn, args, worker);
        });
      });
    }
  }

  void matmul(const Contender& who, const MatmulShape& shape) {
    if (!any_wanted("matmul", shape.inputs, shape.outputs, shape.rows, who.name)) return;
    const std::int64_t copies = cold_copies(static_cast<std::uint64_t>(2 * shape.inputs * shape.outputs));
    const Weights w = weights(who, WeightRole::o, shape.outputs, shape.inputs, copies);
    for (const std::int64_t n : shape.rows) {
      const std::string name = item_name("matmul", shape.inputs, shape.outputs, n) + who.name;
      if (items_.wanted(name))
        linear(*who.set, name, shape, n, w, product_work(1, shape.inputs, shape.outputs, n),
               peak_name(*who.set, who.weights));
    }
  }

  void encoded(const KernelSet& set, Encoding encoding) {
    const MatmulShape& shape = kEncodedMatmul;
    kernels::WeightFormat format;
    if (!set.weight_format(WeightRole::o, encoding, &encoding, false, format)) return;
    const std::uint64_t bytes = kernels::weight_bytes(format, shape.outputs, shape.inputs);
    const Weights w(team_, set, format, shape.outputs, shape.inputs, cold_copies(bytes));
    const std::string item = std::string("linear ").append(encoding_name(encoding));
    for (const std::int64_t n : shape.rows) {
      const std::string name = item_name(item.c_str(), shape.inputs, shape.outputs, n) + "qinfer-" + set.name;
      if (!items_.wanted(name)) continue;
      ItemWork work = product_work(1, shape.inputs, shape.outputs, n);
      work.bytes = static_cast<double>(bytes);
      linear(set, name, shape, n, w, work, peak_name(set, encoding));
    }
  }

  void linear(const KernelSet& set, const std::string& name, const MatmulShape& shape, std::int64_t n, const Weights& w,
              const ItemWork& work, const char* peak = nullptr) {
    const RandomRows x = random_operand(set, n, shape.inputs), out = random_residual(set, n, shape.outputs);
    kernels::Shape sizes;
    sizes.batch = static_cast<std::uint32_t>(n);
    sizes.hidden = static_cast<std::uint32_t>(shape.inputs);
    const OperationMemory memory(set.linear_workspace(sizes), team_.size());
    items_.measure(
        name, work,
        [&](std::int64_t first, std::int64_t count) {
          return team_.time(first, count, [&](std::int32_t worker, std::int64_t call) {
            kernels::LinearArgs args;
            args.n = n;
            args.x = x.view(), args.w = w.copy(call), args.out = out.view();
            args.workspace = memory.view();
            team_.run_operation(set.linear, args, worker);
          });
        },
        peak);
  }

  /// Batch 32 as 32 sequences of one head, keys and values as f16 in the cache.
  void sdpa(const Contender& who, std::int64_t head_size, bool causal) {
    const std::string name = sdpa_name(head_size, causal) + "qinfer";
    if (!items_.wanted(name)) return;
    const auto positions = static_cast<std::uint64_t>(kSdpaKeys);
    KvLayout layout;
    layout.type = DType::f16;
    layout.n_layers = layout.n_kv_heads = 1;
    layout.head_dim = static_cast<std::uint32_t>(head_size);
    layout.head_dim_padded = who.set->kv_head_dim_padded(layout.head_dim, layout.type);
    layout.order = who.set->kv_order(layout.type);
    const RandomCache cache(layout, kSdpaBatch, positions);
    std::vector<kernels::Sequence> sequences;
    for (std::int64_t i = 0; i < kSdpaBatch; ++i)
      sequences.push_back({cache.view(i), static_cast<std::int32_t>(i * kSdpaKeys), kSdpaKeys, 0});
    kernels::Shape sizes;
    sizes.batch = kSdpaBatch * kSdpaKeys;
    sizes.n_heads = sizes.n_kv_heads = 1;
    sizes.head_dim = layout.head_dim, sizes.head_dim_padded = layout.head_dim_padded;
    sizes.context = static_cast<std::uint32_t>(positions);
    const OperationMemory memory(who.set->attention_workspace(sizes), team_.size());
    constexpr std::int64_t kRows = kSdpaBatch * kSdpaKeys;
    const RandomRows q = random_queries(*who.set, kRows, 1, static_cast<std::uint64_t>(head_size)),
                     out = random_operand(*who.set, kRows, head_size);
    kernels::AttentionArgs args;
    args.n = kRows;
    args.q = q.view(), args.out = out.view();
    args.n_heads = 1;
    args.scale = 0.1f;
    args.causal = causal;
    args.kv = layout;
    args.sequences = sequences;
    args.workspace = memory.view();
    items_.measure(name, sdpa_work(head_size, causal ? kCausalKeys : kAllKeys),
                   [&](std::int64_t at, std::int64_t count) {
                     return team_.time(at, count, [&](std::int32_t worker, std::int64_t) {
                       team_.run_operation(who.set->attention, args, worker);
                     });
                   });
  }

  Items items_;
  Team team_;
  std::vector<Contender> contenders_;
};

void print_ceilings(const std::vector<std::uint32_t>& cpus) {
  const Ceilings ceilings = measure_ceilings(cpus);
  std::printf("{\"name\": \"ceiling/read-bandwidth\", \"gb_per_s\": %.3f}\n", ceilings.bandwidth / 1e9);
  std::printf("{\"name\": \"ceiling/f32-fma\", \"gflops\": %.2f}\n", ceilings.f32_flops / 1e9);
  if (ceilings.avx2_flops > 0)
    std::printf("{\"name\": \"ceiling/avx2-fma\", \"gflops\": %.2f}\n", ceilings.avx2_flops / 1e9);
  if (ceilings.tile_flops > 0)
    std::printf("{\"name\": \"ceiling/amx-int16\", \"gflops\": %.2f}\n", ceilings.tile_flops / 2e9);
  if (ceilings.int16_flops > 0)
    std::printf("{\"name\": \"ceiling/int16-dot\", \"gflops\": %.2f}\n", ceilings.int16_flops / 1e9);
  if (ceilings.f16_flops > 0)
    std::printf("{\"name\": \"ceiling/f16-fma\", \"gflops\": %.2f}\n", ceilings.f16_flops / 1e9);
  if (ceilings.dot_flops > 0)
    std::printf("{\"name\": \"ceiling/bf16-dot\", \"gflops\": %.2f}\n", ceilings.dot_flops / 1e9);
  if (ceilings.tile_flops > 0)
    std::printf("{\"name\": \"ceiling/amx-bf16\", \"gflops\": %.2f}\n", ceilings.tile_flops / 1e9);
  std::fflush(stdout);
}

}  // namespace
}  // namespace qinfer::bench

int main(int argc, char** argv) {
  using namespace qinfer::bench;
  try {
    const ItemOptions options = parse_item_options(argc, argv);
    const std::vector<std::uint32_t> cpus = parse_cpus(options.cpus, options.threads);
    if (options.ceilings_only) return print_ceilings(cpus), 0;
    if (options.bandwidth_only) {
      std::printf("{\"name\": \"bandwidth\", \"gb_per_s\": %.3f}\n",
                  cli::BandwidthProbe(cpus).bytes_per_second() / 1e9);
      return 0;
    }
    Operations operations(options, cpus);
    options.encodings_only ? operations.run_encodings() : operations.run();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "qinfer_ops: %s\n", e.what());
    return 1;
  }
}

// AMX operations with every operand between pages that cannot be read: tile loads take whole rows of 64 bytes, and no
// sanitizer sees them. Linear layers, whose costs are counted too, are in kernels_amx.cpp; what operations compute is
// tested in table.cpp and attention.cpp.
#ifdef QINFER_HAVE_AMX
#include "kernels/amx_kernels.h"
#include "kernels/quant_support.h"

namespace {

using namespace qinfer;
using namespace qinfer::test;

/// A bf16 matrix of ones between guard pages, as rows or in pairs.
struct GuardedMatrix {
  Guarded memory;
  Matrix view;

  GuardedMatrix(std::int64_t rows, std::int64_t cols, WeightLayout layout, bool at_end)
      : memory(weight_bytes({Encoding::bf16, layout}, rows, cols), at_end),
        view{memory.data(), {Encoding::bf16, layout}, rows, cols} {
    const std::vector<std::uint16_t> ones(static_cast<std::size_t>(rows * cols), bf16_of(1.0f));
    const Matrix source{
        reinterpret_cast<const std::byte*>(ones.data()), {Encoding::bf16, WeightLayout::row_major}, rows, cols};
    emulated_set()->pack(source, view.format, {}, memory.data(), 0, rows);
  }
};

/// ActivationBuffer between guard pages; all values the same.
struct GuardedRows {
  Guarded memory;
  ActivationBuffer rows;

  GuardedRows(ActivationLayout layout, std::int64_t n, std::int64_t width, bool at_end, float value)
      : memory(ActivationBuffer::bytes(layout, n, width), at_end), rows(layout, n, width, memory.data()) {
    for (std::int64_t m = 0; m < n; ++m)
      for (std::int64_t k = 0; k < width; ++k) rows.set(m, k, value);
    rows.fill_up();
  }
};

/// The workspace of one worker between guard pages.
struct GuardedWorkspace {
  Guarded shared, own;
  Workspace view;

  explicit GuardedWorkspace(const WorkspaceSize& size)
      : shared(round_up(size.shared, 64)),
        own(round_up(size.per_worker, 64)),
        view{shared.data(), own.data(), size.per_worker} {}
};

template <typename Args>
void run(const Operation<Args>& operation, const Args& args) {
  for (int phase = 0; phase < operation.phases(args); ++phase)
    operation.run(args, phase, {0, operation.units(args, phase), 0});
}

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

/// A linear layer with quantised weights, which has the bits that it has in ordinary memory.
void guarded_quantised(const KernelSet& set, Encoding encoding, std::int64_t n, bool at_end) {
  const std::int64_t outputs = 70, cols = 2 * encoding_traits(encoding).block_values;
  Random random(static_cast<unsigned>(n));
  WeightFormat format;
  REQUIRE(set.weight_format(WeightRole::q, encoding, nullptr, false, format));
  const TestMatrix w =
      pack_blocks(set, random_blocks(random, encoding, outputs * cols), encoding, format, outputs, cols);
  const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols));
  const Shape shape{u32(n), u32(cols), 1, 1, 2, 1, 1, 1};
  const WorkspaceSize size = set.linear_workspace(shape);
  ActivationBuffer in = operand(set, x.data(), n, cols), want = residual(set, n, outputs);
  std::vector<std::byte> memory;
  LinearArgs usual{n, in.view(), w.view, false, want.view(), {}};
  run_all(set.linear, usual, size, memory, 1);

  const std::uint64_t bytes = weight_bytes(format, outputs, cols);
  const Guarded weights(bytes, at_end);
  std::memcpy(weights.data(), w.view.data, bytes);
  GuardedRows guarded_in(set.layouts.operand_of(n), n, cols, at_end, 0),
      out(set.layouts.residual_of(n), n, outputs, at_end, 0);
  for (std::int64_t i = 0; i < n * cols; ++i) guarded_in.rows.set(i / cols, i % cols, x[static_cast<std::size_t>(i)]);
  const GuardedWorkspace space(size);
  Linear guarded{w.view};
  guarded.data = weights.data();
  run(set.linear, LinearArgs{n, guarded_in.rows.view(), guarded, false, out.rows.view(), space.view});
  CHECK_FALSE(emulator::tiles_in_use());
  CHECK(same_bits(out.rows.rows(), want.rows()));
}

void guarded_ffn(const KernelSet& set, WeightLayout layout, std::int64_t n, std::int64_t hidden, std::int64_t ffn,
                 bool at_end) {
  const GuardedMatrix gate(ffn, hidden, layout, at_end), up(ffn, hidden, layout, at_end),
      down(hidden, ffn, layout, at_end);
  GuardedRows x(set.layouts.operand_of(n), n, hidden, at_end, 0.5f),
      out(set.layouts.residual_of(n), n, hidden, at_end, 0);
  const GuardedWorkspace space(set.ffn_workspace({.batch = u32(n),
                                                  .hidden = u32(hidden),
                                                  .n_heads = 1,
                                                  .n_kv_heads = 1,
                                                  .head_dim = 2,
                                                  .ffn = u32(ffn),
                                                  .vocab = 1,
                                                  .context = 1}));
  FfnArgs args;
  args.n = n;
  args.x = x.rows.view(), args.out = out.rows.view();
  args.gate = gate.view, args.up = up.view, args.down = down.view;
  args.workspace = space.view;
  run(set.ffn, args);
  const double g = 0.5 * static_cast<double>(hidden), want = g / (1 + std::exp(-g)) * g * static_cast<double>(ffn);
  CHECK(std::fabs(out.rows.get(n - 1, hidden - 1) - want) <= 2 * kBf16 * want);
}

void guarded_lm_head(const KernelSet& set, WeightLayout layout, std::int64_t n, std::int64_t hidden, std::int64_t vocab,
                     bool at_end) {
  const GuardedMatrix w(vocab, hidden, layout, at_end);
  GuardedRows x(set.layouts.operand_of(n), n, hidden, at_end, 0.5f),
      out(ActivationLayout::row_major, n, vocab, at_end, 0);
  std::vector<float*> rows;
  for (std::int64_t m = 0; m < n; ++m) rows.push_back(out.rows.view().row(m));
  const GuardedWorkspace space(set.lm_head_workspace({.batch = u32(n),
                                                      .hidden = u32(hidden),
                                                      .n_heads = 1,
                                                      .n_kv_heads = 1,
                                                      .head_dim = 2,
                                                      .ffn = 1,
                                                      .vocab = u32(vocab),
                                                      .context = 1}));
  run(set.lm_head, LmHeadArgs{n, x.rows.view(), w.view, rows.data(), space.view});
  CHECK(out.rows.get(n - 1, vocab - 1) == 0.5f * static_cast<float>(hidden));
}

/// Projections, the write to a cache between guard pages, and attention over it: values are all the same, and so is
/// their mean.
void guarded_attention(const KernelSet& set, WeightLayout weights, WeightLayout of_values, std::int64_t n,
                       std::uint32_t head_dim, DType type, bool at_end, bool norm_whole) {
  constexpr std::int64_t kHidden = 33;
  constexpr std::uint32_t kHeads = 4, kKvHeads = 2;
  const std::int64_t width = kHeads * head_dim, kv_width = kKvHeads * head_dim;
  const GuardedMatrix wq(width, kHidden, weights, at_end), wk(kv_width, kHidden, weights, at_end),
      wv(kv_width, kHidden, of_values, at_end);
  const KvLayout layout{type, 1, kKvHeads, head_dim, set.kv_head_dim_padded(head_dim, type), 32, set.kv_order(type)};
  const Guarded cache(layout.blocks_for(static_cast<std::uint64_t>(n)) * layout.block_bytes());
  const Sequence sequence{{cache.data(), nullptr}, 0, static_cast<std::int32_t>(n), 0};
  const std::int64_t q_width = static_cast<std::int64_t>(query_width(set.layouts.query_of(n), kHeads, head_dim));
  GuardedRows x(set.layouts.operand_of(n), n, kHidden, at_end, 0.5f), q(set.layouts.query_of(n), n, q_width, at_end, 0),
      out(set.layouts.operand_of(n), n, width, at_end, 0);
  const Guarded rope(static_cast<std::size_t>(n) * head_dim * 4, at_end);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n) * head_dim; ++i) {
    const float value = i % 2 == 0 ? 1.0f : 0.0f;
    std::memcpy(rope.data() + 4 * i, &value, 4);
  }
  const Shape shape{u32(n), u32(kHidden),           kHeads, kKvHeads,  head_dim, 1, 1,
                    u32(n), layout.head_dim_padded, 1,      norm_whole};
  const std::vector<float> ones(static_cast<std::size_t>(width), 1.0f);
  const GuardedWorkspace project(set.qkv_workspace(shape)), attend(set.attention_workspace(shape));
  QkvArgs qkv;
  qkv.n = n;
  qkv.x = x.rows.view(), qkv.q = q.rows.view();
  qkv.wq = wq.view, qkv.wk = wk.view, qkv.wv = wv.view;
  qkv.rope = reinterpret_cast<const float*>(rope.data());
  qkv.n_heads = kHeads;
  qkv.norm_whole = norm_whole;
  if (norm_whole) qkv.q_norm = qkv.k_norm = ones.data();
  qkv.kv = layout;
  qkv.sequences = {&sequence, 1};
  qkv.workspace = project.view;
  run(set.qkv, qkv);
  AttentionArgs args;
  args.n = n;
  args.q = q.rows.view(), args.out = out.rows.view();
  args.n_heads = kHeads;
  args.scale = 0.01f;
  args.kv = layout;
  args.sequences = {&sequence, 1};
  args.workspace = attend.view;
  run(set.attention, args);
  CHECK(std::fabs(out.rows.get(n - 1, width - 1) - 16.5) <= 2 * kBf16 * 16.5);
}

}  // namespace

TEST_CASE("quantised weights as integers on tiles: nothing but the operands is read and written", "[kernels][amx]") {
  const KernelSet* set = emulable_set("amx_int16");
  SKIP_UNLESS(set != nullptr, cpu, "the kernel set amx_int16 does not run on it");
  for (const Encoding encoding : quantised_encodings())
    for (const std::int64_t n : {1, 7, 8, 9, 11, 12, 19, 23, 24, 25, 61})
      for (const bool at_end : {false, true}) {
        INFO(encoding_name(encoding) << " n " << n << (at_end ? " at the end" : " at the beginning") << " of pages");
        guarded_quantised(*set, encoding, n, at_end);
      }
}

TEST_CASE("AMX operations read and write nothing but their operands", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  const auto check = [](const KernelSet& set, WeightLayout layout) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 8, 9, 17, 40})
      for (const bool at_end : {true, false}) {
        INFO(set.name << " n " << n << (at_end ? " at the end " : " at the begin ") << weight_layout_name(layout));
        guarded_ffn(set, layout, n, 33, 50, at_end);
        guarded_ffn(set, layout, n, 64, 31, at_end);
        guarded_lm_head(set, layout, n, 31, 49, at_end);
        guarded_lm_head(set, layout, n, 96, 64, at_end);
        guarded_lm_head(set, layout, n, 40, 260, at_end);
        for (const std::uint32_t head_dim : {10u, 32u, 80u})
          for (const DType type : {DType::bf16, DType::f16, DType::f32})
            for (const bool norm_whole : {false, true})
              for (const WeightLayout of_values : {layout, WeightLayout::row_major})
                guarded_attention(set, layout, of_values, n, head_dim, type, at_end, norm_whole);
      }
  };
  for (const WeightLayout layout : {WeightLayout::row_major, WeightLayout::pairs16}) check(*emulated_set(), layout);
}
#endif

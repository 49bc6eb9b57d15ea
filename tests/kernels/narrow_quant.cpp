// Quantised weights multiplied as bf16 (avx512_bf16) and as 16-bit integers (avx2_int16, avx512_int16, avx512_fp16,
// amx_int16): sums equal a scalar model bit for bit for every encoding, number of rows and slice; and operations whose
// matrices differ in their encodings.
#include "kernels/narrow_models.h"
#include "kernels/quant_support.h"
#include "support/skip.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

bool has_integers(const KernelSet& set) {
  const Multiplier multiplier = row_of(set.name).numerics.multiplier(Encoding::q4_k);
  return multiplier == Multiplier::int16_dot || multiplier == Multiplier::int16_tiles;
}

/// What a set makes of plain weights where nothing else is asked for.
Encoding plain_of(const KernelSet& set) { return rounds_to_bf16(set) ? Encoding::bf16 : Encoding::f16; }

struct Blocks {
  std::vector<std::byte> source;
  TestMatrix packed;
  const std::byte* row(std::int64_t j) const {
    return source.data() + encoded_bytes(packed.view.format.encoding, static_cast<std::uint64_t>(j * packed.view.cols));
  }
};

/// Plain bf16 where the encoding says so, which every set here holds.
Blocks make_blocks(const KernelSet& set, Random& random, Encoding encoding, std::int64_t rows, std::int64_t cols) {
  if (is_plain(encoding)) return {{}, make_matrix(set, random, element_type(encoding), rows, cols)};
  Blocks out{random_blocks(random, encoding, rows * cols), {}};
  WeightFormat format;
  REQUIRE(set.weight_format(WeightRole::q, encoding, nullptr, false, format));
  REQUIRE(format.encoding == encoding);
  out.packed = pack_blocks(set, out.source, encoding, format, rows, cols);
  return out;
}

/// The set that multiplies a matrix alone as this one does where these share activations: those with products of
/// integers multiply all of them in f32, as avx512 and avx2 do, where some are quantised and some are not.
const KernelSet& multiplies_alone(const KernelSet& set, std::initializer_list<Encoding> encodings) {
  const bool any_plain = std::any_of(encodings.begin(), encodings.end(), is_plain);
  const bool all_plain = std::all_of(encodings.begin(), encodings.end(), is_plain);
  if (all_plain || !any_plain || rounds_to_bf16(set)) return set;
  return *usable_set(std::string_view(set.name) == "avx2_int16" ? "avx2" : "avx512");
}

std::vector<float> run_linear(const KernelSet& set, const TestMatrix& w, const std::vector<float>& x, std::int64_t n,
                              int workers) {
  ActivationBuffer in = operand(set, x.data(), n, w.view.cols), out = residual(set, n, w.view.rows);
  LinearArgs args{n, in.view(), w.view, false, out.view(), {}};
  const Shape shape = linear_shape(n, w.view.cols);
  std::vector<std::byte> memory;
  run_all(set.linear, args, set.linear_workspace(shape), memory, workers);
  return out.rows();
}

void check_on(const char* name, void (*check)(const KernelSet& set)) {
  const KernelSet* set = emulable_set(name);
  SKIP_UNLESS(set != nullptr, cpu, "the kernel set " + std::string(name) + " does not run on it");
  check(*set);
}

void check_against_model(const KernelSet& set, Encoding encoding, std::int64_t blocks, std::int64_t n) {
  const std::int64_t cols = blocks * encoding_traits(encoding).block_values, outputs = 70;
  Random random(static_cast<unsigned>(cols + n));
  const Blocks w = make_blocks(set, random, encoding, outputs, cols);
  const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols)),
                           out = run_linear(set, w.packed, x, n, 3);
  const auto model = has_integers(set) ? int16_model : bf16_model;
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t j = 0; j < outputs; ++j) {
      INFO(set.name << " " << encoding_name(encoding) << " cols " << cols << " n " << n << " row " << m << " output "
                    << j);
      REQUIRE(out[static_cast<std::size_t>(m * outputs + j)] == model(encoding, w.row(j), x.data() + m * cols, cols));
    }
}

bool is_short(Encoding encoding) { return encoding_traits(encoding).block_values == 32; }

void check_models(const KernelSet& set) {
  for (const Encoding encoding : quantised_encodings()) {
    for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 19, 23, 29, 41, 61})
      check_against_model(set, encoding, 1, n);
    for (const std::int64_t n : {1, 7, 13, 41, 61}) check_against_model(set, encoding, 3, n);
    // More panels and sub-blocks than tiles take at once, with and without a panel of their own after them.
    for (const std::int64_t n : {24, 108, 113}) check_against_model(set, encoding, is_short(encoding) ? 9 : 2, n);
  }
}

void check_slices(const KernelSet& set) {
  const std::int64_t n = 27, outputs = 60;
  for (const Encoding encoding : quantised_encodings()) {
    const std::int64_t cols = encoding_traits(encoding).block_values;
    Random random(3);
    const Blocks w = make_blocks(set, random, encoding, outputs, cols);
    const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols)),
                             all = run_linear(set, w.packed, x, n, 1);
    for (const std::int64_t size : {1, 8, 9, 13})
      for (std::int64_t first = 0; first + size <= n; first += size) {
        INFO(set.name << " " << encoding_name(encoding) << " rows " << first << " and " << size);
        const std::vector<float> part(x.begin() + first * cols, x.begin() + (first + size) * cols),
            want(all.begin() + first * outputs, all.begin() + (first + size) * outputs);
        REQUIRE(same_bits(run_linear(set, w.packed, part, size, 4), want));
      }
  }
}

/// Sets of 16-bit integers, which scale activations.
void check_extremes(const KernelSet& set) {
  const std::int64_t cols = 64, outputs = 33;
  std::vector<std::byte> blocks(encoded_bytes(Encoding::q8_0, static_cast<std::uint64_t>(outputs * cols)));
  const std::uint16_t scale = f32_to_f16(0.5f);
  for (std::size_t at = 0; at < blocks.size(); at += 34) {
    std::memcpy(blocks.data() + at, &scale, 2);
    std::fill_n(blocks.begin() + static_cast<std::ptrdiff_t>(at) + 2, 32, std::byte{0x80});  // -128
  }
  WeightFormat format;
  REQUIRE(set.weight_format(WeightRole::q, Encoding::q8_0, nullptr, false, format));
  const TestMatrix w = pack_blocks(set, blocks, Encoding::q8_0, format, outputs, cols);
  for (const float x : {1.0f, std::nextafter(2.0f, 0.0f), 65504.0f, 1e30f, -3e38f / 8192, 1e-30f, 0x1p-126f}) {
    std::vector<float> row(static_cast<std::size_t>(24 * cols), x);
    row[5] = x / 4096;  // next to the largest one
    const std::vector<float> out = run_linear(set, w, row, 24, 2);
    INFO(set.name << " " << x);
    const double want = -64.0 * x * static_cast<double>(cols);
    const double bound = 0x1p-14 * std::fabs(want);  // activations are rounded by up to 2^-15
    for (std::int64_t j = 0; j < outputs; ++j) {
      CHECK(std::fabs(out[static_cast<std::size_t>(outputs + j)] - want) <= bound);
      CHECK(std::fabs(out[static_cast<std::size_t>(j)] - want * 63 / 64) <= bound);
    }
  }
  // What is no number stays in its row.
  std::vector<float> rows(static_cast<std::size_t>(25 * cols), 1.0f);
  const std::vector<float> usual = run_linear(set, w, rows, 25, 1);
  for (const float x : {NAN, INFINITY, 0x1p115f}) {
    rows[static_cast<std::size_t>(cols) + 7] = x;
    const std::vector<float> out = run_linear(set, w, rows, 25, 1);
    for (std::int64_t j = 0; j < outputs; ++j) {
      const float of_row = out[static_cast<std::size_t>(outputs + j)];
      CHECK(std::isnan(of_row));
      for (const std::int64_t m : {0, 2, 12, 24})
        CHECK(out[static_cast<std::size_t>(m * outputs + j)] == usual[static_cast<std::size_t>(m * outputs + j)]);
    }
  }
}

/// Biases, scales, what was there, and soft caps.
void check_what_follows(const KernelSet& set) {
  const std::int64_t outputs = 70, cols = 256;
  for (const Encoding encoding : {Encoding::q4_k, Encoding::q8_0})
    for (const std::int64_t n : {1, 9, 25}) {
      INFO(set.name << " " << encoding_name(encoding) << " n " << n);
      Random random(5);
      const Blocks w = make_blocks(set, random, encoding, outputs, cols);
      const auto size = static_cast<std::size_t>(n * outputs);
      const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols)), before = random.values(size),
                               bias = random.values(static_cast<std::size_t>(outputs)),
                               sums = run_linear(set, w.packed, x, n, 2);
      ActivationBuffer in = operand(set, x.data(), n, cols), out = residual(set, before, n, outputs);
      LinearArgs layer{n, in.view(), {w.packed.view, bias.data(), 0.75f}, true, out.view(), {}};
      std::vector<std::byte> memory;
      run_all(set.linear, layer, set.linear_workspace(linear_shape(n, cols)), memory, 2);
      std::vector<float> logits(size);
      std::vector<float*> rows;
      for (std::int64_t m = 0; m < n; ++m) rows.push_back(logits.data() + m * outputs);
      LmHeadArgs head{n, in.view(), w.packed.view, rows.data(), {}, 30};
      Shape shape = linear_shape(n, cols);
      shape.vocab = static_cast<std::uint32_t>(outputs);
      run_all(set.lm_head, head, set.lm_head_workspace(shape), memory, 2);
      const std::vector<float> got = out.rows();
      for (std::size_t i = 0; i < size; ++i) {
        CHECK(got[i] == before[i] + (sums[i] + bias[i % static_cast<std::size_t>(outputs)]) * 0.75f);
        CHECK(std::fabs(logits[i] - 30 * std::tanh(static_cast<double>(sums[i]) / 30)) <= 1e-5);
      }
    }
}

void check_qkv(const KernelSet& set) {
  constexpr std::uint32_t kHeads = 2, kWidth = 24;
  const std::int64_t cols = 256, rows = kHeads * kWidth;
  const Encoding plain = plain_of(set);
  const Encoding all[][3] = {{Encoding::q4_k, Encoding::q4_k, Encoding::q6_k},
                             {Encoding::q4_k, Encoding::q5_0, plain},
                             {Encoding::bf16, Encoding::q8_0, Encoding::q8_0},
                             {plain, Encoding::q4_0, plain}};
  for (const auto& encodings : all)
    for (const std::int32_t n : {1, 9, 30}) {
      Random random(static_cast<unsigned>(n));
      Blocks w[3];
      for (int i = 0; i < 3; ++i) w[i] = make_blocks(set, random, encodings[i], rows, cols);
      const std::vector<float> x = random.values(static_cast<std::size_t>(n * cols));
      const KvLayout layout{
          DType::f32, 1, kHeads, kWidth, set.kv_head_dim_padded(kWidth, DType::f32), 32, set.kv_order(DType::f32)};
      std::vector<std::byte> arena(layout.block_bytes());
      ActivationBuffer in = operand(set, x.data(), n, cols), q(set.layouts.query_of(n), n, rows);
      const Sequence sequence{{arena.data(), nullptr}, 0, n, 1};
      QkvArgs args;
      args.n = n, args.x = in.view(), args.q = q.view();
      args.wq = w[0].packed.view, args.wk = w[1].packed.view, args.wv = w[2].packed.view;
      args.n_heads = kHeads, args.kv = layout, args.sequences = {&sequence, 1};
      std::vector<std::byte> memory;
      const Shape shape{.batch = static_cast<std::uint32_t>(n),
                        .hidden = static_cast<std::uint32_t>(cols),
                        .n_heads = kHeads,
                        .n_kv_heads = kHeads,
                        .head_dim = kWidth,
                        .ffn = 1,
                        .vocab = 1,
                        .context = 32};
      run_all(set.qkv, args, set.qkv_workspace(shape), memory, 3);
      std::vector<float> alone[3];
      const KernelSet& own = multiplies_alone(set, {encodings[0], encodings[1], encodings[2]});
      INFO(set.name << ", alone on " << own.name << ", n " << n);
      for (int i = 0; i < 3; ++i) alone[i] = run_linear(own, w[i].packed, x, n, 1);
      CHECK(same_bits(q.rows(), alone[0]));
      for (std::uint32_t m = 0; m < static_cast<std::uint32_t>(n); ++m)
        for (std::uint32_t head = 0; head < kHeads; ++head)
          for (std::uint32_t i = 0; i < kWidth; ++i) {
            const auto* keys = reinterpret_cast<const float*>(sequence.kv.k_tile(layout, 0, head, 0));
            const std::size_t at = (std::size_t{m} * kHeads + head) * kWidth + i;
            REQUIRE(keys[layout.k_index(m + 1, i)] == alone[1][at]);
            REQUIRE(keys[layout.tile_bytes() / 4 + layout.v_index(m + 1, i)] == alone[2][at]);
          }
    }
}

void check_networks(const KernelSet& set) {
  const std::int64_t hidden = 256, width = 512;
  const Encoding plain = plain_of(set);
  for (const auto& [gate_as, up_as, down_as] :
       {std::tuple(Encoding::q4_k, Encoding::q6_k, Encoding::q8_0),
        std::tuple(Encoding::bf16, Encoding::q4_0, Encoding::bf16),
        std::tuple(Encoding::q5_k, Encoding::q5_k, Encoding::q6_k), std::tuple(plain, Encoding::q4_k, plain),
        std::tuple(Encoding::q8_0, plain, Encoding::q4_1)})
    for (const std::int64_t n : {1, 10, 40, 61}) {
      Random random(static_cast<unsigned>(n));
      const Blocks gate = make_blocks(set, random, gate_as, width, hidden),
                   up = make_blocks(set, random, up_as, width, hidden),
                   down = make_blocks(set, random, down_as, hidden, width);
      const std::vector<float> x = random.values(static_cast<std::size_t>(n * hidden));
      ActivationBuffer in = operand(set, x.data(), n, hidden), out = residual(set, n, hidden);
      FfnArgs args{n,          in.view(), gate.packed.view, up.packed.view, down.packed.view,
                   out.view(), {},        Activation::silu, false};
      std::vector<std::byte> memory;
      const Shape shape{.batch = static_cast<std::uint32_t>(n),
                        .hidden = static_cast<std::uint32_t>(hidden),
                        .n_heads = 1,
                        .n_kv_heads = 1,
                        .head_dim = 2,
                        .ffn = static_cast<std::uint32_t>(width),
                        .vocab = 1,
                        .context = 1};
      run_all(set.ffn, args, set.ffn_workspace(shape), memory, 3);
      const KernelSet& own = multiplies_alone(set, {gate_as, up_as});
      const std::vector<float> g = run_linear(own, gate.packed, x, n, 1), u = run_linear(own, up.packed, x, n, 1),
                               got = out.rows();
      for (std::int64_t m = 0; m < n; ++m)
        for (std::int64_t i = 0; i < hidden; ++i) {
          double want = 0, magnitude = 0, of_largest = 0;
          std::vector<double> inner(static_cast<std::size_t>(width));
          for (std::int64_t j = 0; j < width; ++j) {
            const double a = g[static_cast<std::size_t>(m * width + j)], b = u[static_cast<std::size_t>(m * width + j)];
            inner[static_cast<std::size_t>(j)] = a / (1 + std::exp(-a)) * b;
          }
          for (std::int64_t j = 0; j < width; ++j) {
            const double w = down.packed.values[static_cast<std::size_t>(i * width + j)];
            const auto run = inner.begin() + j / 32 * 32;
            const auto less = [](double c, double d) { return std::fabs(c) < std::fabs(d); };
            const double term = inner[static_cast<std::size_t>(j)] * w;
            want += term, magnitude += std::fabs(term);
            of_largest += std::fabs(*std::max_element(run, run + 32, less) * w);
          }
          INFO(set.name << " " << encoding_name(gate_as) << " n " << n << " row " << m << " output " << i);
          // Each term is rounded once, of integers relative to the largest activation of 32; and sums of what is
          // multiplied with minima cancel. Sums of plain weights may be of f16.
          const bool precise = has_integers(set) && row_of(set.name).numerics.multiplier(
                                                        down.packed.view.format.encoding) != Multiplier::f16_fma;
          const double bound = precise ? 0x1.01p-15 * of_largest : 4 * kBf16 * magnitude;
          REQUIRE(std::fabs(got[static_cast<std::size_t>(m * hidden + i)] - want) <= bound + 1e-30);
        }
    }
}

void check_experts(const KernelSet& set) {
  const std::int64_t hidden = 256, width = 512;
  const Encoding plain = plain_of(set);
  for (const auto& [gate_as, up_as, down_as] :
       {std::tuple(Encoding::q4_k, Encoding::q4_k, Encoding::q6_k),
        std::tuple(Encoding::q4_k, Encoding::q5_0, Encoding::bf16),
        std::tuple(Encoding::bf16, Encoding::bf16, Encoding::q4_1), std::tuple(plain, Encoding::q4_0, Encoding::q8_0),
        std::tuple(Encoding::q6_k, plain, plain)})
    for (const std::int64_t n : {1, 10, 40, 61}) {
      INFO(set.name << " " << encoding_name(gate_as) << " n " << n);
      Random random(static_cast<unsigned>(n));
      const Blocks gate = make_blocks(set, random, gate_as, width, hidden),
                   up = make_blocks(set, random, up_as, width, hidden),
                   down = make_blocks(set, random, down_as, hidden, width);
      const TestMatrix router = make_matrix(set, random, DType::f32, 1, hidden, WeightRole::router);
      const std::vector<float> x = random.values(static_cast<std::size_t>(n * hidden));
      ActivationBuffer in = operand(set, x.data(), n, hidden), alone = residual(set, n, hidden),
                       out = residual(set, n, hidden);
      Shape shape;
      shape.batch = static_cast<std::uint32_t>(n), shape.hidden = hidden, shape.ffn = width;
      shape.n_heads = shape.n_kv_heads = 1, shape.head_dim = 2;
      shape.experts = shape.top_k = 1, shape.expert_width = width;
      std::vector<std::byte> memory;
      FfnArgs network{
          n, in.view(), gate.packed.view, up.packed.view, down.packed.view, alone.view(), {}, Activation::silu, false};
      run_all(set.ffn, network, set.ffn_workspace(shape), memory, 3);
      MoeArgs args;
      args.n = n, args.x = in.view(), args.router = router.view;
      args.gate = &network.gate, args.up = &network.up, args.down = &network.down;
      args.experts = args.top_k = 1, args.out = out.view(), args.accumulate = false;
      const MoeWorkspace size = set.moe_workspace(shape);
      std::vector<std::byte> buffers(size.routes + size.gathered + size.inner + 256, std::byte{0xff});
      std::byte* at = buffers.data() + (64 - reinterpret_cast<std::uintptr_t>(buffers.data()) % 64) % 64;
      args.buffers = {at, at + size.routes, at + size.routes + size.gathered};
      run_all(set.moe_ffn, args, {0, size.per_worker}, memory, 3);
      CHECK(same_bits(out.rows(), alone.rows()));
    }
}

struct Expert {
  Encoding gate, up, down;
};

/// Networks of different encodings and widths in one operation: each row of a batch has the bits that it has alone.
void check_mixed_experts(const KernelSet& set) {
  const std::int64_t hidden = 256, width = 512, shared_width = 768, all = 41;
  const Encoding plain = plain_of(set);
  const Expert kinds[] = {{Encoding::q4_k, Encoding::q4_k, Encoding::q6_k},
                          {plain, plain, Encoding::q8_0},
                          {Encoding::q5_0, Encoding::q4_1, plain},
                          {Encoding::iq4_nl, plain, Encoding::q3_k},
                          {Encoding::q8_0, Encoding::q8_0, Encoding::q4_0}};  // the last one is shared
  Random random(11);
  std::vector<Blocks> blocks;
  std::vector<Linear> gate, up, down;
  for (const Expert& kind : kinds) {
    const std::int64_t rows = &kind == std::end(kinds) - 1 ? shared_width : width;
    for (const auto& [encoding, n, cols, list] :
         {std::tuple(kind.gate, rows, hidden, &gate), std::tuple(kind.up, rows, hidden, &up),
          std::tuple(kind.down, hidden, rows, &down)}) {
      blocks.push_back(make_blocks(set, random, encoding, n, cols));
      list->push_back(blocks.back().packed.view);
    }
  }
  const TestMatrix router = make_matrix(set, random, DType::f32, 4, hidden, WeightRole::router),
                   shared = make_matrix(set, random, DType::f32, 1, hidden, WeightRole::router);
  const std::vector<float> x = random.values(static_cast<std::size_t>(all * hidden));
  const auto run = [&](std::int64_t first, std::int64_t n, int workers) {
    ActivationBuffer in = operand(set, x.data() + first * hidden, n, hidden), out = residual(set, n, hidden);
    Shape shape;
    shape.batch = static_cast<std::uint32_t>(n), shape.hidden = hidden, shape.ffn = width;
    shape.n_heads = shape.n_kv_heads = 1, shape.head_dim = 2;
    shape.experts = 4, shape.top_k = 2, shape.expert_width = width, shape.shared_width = shared_width;
    MoeArgs args;
    args.n = n, args.x = in.view(), args.router = router.view, args.shared_router = shared.view;
    args.gate = gate.data(), args.up = up.data(), args.down = down.data();
    args.shared_gate = gate[4], args.shared_up = up[4], args.shared_down = down[4];
    args.experts = 4, args.top_k = 2, args.out = out.view(), args.accumulate = false;
    const MoeWorkspace size = set.moe_workspace(shape);
    std::vector<std::byte> memory, buffers(size.routes + size.gathered + size.inner + 256, std::byte{0xff});
    std::byte* at = buffers.data() + (64 - reinterpret_cast<std::uintptr_t>(buffers.data()) % 64) % 64;
    args.buffers = {at, at + size.routes, at + size.routes + size.gathered};
    run_all(set.moe_ffn, args, {0, size.per_worker}, memory, workers);
    return out.rows();
  };
  const std::vector<float> together = run(0, all, 3);
  for (const float value : together) REQUIRE(std::isfinite(value));
  for (const std::int64_t n : {1, 8, 9, 20})
    for (std::int64_t first = 0; first + n <= all; first += n) {
      INFO(set.name << " rows " << first << " and " << n);
      const std::vector<float> want(together.begin() + first * hidden, together.begin() + (first + n) * hidden);
      REQUIRE(same_bits(run(first, n, static_cast<int>(1 + first % 3)), want));
    }
}

/// Runs that are zero, near the largest number of their power of two, tiny and large, side by side.
void check_extreme_rows(const KernelSet& set) {
  for (const Encoding encoding : quantised_encodings()) {
    const std::int64_t values = encoding_traits(encoding).block_values, cols = values == 32 ? 160 : 256, outputs = 40;
    Random random(static_cast<unsigned>(values));
    const Blocks w = make_blocks(set, random, encoding, outputs, cols);
    std::vector<float> x = random.values(static_cast<std::size_t>(26 * cols));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t kind = i / 32 % 5;
      const float sign = x[i] < 0 ? -1.0f : 1.0f;
      x[i] = kind == 0 ? 0 : kind == 1 ? sign * std::nextafter(2.0f, 0.0f) : kind == 2 ? x[i] * 1e-36f : x[i];
      if (kind == 3) x[i] *= 1e20f;
    }
    for (const std::int64_t n : {1, 2, 13, 26}) {
      const std::vector<float> rows(x.begin(), x.begin() + n * cols), out = run_linear(set, w.packed, rows, n, 2);
      for (std::int64_t m = 0; m < n; ++m)
        for (std::int64_t j = 0; j < outputs; ++j) {
          INFO(set.name << " " << encoding_name(encoding) << " n " << n << " row " << m << " output " << j);
          REQUIRE(out[static_cast<std::size_t>(m * outputs + j)] ==
                  int16_model(encoding, w.row(j), x.data() + m * cols, cols));
        }
    }
    x[40] = NAN;
    for (const float value : run_linear(set, w.packed, {x.begin(), x.begin() + cols}, 1, 1)) CHECK(std::isnan(value));
    const std::vector<float> all = run_linear(set, w.packed, x, 26, 2);
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(std::isnan(all[i]) == (i < static_cast<std::size_t>(outputs)));
  }
}

}  // namespace

// Each by itself, so that those which this CPU cannot run are reported as skipped.
#define TEST_INTEGER_SETS(what, check)                                                                              \
  TEST_CASE(what " with products of integers by AVX2", "[kernels]") { check_on("avx2_int16", check); }              \
  TEST_CASE(what " with products of integers by VNNI", "[kernels]") { check_on("avx512_int16", check); }            \
  TEST_CASE(what " with products of integers beside those of f16", "[kernels]") { check_on("avx512_fp16", check); } \
  TEST_CASE(what " with products of integers on tiles", "[kernels]") { check_on("amx_int16", check); }
#define TEST_NARROW_SETS(what, check)                                                       \
  TEST_CASE(what " with products of bf16", "[kernels]") { check_on("avx512_bf16", check); } \
  TEST_INTEGER_SETS(what, check)
TEST_NARROW_SETS("quantised sums equal their scalar model bit for bit", check_models)
TEST_NARROW_SETS("quantised sums have the bits of any batch, slice and number of rows", check_slices)
TEST_NARROW_SETS("what comes after quantised sums", check_what_follows)
TEST_NARROW_SETS("q/k/v of any encodings have the bits that each has alone", check_qkv)
TEST_NARROW_SETS("networks whose gate and up differ in their encoding", check_networks)
TEST_NARROW_SETS("an expert of any encodings has the bits of a network", check_experts)

TEST_NARROW_SETS("experts of different encodings give each row the bits that it has alone", check_mixed_experts)

TEST_INTEGER_SETS("sums equal their scalar model for extreme activations, too,", check_extreme_rows)
TEST_INTEGER_SETS("the largest integers times the largest activations, and what is tiny,", check_extremes)

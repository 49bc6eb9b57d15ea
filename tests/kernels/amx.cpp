// The AMX backend: its instructions against the SDM's model, its operations executed by the CPU where that has AMX and
// by the emulator everywhere (a process is emulated until it asks the system for tiles, so these tests do so last),
// what they cost in instructions and lines, where they read, and what they leave behind.
#ifdef QINFER_HAVE_AMX
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "kernels/amx_kernels.h"

namespace qinfer::test {
namespace {

/// TDPBF16PS of full tiles as the SDM's pseudo-code has it, one scalar operation at a time.
void multiply_as_specified(const emulator::Tiles& before, emulator::Tiles& after) {
  const unsigned csr = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(0x9fc0);
  for (unsigned m = 0; m < 16; ++m)
    for (unsigned n = 0; n < 16; ++n) {
      volatile float even = 0, odd = 0;
      for (unsigned k = 0; k < 16; ++k) {
        std::uint16_t a[2], b[2];
        std::memcpy(a, before.data[0][m] + 4 * k, 4);
        std::memcpy(b, before.data[1][k] + 4 * n, 4);
        even = std::fma(bf16_to_f32(a[0]), bf16_to_f32(b[0]), even);
        odd = std::fma(bf16_to_f32(a[1]), bf16_to_f32(b[1]), odd);
      }
      float c = 0;
      std::memcpy(&c, before.data[4][m] + 4 * n, 4);
      volatile float sum = even + odd;
      const float result = c + sum;
      std::memcpy(after.data[4][m] + 4 * n, &result, 4);
    }
  __builtin_ia32_ldmxcsr(csr);
}

emulator::TileConfig full_config() {
  emulator::TileConfig config;
  config.palette = 1;
  for (int i = 0; i < 8; ++i) config.bytes_per_row[i] = 64, config.rows[i] = 16;
  return config;
}

/// Tiles 0 and 1 (operands) and 4 (sums) with values of a kind that changes with the seed.
emulator::Tiles random_tiles(unsigned seed) {
  Random random(seed);
  emulator::Tiles tiles;
  tiles.config = full_config();
  const int kind = static_cast<int>(seed % 5);
  for (const int tile : {0, 1})
    for (auto& row : tiles.data[tile])
      for (int i = 0; i < 32; ++i) {
        float value = random.value();
        if (kind == 1) value = std::ldexp(value, random.integer(250) - 125);
        std::uint16_t bits = bf16_of(value);
        if (kind == 2 && random.integer(4) == 0) bits &= 0x807f;    // subnormal
        if (kind == 3 && random.integer(200) == 0) bits |= 0x7f80;  // infinity or NaN
        std::memcpy(row + 2 * i, &bits, 2);
      }
  for (auto& row : tiles.data[4])
    for (int i = 0; i < 16; ++i) {
      const float value = kind == 4 ? std::ldexp(random.value(), -130) : random.value();
      std::memcpy(row + 4 * i, &value, 4);
    }
  return tiles;
}

/// Sums are equal, or both not a number: the SDM leaves open which NaN it is.
bool same_sums(const emulator::Tiles& a, const emulator::Tiles& b) {
  float x[256], y[256];
  std::memcpy(x, a.data[4], sizeof x);
  std::memcpy(y, b.data[4], sizeof y);
  for (int i = 0; i < 256; ++i)
    if (std::memcmp(&x[i], &y[i], 4) != 0 && !(std::isnan(x[i]) && std::isnan(y[i]))) return false;
  return true;
}

/// tmm4 += tmm0 x tmm1 through machine code.
void multiply_by_code(emulator::Tiles& tiles) {
  struct alignas(64) {
    std::uint8_t bytes[64];
  } config = {};
  config.bytes[0] = 1;
  for (int i = 0; i < 8; ++i) config.bytes[16 + 2 * i] = 64, config.bytes[48 + i] = 16;
  const long stride = 64;
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile(
      "tileloadd (%0,%3,1), %%tmm0\n tileloaddt1 (%1,%3,1), %%tmm1\n tileloadd (%2,%3,1), %%tmm4\n"
      "tdpbf16ps %%tmm1, %%tmm0, %%tmm4\n tilestored %%tmm4, (%2,%3,1)\n tilezero %%tmm0\n"
      :
      : "r"(tiles.data[0]), "r"(tiles.data[1]), "r"(tiles.data[4]), "r"(stride)
      : "memory");
  asm volatile("tilerelease" : : : "memory");
}

}  // namespace
}  // namespace qinfer::test

namespace {

using namespace qinfer;
using namespace qinfer::test;

std::uint64_t ceil_of(std::int64_t a, std::int64_t b) { return static_cast<std::uint64_t>((a + b - 1) / b); }

/// Whether this CPU has AMX itself, and the system lets this process use it.
bool has_silicon() {
  return platform::has_tiles(platform::tile_system()) && platform::tile_system().request_permission().ok();
}

}  // namespace

TEST_CASE("the AMX emulator is the SDM's model bit for bit", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  for (unsigned seed = 0; seed < 200; ++seed) {
    const emulator::Tiles tiles = random_tiles(seed);
    emulator::Tiles specified = tiles, by_call = tiles, by_code = tiles;
    multiply_as_specified(tiles, specified);
    emulator::multiply(by_call, 4, 0, 1);
    multiply_by_code(by_code);
    INFO("seed " << seed);
    REQUIRE(same_sums(by_call, specified));
    REQUIRE(same_sums(by_code, specified));
  }
}

TEST_CASE("the AMX emulator is the CPU bit for bit", "[amx]") {
  SKIP_UNLESS_CPU_HAS(has_silicon(), "AMX");
  REQUIRE(emulator::is_native());
  for (unsigned seed = 0; seed < 200; ++seed) {
    emulator::Tiles emulated = random_tiles(seed), native = emulated;
    emulator::multiply(emulated, 4, 0, 1);
    multiply_by_code(native);
    INFO("seed " << seed);
    REQUIRE(same_sums(native, emulated));
  }
}

TEST_CASE("the AMX emulator refuses what hardware refuses", "[amx]") {
  using Code = std::vector<std::uint8_t>;
  emulator::Counts counts;
  emulator::Registers registers;
  alignas(64) std::uint8_t memory[2048] = {};
  registers.general[0] = reinterpret_cast<std::uint64_t>(memory);
  registers.general[1] = 64;  // rcx
  const auto run = [&](emulator::Tiles& tiles, Code code) {
    code.resize(16);
    const char* reason = nullptr;
    const std::size_t length = emulator::execute(tiles, counts, code.data(), registers, reason);
    return length != 0 ? std::to_string(length) : std::string(reason);
  };
  const Code load = {0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x08},      // tileloadd (rax,rcx,1), tmm0
      store = {0xc4, 0xe2, 0x7a, 0x4b, 0x04, 0x08},            // tilestored tmm0, (rax,rcx,1)
      without_sib = {0xc4, 0xe2, 0x7b, 0x4b, 0x00},            // tileloadd (rax), tmm0
      zero = {0xc4, 0xe2, 0x7b, 0x49, 0xe0},                   // tilezero tmm4
      multiply = {0xc4, 0xe2, 0x72, 0x5c, 0xe0},               // tdpbf16ps tmm1, tmm0, tmm4
      twice = {0xc4, 0xe2, 0x7a, 0x5c, 0xe0},                  // tdpbf16ps tmm0, tmm0, tmm4
      configure = {0xc4, 0xe2, 0x78, 0x49, 0x00},              // ldtilecfg (rax)
      read_config = {0xc4, 0xe2, 0x79, 0x49, 0x00},            // sttilecfg (rax)
      release = {0xc4, 0xe2, 0x78, 0x49, 0xc0},                // tilerelease
      displaced = {0xc4, 0xe2, 0x7b, 0x4b, 0x44, 0x08, 0x40},  // tileloadd 64(rax,rcx,1), tmm0
      wide = {0xc4, 0xe2, 0xfb, 0x4b, 0x04, 0x08};             // the same with VEX.W
  emulator::Tiles idle, tiles;
  tiles.config = full_config();
  for (const Code& code : {load, store, zero, multiply}) CHECK(run(idle, code) == "tiles are not configured");
  CHECK(run(tiles, load) == "6");
  CHECK(run(tiles, store) == "6");
  CHECK(run(tiles, displaced) == "7");
  CHECK(run(tiles, zero) == "5");
  const std::string features = " " + platform::cpu_features() + " ";
  if (features.find(" avx2 ") == features.npos || features.find(" fma ") == features.npos) return;  // as it is compiled
  CHECK(run(tiles, multiply) == "5");
  CHECK(run(tiles, twice) == "two operands are the same tile");
  CHECK(run(tiles, without_sib) == "loads and stores of tiles need an index register");
  CHECK(run(tiles, wide) == "VEX.W is set");
  CHECK(run(tiles, {0x90}) == "not an instruction of AMX");
  CHECK(run(tiles, {0xc4, 0xe2, 0x7b, 0x5e, 0xe0}) == "no such instruction");  // int8
  emulator::Tiles small = tiles;
  small.config.rows[1] = 8;
  CHECK(run(small, multiply) == "the tiles' sizes do not go together");
  small = tiles;
  small.config.start_row = 16;
  CHECK(run(small, load) == "start_row is after the last row");
  CHECK(run(tiles, read_config) == "5");
  CHECK(memory[0] == 1);
  CHECK(run(idle, configure) == "5");
  CHECK(idle.config.rows[7] == 16);
  CHECK(run(idle, release) == "5");
  CHECK(idle.config.palette == 0);
  const auto refused = [&](std::size_t byte, std::uint8_t value, const char* reason) {
    const std::uint8_t before = memory[byte];
    memory[byte] = value;
    CHECK(run(idle, configure) == reason);
    memory[byte] = before;
  };
  refused(0, 2, "palette beyond 1");
  refused(5, 1, "a reserved byte of the configuration is set");
  refused(16, 65, "a tile larger than 16 rows of 64 bytes");
  refused(48, 17, "a tile larger than 16 rows of 64 bytes");
  refused(48, 0, "a tile with rows or columns of zero");
  CHECK(counts.configured == 1 + 5);
  CHECK(counts.released == 1);
  CHECK(counts.loads == 2);
  CHECK(counts.multiplications == 1);
}

TEST_CASE("AMX linear layers read nothing but their operands, and each weight once", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const bool counted = !emulator::is_native();
  struct Case {
    std::int64_t n, cols, outputs;
  };
  const Case cases[] = {{1, 64, 128},   {5, 96, 64},     {16, 64, 96},  {17, 256, 64},    {33, 100, 50}, {40, 33, 33},
                        {7, 31, 17},    {1, 1, 1},       {32, 32, 16},  {2, 65, 31},      {8, 33, 48},   {64, 64, 64},
                        {9, 2, 97},     {530, 2100, 40}, {40, 64, 640}, {530, 2100, 200}, {48, 31, 15},  {3, 160, 32},
                        {33, 2100, 40}, {512, 64, 33},   {31, 128, 160}};
  for (const Case& c : cases)
    for (const bool at_end : {true, false}) {
      INFO("n " << c.n << " cols " << c.cols << " outputs " << c.outputs << (at_end ? " at the end" : " at the begin"));
      const LinearRun run = guarded_linear(*set, c.n, c.cols, c.outputs, at_end);
      if (!counted) continue;
      const std::uint64_t steps = ceil_of(c.cols, 32);
      CHECK(run.counts.multiplications == ceil_of(c.n, 16) * ceil_of(c.outputs, 16) * steps);
      const bool whole = c.cols % 32 == 0 && c.outputs % 16 == 0;
      const std::uint64_t lines = static_cast<std::uint64_t>(c.cols * c.outputs / 32);
      if (whole && c.n <= 32) CHECK(run.counts.watched_lines == lines);
      if (whole && c.cols * 2 % 64 == 0) CHECK(run.counts.splits == 0);  // what is aligned stays so
      // Two panels and two row tiles: four loads for four multiplications.
      if (whole && c.n % 32 == 0 && c.outputs % 32 == 0 && c.cols <= 2048)
        CHECK(run.counts.loads <= run.counts.multiplications);
    }
}

TEST_CASE("AMX reads weights at any address of two bytes", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const std::int64_t cols = 64, outputs = 32;
  std::vector<std::uint16_t> memory(static_cast<std::size_t>(cols * outputs) + 64);
  Random random(3);
  std::vector<float> x(static_cast<std::size_t>(cols)), first;
  for (float& v : x) v = random.value();
  for (std::size_t offset = 0; offset < 32; ++offset) {
    const std::size_t aligned = (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64 / 2;
    std::uint16_t* weights = memory.data() + aligned + offset;
    for (std::int64_t i = 0; i < cols * outputs; ++i) weights[i] = bf16_of(static_cast<float>(i % 37) * 0.25f - 3);
    std::vector<float> out(static_cast<std::size_t>(outputs));
    LinearArgs args{
        1,
        {x.data(), ActivationLayout::row_major, cols},
        Matrix{reinterpret_cast<std::byte*>(weights), {Encoding::bf16, WeightLayout::row_major}, outputs, cols},
        false,
        {out.data(), ActivationLayout::row_major, outputs},
        {}};
    const std::uint64_t splits = emulator::counts().splits;
    std::vector<std::byte> space;
    run_all(set->linear, args,
            set->linear_workspace({.batch = 1,
                                   .hidden = 64,
                                   .n_heads = 1,
                                   .n_kv_heads = 1,
                                   .head_dim = 2,
                                   .ffn = 1,
                                   .vocab = 1,
                                   .context = 1}),
            space, 1);
    if (!emulator::is_native())
      CHECK(emulator::counts().splits - splits == (offset == 0 ? 0 : static_cast<std::uint64_t>(cols * outputs / 32)));
    if (offset == 0) first = out;
    CHECK(out == first);
  }
}

TEST_CASE("every AMX operation equals its definition, emulated too", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  const KernelSet* set = emulated_set();
  test_linear(*set, DType::bf16);
  test_ffn(*set, DType::bf16);
  test_moe_ffn(*set, DType::bf16);
  test_moe_not_finite(*set);
  test_lm_head(*set, DType::bf16);
  test_qkv(*set, DType::bf16);
  test_linear_invariance(*set);
  test_moe_invariance(*set);
  test_split_attention(*set);
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) test_attention(*set, type);
}

TEST_CASE("AMX attention: what later positions hold does not reach earlier ones", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const std::uint32_t width = 48, length = 70;
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    const KvLayout layout{type, 1, 1, width, set->kv_head_dim_padded(width, type), 32, set->kv_order(type)};
    std::vector<std::byte> clean(layout.block_bytes() * 3, std::byte{0});
    Random random(11);
    const auto put = [&](std::vector<std::byte>& arena, std::uint32_t p, std::uint32_t i, bool key, float value) {
      std::byte* tile = KvView{arena.data()}.k_tile(layout, 0, 0, p / 32);
      std::byte* at = tile + (key ? 0 : layout.tile_bytes()) +
                      (key ? layout.k_index(p, i) : layout.v_index(p, i)) * dtype_bytes(type);
      const std::uint16_t bits = type == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
      type == DType::f32 ? std::memcpy(at, &value, 4) : std::memcpy(at, &bits, 2);
    };
    for (std::uint32_t p = 0; p < length; ++p)
      for (std::uint32_t i = 0; i < width; ++i) {
        put(clean, p, i, true, random.value());
        put(clean, p, i, false, random.value());
      }
    const std::vector<float> q = random.values(length * width);
    const auto run = [&](std::vector<std::byte>& arena) {
      Queries queries(*set, q, length, 1, width);
      ActivationBuffer out(set->layouts.operand_of(length), length, width);
      const Sequence sequence{{arena.data(), nullptr}, 0, static_cast<std::int32_t>(length), 0};
      AttentionArgs args;
      args.n = length;
      args.q = queries.values.view();
      args.out = out.view();
      args.n_heads = 1;
      args.scale = 0.2f;
      args.kv = layout;
      args.sequences = {&sequence, 1};
      std::vector<std::byte> space;
      run_all(set->attention, args,
              set->attention_workspace({.batch = length,
                                        .hidden = 1,
                                        .n_heads = 1,
                                        .n_kv_heads = 1,
                                        .head_dim = width,
                                        .ffn = 1,
                                        .vocab = 1,
                                        .context = 512,
                                        .head_dim_padded = layout.head_dim_padded,
                                        .n_threads = 2}),
              space, 2);
      return out.rows();
    };
    const std::vector<float> want = run(clean);
    for (const float poison : {NAN, INFINITY, -INFINITY}) {
      // A value in the middle of a tile: the queries before it must not notice, the others must.
      const std::uint32_t at = 40;
      std::vector<std::byte> spoiled = clean;
      put(spoiled, at, 5, false, poison);
      const std::vector<float> got = run(spoiled);
      INFO(dtype_name(type) << " " << poison);
      CHECK(std::memcmp(got.data(), want.data(), std::size_t{at} * width * 4) == 0);
      for (std::uint32_t p = at; p < length; ++p)
        for (std::uint32_t i = 0; i < width; ++i) {
          const float value = got[p * width + i];
          if (i == 5 ? std::isfinite(value) : value != want[p * width + i])
            FAIL("position " << p << " element " << i << " is " << value);
        }
      // A key: its score is not a number, and so is every query that sees it.
      spoiled = clean;
      put(spoiled, at, 5, true, NAN);
      const std::vector<float> keyed = run(spoiled);
      CHECK(std::memcmp(keyed.data(), want.data(), std::size_t{at} * width * 4) == 0);
      CHECK(std::isnan(keyed[at * width]));
    }
  }
}

TEST_CASE("AMX rounds activations to nearest even", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  const TestMatrix one = pack_matrix(*set, {1.0f}, DType::bf16, 1, 1);
  Random random(5);
  std::vector<float> x = {1.00390625f, 1.01171875f, -1.00390625f, 1e-40f, 3.0e38f, 0.0f, -0.0f};
  for (int i = 0; i < 500; ++i) x.push_back(std::ldexp(random.value(), random.integer(200) - 100));
  // A few rows at a time, which the linear layer rounds itself.
  for (std::size_t i = 0; i < x.size(); ++i) {
    float out = NAN;
    LinearArgs args{1,     {&x[i], ActivationLayout::row_major, 1}, one.view,
                    false, {&out, ActivationLayout::row_major, 1},  {}};
    std::vector<std::byte> space;
    run_all(set->linear, args,
            set->linear_workspace({.batch = 1,
                                   .hidden = 1,
                                   .n_heads = 1,
                                   .n_kv_heads = 1,
                                   .head_dim = 2,
                                   .ffn = 1,
                                   .vocab = 1,
                                   .context = 1}),
            space, 1);
    INFO(x[i]);
    REQUIRE(out == bf16_to_f32(operand_bits(x[i])));
  }
  // Many, which the norm before it rounds: bit for bit what it writes as rows.
  const std::int64_t width = 45, n = static_cast<std::int64_t>(x.size()) / width;
  const std::vector<float> weight = random.values(static_cast<std::size_t>(width));
  ActivationBuffer in = residual(*set, x, n, width), rows(ActivationLayout::row_major, n, width),
                   operands(ActivationLayout::bf16_panels, n, width);
  NormArgs args{n, width, nullptr, in.view(), weight.data(), 1e-6f, operands.view()};
  set->norm.run(args, 0, {0, set->norm.units(args, 0), 0});
  args.out = rows.view();
  set->norm.run(args, 0, {0, set->norm.units(args, 0), 0});
  for (std::int64_t m = 0; m < n; ++m)
    for (std::int64_t k = 0; k < width; ++k) REQUIRE(operands.get(m, k) == bf16_to_f32(operand_bits(rows.get(m, k))));
}

TEST_CASE("AMX: an infinite input stays what it is beside features that are not there", "[amx]") {
  SKIP_UNLESS_CPU_HAS(emulated_set() != nullptr, "AVX-512");
  const KernelSet* set = emulated_set();
  const TestMatrix one = pack_matrix(*set, {1.0f}, DType::bf16, 1, 1);
  const std::vector<float> x(40, INFINITY);
  for (const std::int64_t n : {1, 5, 40}) {
    ActivationBuffer in = operand(*set, x.data(), n, 1), out = residual(*set, n, 1);
    FfnArgs args{n, in.view(), one.view, one.view, one.view, out.view(), {}, Activation::silu, false};
    std::vector<std::byte> space;
    run_all(set->ffn, args,
            set->ffn_workspace({.batch = static_cast<std::uint32_t>(n),
                                .hidden = 1,
                                .n_heads = 1,
                                .n_kv_heads = 1,
                                .head_dim = 2,
                                .ffn = 1,
                                .vocab = 1,
                                .context = 1}),
            space, 2);
    CHECK(out.get(0, 0) == INFINITY);
    CHECK(out.get(n - 1, 0) == INFINITY);
  }
}

TEST_CASE("an expert of Mixtral-8x22B's shape runs in its mapped weights and less than 1 % beside them", "[amx]") {
  const KernelSet* set = emulated_set();
  SKIP_UNLESS_CPU_HAS(set != nullptr, "AVX-512");
  // On silicon: the emulator would take a minute for it.
  SKIP_UNLESS_CPU_HAS(has_silicon(), "AMX");
  constexpr std::int64_t kHidden = 6144, kWidth = 16384;
  constexpr std::size_t kMatrix = std::size_t{kHidden} * kWidth * 2, kBytes = 3 * kMatrix;
  REQUIRE(kBytes == 603'979'776);
  char name[] = "/tmp/qinfer-expert-XXXXXX";
  const int file = mkstemp(name);
  REQUIRE(file >= 0);
  unlink(name);
  REQUIRE(ftruncate(file, kBytes) == 0);
  // Row r of gate and up has its one at column r % hidden, row r of down at r: y[i] = silu(x[i]) * x[i].
  const std::uint16_t one_bits = bf16_of(1.0f);
  const auto set_one = [&](std::size_t matrix, std::int64_t row, std::int64_t cols, std::int64_t at) {
    const std::size_t offset = matrix * kMatrix + static_cast<std::size_t>(row * cols + at) * 2;
    REQUIRE(pwrite(file, &one_bits, 2, static_cast<off_t>(offset)) == 2);
  };
  for (std::int64_t r = 0; r < kWidth; ++r) set_one(0, r, kHidden, r % kHidden), set_one(1, r, kHidden, r % kHidden);
  for (std::int64_t r = 0; r < kHidden; ++r) set_one(2, r, kWidth, r);
  auto* weights = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0));
  REQUIRE(weights != MAP_FAILED);
  close(file);
  const auto anonymous = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
    return 0LL;
  };
  const WeightFormat format{Encoding::bf16, WeightLayout::row_major};
  for (const std::int64_t n : {1, 16}) {
    const long long before = anonymous();
    std::vector<float> x(static_cast<std::size_t>(n * kHidden));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i % 17) - 8) * 0.25f;
    ActivationBuffer in = operand(*set, x.data(), n, kHidden), result = residual(*set, n, kHidden, 0.0f);
    FfnArgs args{n,
                 in.view(),
                 Matrix{weights, format, kWidth, kHidden},
                 Matrix{weights + kMatrix, format, kWidth, kHidden},
                 Matrix{weights + 2 * kMatrix, format, kHidden, kWidth},
                 result.view(),
                 {}};
    std::vector<std::byte> space;
    const Shape shape{.batch = static_cast<std::uint32_t>(n),
                      .hidden = kHidden,
                      .n_heads = 1,
                      .n_kv_heads = 1,
                      .head_dim = 2,
                      .ffn = kWidth,
                      .vocab = 1,
                      .context = 1};
    run_all(set->ffn, args, set->ffn_workspace(shape), space, 2);
    const long long beside = anonymous() - before;
    INFO(n << " tokens: " << beside << " bytes beside the weights");
    CHECK(beside < static_cast<long long>(kBytes / 100));
    const std::vector<float> out = result.rows();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], want = v / (1 + std::exp(-v)) * v;
      if (std::fabs(out[i] - want) > 1.01 * kBf16 * std::fabs(want) + 1e-7)
        FAIL("output " << i << " is " << out[i] << ", want " << want);
    }
  }
  munmap(weights, kBytes);
}
#endif

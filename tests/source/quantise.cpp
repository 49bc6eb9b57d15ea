// Quantisers: what they write is what the format's decoder reads, their errors are those that can be derived, and no
// larger than llama-quantize's.
#include "base/quantise.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/block_packing.h"
#include "formats/checkpoint.h"
#include "support/catch.h"

namespace qinfer {
namespace {

/// Numbers in [0, 1) that make_quantisation_errors.py computes, too.
class Uniform {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 40) * 0x1p-24;
  }

 private:
  std::uint64_t state_ = 1;
};

/// The sum of twelve uniform numbers: nearly Gaussian, deviation 1, and exact.
double bell(Uniform& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.next();
  return sum;
}

constexpr std::size_t kValues = 64 * 256;

/// "gaussian": as weights are. "heavy": the cube, whose largest values are 50 deviations out. "channels": one value in
/// a hundred is 30 times as large. "shifted": a mean of three deviations.
std::vector<float> values_of(const std::string& kind) {
  Uniform random;
  std::vector<float> values(kValues);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = bell(random);
    values[i] = static_cast<float>(kind == "heavy"      ? x * x * x / 64
                                   : kind == "channels" ? (i % 100 == 0 ? 30 * x : x) / 64
                                   : kind == "shifted"  ? (x + 3) / 64
                                                        : x / 64);
  }
  return values;
}

std::vector<float> quantised(Encoding to, const std::vector<float>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> blocks(encoded_bytes(to, values.size()));
  quantise(to, values.data(), n, blocks.data());
  CHECK(blocks::find_bad_scale(to, blocks.data(), n / encoding_traits(to).block_values) == -1);
  std::vector<float> out(values.size());
  encoding_traits(to).to_f32(blocks.data(), n, out.data());
  return out;
}

double relative_error(const std::vector<float>& values, const std::vector<float>& found) {
  double squares = 0, errors = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i], e = x - found[i];
    squares += x * x;
    errors += e * e;
  }
  return std::sqrt(errors / squares);
}

std::vector<Encoding> targets() {
  std::vector<Encoding> out;
  for (const EncodingTraits& traits : encodings())
    if (can_quantise_to(traits.encoding)) out.push_back(traits.encoding);
  return out;
}

TEST_CASE("What unpacks a block and what packs it are inverses", "[quantise]") {
  struct Pair {
    Encoding encoding;
    void (*unpack)(const std::byte*, blocks::Parts&);
    void (*pack)(const blocks::Parts&, std::byte*);
  };
  const Pair pairs[] = {{Encoding::q8_0, blocks::unpack_q8_0, blocks::pack_q8_0},
                        {Encoding::q4_0, blocks::unpack_q4_0, blocks::pack_q4_0},
                        {Encoding::q4_1, blocks::unpack_q4_1, blocks::pack_q4_1},
                        {Encoding::q5_0, blocks::unpack_q5_0, blocks::pack_q5_0},
                        {Encoding::q5_1, blocks::unpack_q5_1, blocks::pack_q5_1},
                        {Encoding::q3_k, blocks::unpack_q3_k, blocks::pack_q3_k},
                        {Encoding::q4_k, blocks::unpack_q4_k, blocks::pack_q4_k},
                        {Encoding::q5_k, blocks::unpack_q5_k, blocks::pack_q5_k},
                        {Encoding::q6_k, blocks::unpack_q6_k, blocks::pack_q6_k}};
  Uniform random;
  for (const Pair& pair : pairs) {
    const std::size_t bytes = encoding_traits(pair.encoding).block_bytes;
    INFO(encoding_name(pair.encoding));
    for (int round = 0; round < 50; ++round) {
      std::vector<std::byte> block(bytes), again(bytes);
      for (std::byte& byte : block) byte = static_cast<std::byte>(static_cast<int>(random.next() * 256));
      blocks::Parts parts;
      pair.unpack(block.data(), parts);
      pair.pack(parts, again.data());
      REQUIRE(again == block);
    }
  }
}

TEST_CASE("Integers times a scale that f16 holds are quantised without an error", "[quantise]") {
  // In each run both ends of the range occur, so the search tries the very scale. Sums of small integers are exact, and
  // a quotient of them that f16 holds is found.
  struct Grid {
    Encoding encoding;
    int low, high, step;
  };
  const Grid grids[] = {{Encoding::q8_0, -127, 127, 1}, {Encoding::q4_0, -8, 7, 1},   {Encoding::q4_1, -3, 12, 1},
                        {Encoding::q5_0, -16, 15, 1},   {Encoding::q5_1, -9, 22, 1},  {Encoding::q3_k, -4, 3, 32},
                        {Encoding::q4_k, -8, 7, 1},     {Encoding::q5_k, -16, 15, 1}, {Encoding::q6_k, -32, 31, 128}};
  Uniform random;
  for (const Grid& grid : grids) {
    INFO(encoding_name(grid.encoding));
    std::vector<float> values(512);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int q = i % 16 == 3   ? grid.low
                    : i % 16 == 9 ? grid.high
                                  : grid.low + static_cast<int>(random.next() * (grid.high - grid.low + 1));
      values[i] = static_cast<float>(q * grid.step) * 0x1p-9f;
    }
    // The scale and minimum of K-quants with minima are 63 steps of one that f16 must round.
    const double tolerance = grid.encoding == Encoding::q4_k || grid.encoding == Encoding::q5_k ? 0x1p-10 : 0;
    CHECK(relative_error(values, quantised(grid.encoding, values)) <= tolerance);
  }
}

TEST_CASE("Each value of q8_0 is within half a step of its block's largest", "[quantise]") {
  for (const char* kind : {"gaussian", "heavy", "channels", "shifted"}) {
    const std::vector<float> values = values_of(kind);
    const std::vector<float> found = quantised(Encoding::q8_0, values);
    for (std::size_t block = 0; block < values.size(); block += 32) {
      float largest = 0, error = 0;
      for (std::size_t i = block; i < block + 32; ++i) {
        largest = std::max(largest, std::fabs(values[i]));
        error = std::max(error, std::fabs(values[i] - found[i]));
      }
      // The scale is rounded to f16 (half of 2^-10): the largest value is then up to 127 * 2^-11 of a step off the
      // grid.
      REQUIRE(error <= largest / 127 * (0.5f + 0x1p-10f));
    }
  }
}

TEST_CASE("No value of the searched formats costs more than the plain choice of the scale", "[quantise]") {
  // With the largest value at the end of the range the error of a uniform value is step / sqrt(12); q4_0's step is at
  // most largest / 7, and searching makes the sum of squares no larger. Largest of 32 Gaussian values: below 4 of them
  // but for one in 500 blocks.
  const std::vector<float> values = values_of("gaussian");
  CHECK(relative_error(values, quantised(Encoding::q4_0, values)) < 4.0 / 7 / std::sqrt(12.0));
  CHECK(relative_error(values, quantised(Encoding::q5_0, values)) < 4.0 / 15 / std::sqrt(12.0));
  CHECK(relative_error(values, quantised(Encoding::q6_k, values)) < 4.0 / 31 / std::sqrt(12.0));
  CHECK(relative_error(values, quantised(Encoding::q4_k, values)) < 8.0 / 15 / std::sqrt(12.0));
}

TEST_CASE("Edges: zero, one value, the largest, the smallest", "[quantise]") {
  for (const Encoding encoding : targets()) {
    INFO(encoding_name(encoding));
    const std::vector<float> zeros(256);
    CHECK(quantised(encoding, zeros) == zeros);
    for (const float value : {1.0f, -0.37f, 65504.0f, -65504.0f, 1e-3f}) {
      // A scale and a minimum or an integer scale, each rounded to f16: 2^-11 twice; below 2^-14 f16 has fewer bits,
      // and 1e-3 / (128 * 31) is some 4 of its smallest steps.
      const std::vector<float> same(256, value);
      CHECK(relative_error(same, quantised(encoding, same)) <= (value == 1e-3f ? 0.05 : 0x1p-9));
    }
    std::vector<float> ends(256, 65504.0f), tiny(256, 1e-30f);
    for (std::size_t i = 0; i < ends.size(); i += 3) ends[i] = -65504.0f;
    for (const float found : quantised(encoding, ends)) CHECK(std::isfinite(found));
    CHECK(quantised(encoding, tiny) == zeros);
  }
}

TEST_CASE("Values that no scale in f16 is for are found", "[quantise]") {
  std::vector<float> values = {1, -65504, 65504, 0, 1e-40f};
  const auto n = static_cast<std::int64_t>(values.size());
  CHECK(find_unquantisable(values.data(), n) == -1);
  for (const float bad : {NAN, INFINITY, -INFINITY, 65505.0f, -1e30f}) {
    values[3] = bad;
    CHECK(find_unquantisable(values.data(), n) == 3);
  }
}

/// Values of the kinds above, or of a tensor of the model of our own.
std::vector<float> fixture_values(const std::string& name) {
  if (name.find('.') == std::string::npos) return values_of(name);
  auto file = formats::Checkpoint::open_file(QINFER_TEST_MODELS "/tiny-stories/model.safetensors", {});
  REQUIRE(file.ok());
  const formats::Tensor* tensor = file.value().find(name);
  REQUIRE(tensor != nullptr);
  std::vector<std::byte> bytes(tensor->bytes());
  REQUIRE(file.value().read(*tensor, 0, bytes).ok());
  std::vector<float> values(bytes.size() / 2);
  encoding_traits(Encoding::bf16).to_f32(bytes.data(), static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

TEST_CASE("Errors are at most 1.03 times those of llama-quantize", "[quantise]") {
  std::ifstream in(QINFER_TEST_FIXTURES "/quantisation_errors.json");
  const nlohmann::json expected = nlohmann::json::parse(in);
  std::size_t checked = 0;
  for (const auto& [name, errors] : expected.items()) {
    INFO(name);
    const std::vector<float> values = fixture_values(name);
    for (const auto& [type, error] : errors.items()) {
      INFO(type);
      const auto encoding = find_encoding(type);
      REQUIRE(encoding);
      CHECK(relative_error(values, quantised(*encoding, values)) <= 1.03 * error.get<double>());
      ++checked;
    }
  }
  CHECK(checked == 80);
}

}  // namespace
}  // namespace qinfer

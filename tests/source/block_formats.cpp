// Decoders of quantised blocks against the gguf package's, bit for bit: blocks of a fixture, and those of the research
// data where it is there.
#include "base/encoding.h"

#include <cstring>

#include "formats/checkpoint.h"
#include "support/catch.h"
#include "support/test_data.h"

namespace qinfer {
namespace {

std::vector<std::byte> read_tensor(const formats::Checkpoint& file, const std::string& name) {
  const formats::Tensor* tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<std::byte> bytes(tensor->bytes());
  REQUIRE(file.read(*tensor, 0, bytes).ok());
  return bytes;
}

/// "q4_k" is called "Q4_K" in the files.
std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::uint32_t bits_at(const std::byte* at) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, 4);
  return bits;
}

void check_blocks(const std::string& path) {
  auto opened = formats::Checkpoint::open_file(path, {});
  REQUIRE(opened.ok());
  const formats::Checkpoint& file = opened.value();
  std::size_t checked = 0;
  for (const EncodingTraits& traits : encodings()) {
    if (is_plain(traits.encoding)) continue;
    INFO(traits.name);
    const std::vector<std::byte> blocks = read_tensor(file, upper(traits.name) + ".blocks");
    const std::vector<std::byte> values = read_tensor(file, upper(traits.name) + ".values");
    REQUIRE(blocks.size() % traits.block_bytes == 0);
    const std::size_t n = blocks.size() / traits.block_bytes * traits.block_values;
    REQUIRE(values.size() == 4 * n);
    // At an odd address: blocks of a file may be at any.
    std::vector<std::byte> moved(blocks.size() + 1);
    std::memcpy(moved.data() + 1, blocks.data(), blocks.size());
    std::vector<float> out(n);
    traits.to_f32(moved.data() + 1, static_cast<std::int64_t>(n), out.data());
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t expected = bits_at(values.data() + 4 * i);
      const std::uint32_t found = bits_at(reinterpret_cast<const std::byte*>(&out[i]));
      const bool both_nan = (expected & 0x7fffffff) > 0x7f800000 && (found & 0x7fffffff) > 0x7f800000;
      if (found != expected && !both_nan) FAIL_CHECK("value " << i << " is " << out[i] << ", bits differ");
    }
    ++checked;
  }
  CHECK(checked == 12);
}

TEST_CASE("Blocks of every quantised type have the values that the gguf package gives", "[encoding]") {
  check_blocks(QINFER_TEST_FIXTURES "/block_formats.safetensors");
}

TEST_CASE("Blocks of the research data have their values", "[encoding]") {
  SKIP_UNLESS_TEST_DATA("quant/ggml_blocks.safetensors");
  check_blocks(test::find_test_data("quant/ggml_blocks.safetensors").string());
}

TEST_CASE("Encodings are found by their names and sized by their blocks", "[encoding]") {
  for (const EncodingTraits& traits : encodings()) {
    INFO(traits.name);
    CHECK(find_encoding(traits.name) == traits.encoding);
    CHECK(&encoding_traits(traits.encoding) == &traits);
    CHECK(is_plain(traits.encoding) == traits.plain_type.has_value());
    CHECK(encoded_bytes(traits.encoding, 512) == 512u / traits.block_values * traits.block_bytes);
  }
  CHECK_FALSE(find_encoding("q2_k"));
}

}  // namespace
}  // namespace qinfer

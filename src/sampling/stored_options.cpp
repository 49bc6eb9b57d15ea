// See stored_options.h.
#include "sampling/stored_options.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace qinfer::sampling {
namespace {

constexpr std::uint32_t kMagic = 0xffff4f53;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kHeadBytes = 16, kFieldBytes = 40, kBiasBytes = 8;

/// Puts numbers one after another.
class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  template <typename... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }
  std::byte* at_;
};

/// Takes them out again.
class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}
  template <typename... T>
  void operator()(T&... values) {
    (take(values), ...);
  }

 private:
  template <typename T>
  void take(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
  }
  const std::byte* at_;
};

/// Calls `visit` with the fields in their order in the block.
template <typename Options, typename Visit>
void visit_fields(Options& o, Visit& visit) {
  visit(o.temperature, o.top_k, o.top_p, o.min_p, o.repeat_penalty, o.frequency_penalty, o.presence_penalty,
        o.penalty_tokens, o.seed);
}

static_assert(std::endian::native == std::endian::little, "the block is little-endian, and written as it is in memory");

}  // namespace

std::uint64_t stored_options_bytes(std::uint64_t n_bias) { return kHeadBytes + kFieldBytes + n_bias * kBiasBytes; }

std::vector<std::byte> store_options(const SamplerOptions& options, std::span<const Bias> bias) {
  std::vector<std::byte> block(stored_options_bytes(bias.size()));
  Writer write(block.data());
  write(kMagic, kVersion, static_cast<std::uint32_t>(bias.size()), std::uint32_t{0});
  visit_fields(options, write);
  for (const Bias& one : bias) write(one.token, one.value);
  return block;
}

Result<StoredOptions> parse_stored_options(std::span<const std::byte> block) {
  const auto wrong_size = [&block](std::uint64_t expected) {
    return error_at(Code::format, -1, "{} bytes of sampler options, expected {}", block.size(), expected);
  };
  if (block.size() < kHeadBytes) return wrong_size(stored_options_bytes(0));
  std::uint32_t magic = 0, version = 0, n_bias = 0, reserved = 0;
  Reader read(block.data());
  read(magic, version, n_bias, reserved);
  if (magic != kMagic)
    return error_at(Code::format, -1, "sampler options begin with {:#x}, expected {:#x}", magic, kMagic);
  if (version != kVersion)
    return error(Code::unsupported, "version {} of the sampler options, this library reads {}", version, kVersion);
  if (block.size() != stored_options_bytes(n_bias)) return wrong_size(stored_options_bytes(n_bias));
  StoredOptions stored;
  visit_fields(stored.options, read);
  stored.bias.resize(n_bias);
  for (Bias& one : stored.bias) read(one.token, one.value);
  return stored;
}

}  // namespace qinfer::sampling

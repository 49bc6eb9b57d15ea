// See stored_options.h.
#include "sampling/stored_options.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace qinfer::sampling {
namespace {

constexpr std::uint32_t kMagic = 0xffff4f53;
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kDefault = 0xffffffff;
constexpr std::uint64_t kHeadBytes = 16, kFieldBytes = 40, kNewFieldBytes = 80, kBiasBytes = 8;

/// Puts values one after another.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& to) : to_(to) {}
  template <typename... T>
  void operator()(const T&... values) {
    (bytes(&values, sizeof values), ...);
    static_assert((std::is_trivially_copyable_v<T> && ...));
  }
  void bytes(const void* from, std::size_t n) {
    const std::size_t begin = to_.size();
    to_.resize(begin + n);
    if (n != 0) std::memcpy(to_.data() + begin, from, n);
  }

 private:
  std::vector<std::byte>& to_;
};

/// Takes them out again, as long as there are enough bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  template <typename... T>
  void operator()(T&... values) {
    (bytes(&values, sizeof values), ...);
    static_assert((std::is_trivially_copyable_v<T> && ...));
  }
  void bytes(void* to, std::size_t n) {
    fails_ = fails_ || n > from_.size();
    if (fails_ || n == 0) return;
    std::memcpy(to, from_.data(), n);
    from_ = from_.subspan(n);
  }
  std::size_t left() const { return from_.size(); }
  /// Whether there were too few.
  bool fails() const { return fails_; }

 private:
  std::span<const std::byte> from_;
  bool fails_ = false;
};

/// Calls `visit` with the fields in their order in the block.
template <typename Options, typename Visit>
void visit_fields(Options& o, Visit& visit) {
  visit(o.temperature, o.top_k, o.top_p, o.min_p, o.repeat_penalty, o.frequency_penalty, o.presence_penalty,
        o.penalty_tokens, o.seed);
}

/// Those that version 2 has besides, but for its two counts.
template <typename Options, typename Visit>
void visit_new_fields(Options& o, Visit& visit) {
  visit(o.typical_p, o.top_n_sigma, o.dynatemp_range, o.dynatemp_exponent, o.xtc_probability, o.xtc_threshold,
        o.dry_multiplier, o.dry_base, o.dry_allowed_length, o.dry_penalty_tokens, o.mirostat, o.mirostat_tau,
        o.mirostat_eta, o.steps);
}

static_assert(std::endian::native == std::endian::little, "the block is little-endian, and written as it is in memory");

/// Of a block of version 2, after its fields.
void read_breakers(Reader& read, std::uint32_t n, StoredOptions& stored) {
  if (n == kDefault) return;
  stored.breakers.emplace();
  for (std::uint32_t i = 0; i < n && !read.fails(); ++i) {
    std::uint32_t size = 0;
    read(size);
    std::string& text = stored.breakers->emplace_back(std::min<std::size_t>(size, read.left()), '\0');
    read.bytes(text.data(), size);
  }
}

}  // namespace

std::uint64_t most_stored_options_bytes(std::uint64_t n_vocab, std::uint64_t max_tokens) {
  return kHeadBytes + kFieldBytes + kNewFieldBytes + n_vocab * kBiasBytes + kMaxBreakers * (4 + kMaxBreakerBytes) +
         max_tokens * sizeof(float);
}

std::vector<std::byte> store_options(const StoredOptions& stored) {
  std::vector<std::byte> block;
  Writer write(block);
  write(kMagic, kVersion, static_cast<std::uint32_t>(stored.bias.size()), std::uint32_t{0});
  visit_fields(stored.options, write);
  visit_new_fields(stored.options, write);
  write(stored.breakers ? static_cast<std::uint32_t>(stored.breakers->size()) : kDefault,
        static_cast<std::uint32_t>(stored.bounds.size()));
  for (const Bias& one : stored.bias) write(one.token, one.value);
  if (stored.breakers)
    for (const std::string& text : *stored.breakers) {
      write(static_cast<std::uint32_t>(text.size()));
      write.bytes(text.data(), text.size());
    }
  write.bytes(stored.bounds.data(), stored.bounds.size() * sizeof(float));
  return block;
}

Result<StoredOptions> parse_stored_options(std::span<const std::byte> block) {
  const auto wrong_size = [&block](std::string_view than) {
    return error_at(Code::format, -1, "{} bytes of sampler options, {} than they say", block.size(), than);
  };
  std::uint32_t magic = 0, version = 0, n_bias = 0, reserved = 0;
  Reader read(block);
  read(magic, version, n_bias, reserved);
  if (read.fails()) return wrong_size("fewer");
  if (magic != kMagic)
    return error_at(Code::format, -1, "sampler options begin with {:#x}, expected {:#x}", magic, kMagic);
  if (version == 0 || version > kVersion)
    return error(Code::unsupported, "version {} of the sampler options, this library reads 1 to {}", version, kVersion);
  StoredOptions stored;
  std::uint32_t n_breakers = kDefault, n_bounds = 0;
  visit_fields(stored.options, read);
  if (version >= 2) {
    visit_new_fields(stored.options, read);
    read(n_breakers, n_bounds);
  }
  if (read.fails() || n_bias > read.left() / kBiasBytes) return wrong_size("fewer");
  stored.bias.resize(n_bias);
  for (Bias& one : stored.bias) read(one.token, one.value);
  read_breakers(read, n_breakers, stored);
  if (read.fails() || n_bounds > read.left() / sizeof(float)) return wrong_size("fewer");
  stored.bounds.resize(n_bounds);
  read.bytes(stored.bounds.data(), n_bounds * sizeof(float));
  if (read.left() != 0) return wrong_size("more");
  return stored;
}

}  // namespace qinfer::sampling

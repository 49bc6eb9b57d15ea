// The sampler's options in a snapshot: what other versions store is refused by name, and nothing is taken for something
// else.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sampling/stored_options.h"
#include "support/c_api.h"
#include "support/hash.h"

using namespace qinfer::test;
using qinfer::sampling::Bias;
using qinfer::sampling::StoredOptions;

namespace {

/// What is stored; each number once, so that no two fields are exchanged.
StoredOptions sample() {
  StoredOptions stored;
  stored.options = {1.25f, 50,     0.95f,   0.01f,   1.125f, 0.25f, 0.5f, 24, 1234567890123, 0.75f,   1.5f,    0.375f,
                    2.25f, 0.625f, 0.0625f, 0.8125f, 1.75f,  3,     77,   2,  4.5f,          0.3125f, {"tkpe"}};
  stored.bias = {{7, 2.5f}, {9, -INFINITY}};
  stored.breakers = {"\n", std::string("a\0b", 3)};
  stored.bounds = {9.5f, 8.25f, 8.25f};
  return stored;
}

void require_equal(const StoredOptions& stored, const StoredOptions& expected) {
  REQUIRE(stored.options == expected.options);
  REQUIRE(stored.bias.size() == expected.bias.size());
  for (std::size_t i = 0; i < expected.bias.size(); ++i) {
    REQUIRE(stored.bias[i].token == expected.bias[i].token);
    REQUIRE(stored.bias[i].value == expected.bias[i].value);
  }
  REQUIRE(stored.breakers == expected.breakers);
  REQUIRE(stored.bounds == expected.bounds);
}

/// The same as the version before wrote it, without what it did not know.
std::vector<std::byte> older_block(const StoredOptions& stored) {
  const auto block = qinfer::sampling::store_options(stored);
  std::vector<std::byte> older(block.begin(), block.begin() + 56);
  older[4] = std::byte{1};
  const auto bias = block.begin() + 56 + 80;
  older.insert(older.end(), bias, bias + 8 * static_cast<std::ptrdiff_t>(stored.bias.size()));
  return older;
}

/// A model of tests/fixtures on the kernel set that every machine has.
struct Fixture {
  Runtime runtime;
  Model model;
  Cache cache;
  Fixture() {
    auto options = sized<qinfer_runtime_options>();
    options.n_threads = 1;
    options.cpu_target = "reference";
    options.flags = QINFER_RUNTIME_EXACT;
    qinfer_runtime* made = nullptr;
    REQUIRE_OK(qinfer_runtime_create(&options, &made, &err));
    runtime.reset(made);
    model = load_model(runtime, QINFER_TEST_FIXTURES "/models/llama-plain-bf16");
    cache = make_cache(model);
  }
};

/// A file with a session that has a sampler.
void save_sample(const Fixture& fixture, const std::string& path) {
  const Session session = make_session(fixture.cache);
  const qinfer_token tokens[] = {1, 2, 3};
  REQUIRE_OK(qinfer_session_append(session.get(), tokens, 3, &err));
  auto sampler = sized<qinfer_sampler_options>();
  sampler.temperature = 1.25f;
  REQUIRE_OK(qinfer_session_set_sampler(session.get(), &sampler, &err));
  eval(session);
  REQUIRE_OK(qinfer_session_save(session.get(), path.c_str(), &err));
}

}  // namespace

TEST_CASE("a snapshot of another version of the format is refused by name", "[snapshot][options]") {
  const Fixture fixture;
  const ModelDir dir;
  save_sample(fixture, dir.file("new"));
  for (const char version : {'\x01', '\x02', '\x03', '\x06'}) {
    std::string bytes = dir.read("new");
    bytes[8] = version;
    dir.write("other", bytes);
    qinfer_session* refused = nullptr;
    REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "of the snapshot format, expected 4",
                  qinfer_session_load(fixture.cache.get(), dir.file("other").c_str(), &refused, &err));
  }
}

TEST_CASE("a snapshot whose options are newer than the library is refused by name", "[snapshot][options]") {
  const Fixture fixture;
  const ModelDir dir;
  save_sample(fixture, dir.file("new"));
  std::string bytes = dir.read("new");
  const std::size_t block = bytes.find("SO\xff\xff");
  REQUIRE(block != std::string::npos);
  bytes[block + 4] = 3;
  // The record of the state is at 4096: bytes of the tail at 72, its checksum at 80, that of the record at 88.
  std::uint64_t tail_bytes = 0;
  std::memcpy(&tail_bytes, bytes.data() + 4096 + 72, 8);
  const std::uint64_t tail_checksum = XXH3_64bits(bytes.data() + 3 * std::size_t{4096}, tail_bytes);
  std::memcpy(bytes.data() + 4096 + 80, &tail_checksum, 8);
  const std::uint64_t checksum = XXH3_64bits(bytes.data() + 4096, 88);
  std::memcpy(bytes.data() + 4096 + 88, &checksum, 8);
  dir.write("newer", bytes);
  qinfer_session* refused = nullptr;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "newer: version 3 of the sampler options",
                qinfer_session_load(fixture.cache.get(), dir.file("newer").c_str(), &refused, &err));
  REQUIRE(refused == nullptr);
}

TEST_CASE("options are read as they were stored", "[snapshot][options]") {
  for (const std::size_t n : {0u, 1u, 2u}) {
    for (const bool has_breakers : {false, true}) {
      StoredOptions expected = sample();
      expected.bias.resize(n);
      expected.bounds.resize(n);
      if (!has_breakers) expected.breakers.reset();
      const auto block = qinfer::sampling::store_options(expected);
      REQUIRE(block.size() <= qinfer::sampling::most_stored_options_bytes(n, n));
      auto stored = qinfer::sampling::parse_stored_options(block);
      REQUIRE(stored.ok());
      require_equal(stored.value(), expected);
    }
  }
  StoredOptions none = sample();
  none.breakers->clear();
  require_equal(qinfer::sampling::parse_stored_options(qinfer::sampling::store_options(none)).value(), none);
}

TEST_CASE("options of the version before are read, with what is newer off", "[snapshot][options]") {
  const StoredOptions all = sample();
  StoredOptions expected;
  expected.options = {1.25f, 50, 0.95f, 0.01f, 1.125f, 0.25f, 0.5f, 24, 1234567890123};
  expected.bias = all.bias;
  auto stored = qinfer::sampling::parse_stored_options(older_block(all));
  REQUIRE(stored.ok());
  require_equal(stored.value(), expected);
}

TEST_CASE("no cut, longer or newer block of options is read", "[snapshot][options]") {
  auto block = qinfer::sampling::store_options(sample());
  for (std::size_t n = 0; n < block.size(); ++n) {
    INFO("the first " << n << " bytes");
    auto cut = qinfer::sampling::parse_stored_options(std::span(block).first(n));
    REQUIRE(cut.take_status().code() == qinfer::Code::format);
  }
  for (const std::size_t more : {1u, 8u}) {
    auto longer = block;
    longer.resize(longer.size() + more);
    REQUIRE(qinfer::sampling::parse_stored_options(longer).take_status().code() == qinfer::Code::format);
  }
  // 4 billion biases, bounds, bytes of the first breaker; one less breakers.
  for (const std::size_t at : {8u, 132u, 136u + 2 * 8u, 128u}) {
    auto none = block;
    none[at] = none[at + 1] = none[at + 2] = none[at + 3] = std::byte{0xff};
    if (at == 128) none[at] = std::byte{0xfe};
    REQUIRE(qinfer::sampling::parse_stored_options(none).take_status().code() == qinfer::Code::format);
  }
  for (const std::uint32_t version : {0u, 3u, 0xffffffffu}) {
    std::memcpy(block.data() + 4, &version, sizeof version);
    auto newer = qinfer::sampling::parse_stored_options(block);
    REQUIRE(newer.take_status().code() == qinfer::Code::unsupported);
  }
}

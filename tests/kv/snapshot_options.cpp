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
using qinfer::sampling::SamplerOptions;

namespace {

std::vector<std::byte> bytes_of(const void* data, std::size_t n) {
  const auto* bytes = static_cast<const std::byte*>(data);
  return {bytes, bytes + n};
}

/// What is stored.
struct Sample {
  SamplerOptions options{1.25f, 50, 0.95f, 0.01f, 1.125f, 0.25f, 0.5f, 24, 1234567890123};
  std::vector<Bias> bias{{7, 2.5f}, {9, -INFINITY}};
};

void require_equal(const qinfer::sampling::StoredOptions& stored, const Sample& sample) {
  REQUIRE(bytes_of(&stored.options, sizeof stored.options) == bytes_of(&sample.options, sizeof sample.options));
  REQUIRE(stored.bias.size() == sample.bias.size());
  for (std::size_t i = 0; i < sample.bias.size(); ++i) {
    REQUIRE(stored.bias[i].token == sample.bias[i].token);
    REQUIRE(stored.bias[i].value == sample.bias[i].value);
  }
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
  bytes[block + 4] = 2;
  // The record of the state is at 4096: bytes of the tail at 72, its checksum at 80, that of the record at 88.
  std::uint64_t tail_bytes = 0;
  std::memcpy(&tail_bytes, bytes.data() + 4096 + 72, 8);
  const std::uint64_t tail_checksum = XXH3_64bits(bytes.data() + 3 * std::size_t{4096}, tail_bytes);
  std::memcpy(bytes.data() + 4096 + 80, &tail_checksum, 8);
  const std::uint64_t checksum = XXH3_64bits(bytes.data() + 4096, 88);
  std::memcpy(bytes.data() + 4096 + 88, &checksum, 8);
  dir.write("newer", bytes);
  qinfer_session* refused = nullptr;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "newer: version 2 of the sampler options",
                qinfer_session_load(fixture.cache.get(), dir.file("newer").c_str(), &refused, &err));
  REQUIRE(refused == nullptr);
}

TEST_CASE("options are read as they were stored", "[snapshot][options]") {
  for (const std::size_t n : {0u, 1u, 2u}) {
    Sample sample;
    sample.bias.resize(n);
    const auto block = qinfer::sampling::store_options(sample.options, sample.bias);
    REQUIRE(block.size() == qinfer::sampling::stored_options_bytes(n));
    auto stored = qinfer::sampling::parse_stored_options(block);
    REQUIRE(stored.ok());
    require_equal(stored.value(), sample);
  }
}

TEST_CASE("no cut, longer or newer block of options is read", "[snapshot][options]") {
  const Sample sample;
  auto block = qinfer::sampling::store_options(sample.options, sample.bias);
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
  auto none = block;
  none[8] = none[9] = none[10] = none[11] = std::byte{0xff};  // 4 billion biases
  REQUIRE(qinfer::sampling::parse_stored_options(none).take_status().code() == qinfer::Code::format);
  for (const std::uint32_t version : {0u, 2u, 0xffffffffu}) {
    std::memcpy(block.data() + 4, &version, sizeof version);
    auto newer = qinfer::sampling::parse_stored_options(block);
    REQUIRE(newer.take_status().code() == qinfer::Code::unsupported);
  }
}

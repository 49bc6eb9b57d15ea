// longrope: a model with two sets of rotary frequencies takes one of them when it is loaded, by the context that the
// host will use. transformers takes the long ones for all positions of a pass as soon as it is longer than the context
// before scaling, so what is compared here is a pass of a length for which both have taken the same
// (make_model_fixtures.py).
#include <qinfer/qinfer.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/model_fixtures.h"
#include "support/targets.h"

namespace {

using namespace qinfer::test::models;

const std::string kShort = QINFER_TEST_FIXTURES "/longrope_models/phi3-short-f32";  // 72 tokens before scaling
const std::string kLong = QINFER_TEST_FIXTURES "/models/phi3-long-f32";             // 32

qi::Model load(const std::string& path, std::uint32_t max_context, const char* target = nullptr) {
  auto options = qi::options<qinfer_runtime_options>();
  options.flags = QINFER_RUNTIME_EXACT;
  options.cpu_target = target;
  options.n_threads = 1;
  qi::Runtime runtime(options);
  auto load = qi::options<qinfer_load_options>();
  load.max_context = max_context;
  return qi::Model::load(runtime, path, load);
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_CASE("longrope takes its short factors for contexts up to the one before scaling", "[models]") {
  const Expected expected = read_expected(kShort);
  for (const std::string& target : qinfer::test::usable_targets(true)) {
    INFO(target);
    const qi::Model model = load(kShort, 72, target.c_str());
    CHECK(model.info().context_tokens == 72);
    const std::vector<float> whole = evaluate(model, expected.ids, 0);
    CHECK(deviation(whole, expected, expected.f64) < 1e-4);
    for (const std::size_t chunk : {1u, 7u, 32u}) CHECK(same(evaluate(model, expected.ids, chunk), whole));
    CHECK(same(evaluate(load(kShort, 1, target.c_str()), expected.ids, 0), whole));
    // Beyond it they are the long ones, at the same positions.
    for (const std::uint32_t context : {0u, 73u, 100'000u}) {
      const qi::Model other = load(kShort, context, target.c_str());
      CHECK(other.info().context_tokens == 576);
      CHECK(deviation(evaluate(other, expected.ids, 0), expected, expected.f64) > 5e-3);
    }
  }
}

TEST_CASE("longrope in a short context is what transformers gives for texts that fit in it", "[models]") {
  Expected expected = read_expected(kLong);
  auto directory = qinfer::platform::Directory::open(kLong);
  auto file = directory.value().open_file("expected.safetensors");
  std::string prefix(file.value().size, '\0');
  REQUIRE(qinfer::platform::read_at(file.value(), 0, std::as_writable_bytes(std::span(prefix))).ok());
  const auto header = qinfer::formats::parse_safetensors_header(prefix, file.value().size, "expected.safetensors");
  REQUIRE(header.ok());
  const auto by_length = read_tensor<float>(file.value(), header.value(), "logits_by_length_f64_as_f32");
  REQUIRE(by_length.size() == expected.rows.size() * expected.n_vocab);
  const qi::Model model = load(kLong, 32);
  CHECK(model.info().context_tokens == 32);
  Expected within = expected;
  within.ids.resize(32);
  std::erase_if(within.rows, [](std::int32_t row) { return row >= 32; });
  REQUIRE(within.rows.size() >= 4);
  const std::vector<float> logits = evaluate(model, within.ids, 0);
  CHECK(deviation(logits, within, by_length) < 1e-4);
  CHECK(deviation(logits, within, expected.f64) > 5e-3);
}

TEST_CASE("Sessions, snapshots, packed and exported files of a model loaded for a short context", "[models]") {
  const Expected expected = read_expected(kShort);
  const qi::Model model = load(kShort, 72), whole = load(kShort, 0);
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.max_tokens = 73;
  CHECK_THROWS_WITH(qi::Session(cache, options), qinfer::test::contains("the model's context has 72"));
  // A snapshot is of the one or of the other.
  options.max_tokens = 0;
  qi::Session session(cache, options);
  session.append(expected.ids.data(), 40);
  session.eval();
  const qinfer::test::ModelDir dir;
  const std::string saved = dir.file("saved"), path = dir.file("written");
  session.save(saved);
  qi::KvCache other(whole), again(load(kShort, 50));
  CHECK_THROWS(qi::Session::load(other, saved));
  CHECK_NOTHROW(qi::Session::load(again, saved));
  auto runtime_options = qi::options<qinfer_runtime_options>();
  runtime_options.flags = QINFER_RUNTIME_EXACT;
  qi::Runtime runtime(runtime_options);
  auto limited = qi::options<qinfer_load_options>();
  limited.max_context = 72;
  CHECK_THROWS_WITH(qi::pack(runtime, kShort, path, limited), qinfer::test::contains("max_context"));
  CHECK_THROWS_WITH(qi::export_gguf(runtime, kShort, path, limited), qinfer::test::contains("max_context"));
  const auto check = [&] {
    CHECK(same(evaluate(load(path, 72), expected.ids, 0), evaluate(model, expected.ids, 0)));
    CHECK(same(evaluate(load(path, 0), expected.ids, 0), evaluate(whole, expected.ids, 0)));
  };
  qi::pack(runtime, kShort, path);
  check();
  dir.remove("written");
  qi::export_gguf(runtime, kShort, path);
  check();
}

}  // namespace

// See model_fixtures.h.
#include "support/model_fixtures.h"

namespace qinfer::test::models {

Expected read_expected(const std::string& folder) {
  auto directory = qinfer::platform::Directory::open(folder);
  REQUIRE(directory.ok());
  auto file = directory.value().open_file("expected.safetensors");
  REQUIRE(file.ok());
  std::string prefix(file.value().size, '\0');
  REQUIRE(qinfer::platform::read_at(file.value(), 0, std::as_writable_bytes(std::span(prefix))).ok());
  auto header = qinfer::formats::parse_safetensors_header(prefix, file.value().size, "expected.safetensors");
  REQUIRE(header.ok());
  Expected expected;
  expected.ids = read_tensor<std::int32_t>(file.value(), header.value(), "ids");
  expected.rows = read_tensor<std::int32_t>(file.value(), header.value(), "rows");
  expected.experts = read_tensor<std::int32_t>(file.value(), header.value(), "experts");
  expected.f32 = read_tensor<float>(file.value(), header.value(), "logits_f32");
  expected.f64 = read_tensor<float>(file.value(), header.value(), "logits_f64_as_f32");
  expected.bf16 = read_tensor<float>(file.value(), header.value(), "logits_bf16_as_f32");
  expected.tiles = read_tensor<float>(file.value(), header.value(), "logits_tiles_as_f32");
  for (const float noise : read_tensor<float>(file.value(), header.value(), "bf16_noise")) expected.bf16_noise = noise;
  expected.embeddings = read_tensor<float>(file.value(), header.value(), "embeddings_f64_as_f32");
  expected.embeddings_bf16 = read_tensor<float>(file.value(), header.value(), "embeddings_bf16_as_f32");
  expected.embeddings_tiles = read_tensor<float>(file.value(), header.value(), "embeddings_tiles_as_f32");
  for (const float noise : read_tensor<float>(file.value(), header.value(), "embeddings_noise"))
    expected.embeddings_noise = noise;
  REQUIRE(!expected.ids.empty());
  REQUIRE(expected.rows.empty() == expected.f64.empty());
  REQUIRE((!expected.f64.empty() || !expected.embeddings.empty()));
  if (!expected.rows.empty()) expected.n_vocab = expected.f64.size() / expected.rows.size();
  return expected;
}

std::vector<float> evaluate(const qi::Model& model, const std::vector<std::int32_t>& ids, std::size_t chunk) {
  qi::KvCache cache(model);
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = static_cast<std::uint32_t>(ids.size());
  qi::Session session(cache, options);
  const std::size_t step = chunk == 0 ? ids.size() : chunk;
  const std::size_t n_vocab = model.info().n_vocab;
  std::vector<float> logits;
  for (std::size_t i = 0; i < ids.size(); i += step) {
    const std::size_t n = std::min(step, ids.size() - i);
    session.append(ids.data() + i, n);
    auto eval_options = qi::options<qinfer_eval_options>();
    eval_options.keep_logits = static_cast<std::uint32_t>(n);
    session.eval(eval_options);
    for (std::size_t back = n; back-- > 0;) {
      const float* row = session.logits(back);
      REQUIRE(row != nullptr);
      logits.insert(logits.end(), row, row + n_vocab);
    }
  }
  return logits;
}

double deviation(const std::vector<float>& logits, const Expected& expected, const std::vector<float>& reference) {
  double largest = 0, difference = 0;
  for (std::size_t r = 0; r < expected.rows.size(); ++r) {
    for (std::size_t v = 0; v < expected.n_vocab; ++v) {
      const double want = reference[r * expected.n_vocab + v];
      const double got = logits[static_cast<std::size_t>(expected.rows[r]) * expected.n_vocab + v];
      if (!std::isfinite(got)) return INFINITY;
      largest = std::max(largest, std::fabs(want));
      difference = std::max(difference, std::fabs(want - got));
    }
  }
  return difference / largest;
}

qi::Model load_exact(const std::string& path, const char* target, const char* format) {
  auto options = qi::options<qinfer_runtime_options>();
  options.flags = QINFER_RUNTIME_EXACT;
  options.cpu_target = target;
  options.n_threads = 1;
  qi::Runtime runtime(options);
  auto load = qi::options<qinfer_load_options>();
  load.weight_format = format;
  return qi::Model::load(runtime, path, load);
}

}  // namespace qinfer::test::models

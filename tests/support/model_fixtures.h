// What the tests of whole models share: fixtures of small checkpoints with the logits that transformers gives, and how
// far a model is from them.
#pragma once

#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "platform/file.h"
#include "support/catch.h"

namespace qinfer::test::models {

struct Expected {
  std::vector<std::int32_t> ids, rows;
  std::vector<std::int32_t> experts;  ///< [layers with experts][ids][chosen ones]; empty: no mixture
  std::vector<float> f32, f64;        ///< logits; empty for an encoder
  std::vector<float> bf16, mixed;     ///< those with the roundings of amx, and of few rows of amx_mixed
  double bf16_noise = 0;              ///< what sums in f32 may change of them, as a share of the largest logit
  std::vector<float> embeddings;      ///< [length][pooling][n_embd], or empty
  std::vector<float> embeddings_bf16;
  double embeddings_noise = 0;
  std::size_t n_vocab = 0;
};

template <typename T>
std::vector<T> read_tensor(const qinfer::platform::OpenFile& file, const qinfer::formats::SafetensorsHeader& header,
                           const std::string& name) {
  for (const auto& tensor : header.tensors) {
    if (tensor.name != name) continue;
    std::vector<T> values((tensor.end - tensor.begin) / sizeof(T));
    REQUIRE(qinfer::platform::read_at(file, tensor.begin, std::as_writable_bytes(std::span(values))).ok());
    return values;
  }
  return {};
}

inline Expected read_expected(const std::string& folder) {
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
  expected.mixed = read_tensor<float>(file.value(), header.value(), "logits_mixed_as_f32");
  for (const float noise : read_tensor<float>(file.value(), header.value(), "bf16_noise")) expected.bf16_noise = noise;
  expected.embeddings = read_tensor<float>(file.value(), header.value(), "embeddings_f64_as_f32");
  expected.embeddings_bf16 = read_tensor<float>(file.value(), header.value(), "embeddings_bf16_as_f32");
  for (const float noise : read_tensor<float>(file.value(), header.value(), "embeddings_noise"))
    expected.embeddings_noise = noise;
  REQUIRE(!expected.ids.empty());
  REQUIRE(expected.rows.empty() == expected.f64.empty());
  REQUIRE((!expected.f64.empty() || !expected.embeddings.empty()));
  if (!expected.rows.empty()) expected.n_vocab = expected.f64.size() / expected.rows.size();
  return expected;
}

/// Logits of all tokens, fed in chunks of `chunk` (0 = all at once).
inline std::vector<float> evaluate(const qi::Model& model, const std::vector<std::int32_t>& ids, std::size_t chunk) {
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

/// The largest difference over the rows of the fixture, as a share of the largest expected logit.
inline double deviation(const std::vector<float>& logits, const Expected& expected,
                        const std::vector<float>& reference) {
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

inline qi::Model load_exact(const std::string& path, const char* target = nullptr, const char* format = nullptr) {
  auto options = qi::options<qinfer_runtime_options>();
  options.flags = QINFER_RUNTIME_EXACT;
  options.cpu_target = target;
  options.n_threads = 2;
  qi::Runtime runtime(options);
  auto load = qi::options<qinfer_load_options>();
  load.weight_format = format;
  return qi::Model::load(runtime, path, load);
}

}  // namespace qinfer::test::models

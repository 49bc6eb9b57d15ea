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
  std::vector<float> bf16;            ///< those with the roundings of avx512_bf16
  std::vector<float> tiles;           ///< those with the roundings of amx
  double bf16_noise = 0;              ///< what sums in f32 may change of them, as a share of the largest logit
  std::vector<float> embeddings;      ///< [length][pooling][n_embd], or empty
  std::vector<float> embeddings_bf16, embeddings_tiles;
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

Expected read_expected(const std::string& folder);

/// Logits of all tokens, fed in chunks of `chunk` (0 = all at once).
std::vector<float> evaluate(const qi::Model& model, const std::vector<std::int32_t>& ids, std::size_t chunk);

/// The largest difference over the rows of the fixture, as a share of the largest expected logit.
double deviation(const std::vector<float>& logits, const Expected& expected, const std::vector<float>& reference);

qi::Model load_exact(const std::string& path, const char* target = nullptr, const char* format = nullptr);

}  // namespace qinfer::test::models

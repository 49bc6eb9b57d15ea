// See session.h: the vector of a session's text, made of the hidden states that evaluations have gathered.
#include <algorithm>
#include <cmath>

#include "engine/classifier.h"
#include "engine/dense.h"
#include "engine/session.h"
#include "platform/thread.h"

namespace qinfer::engine {

Status Session::check_embedding() const {
  if (!layout_.embeddings)
    return error(Code::state, "the session keeps no hidden states: create it with QINFER_SESSION_EMBEDDINGS");
  if (length() == 0) return error(Code::state, "the session is empty: append tokens and evaluate them first");
  if (pending() != 0) return error(Code::state, "{} tokens are pending: evaluate them before the embedding", pending());
  return Status();
}

Status Session::label_values(std::span<float> out) const {
  QINFER_TRY(check_embedding());
  const platform::ScopedFloatEnvironment environment;
  const std::uint32_t width = model().spec().n_embd;
  apply_dense(model(), {embedding_data() + std::size_t{2} * width, width}, out);
  return Status();
}

Status Session::classify(std::span<float> out) const {
  const model::ModelSpec& spec = model().spec();
  if (spec.classifier.n_labels == 0)
    return error(Code::unsupported, "{} has no classifier: it gives embeddings", spec.architecture);
  QINFER_TRY(check_embedding());
  const platform::ScopedFloatEnvironment environment;
  const std::size_t width = spec.n_embd;
  const std::span<float> state(embedding_data() + 3 * width, width), inner(embedding_data() + 4 * width, width);
  const float* states = embedding_data() + (spec.classifier.is_last ? 2 * width : spec.classifier.mean ? width : 0);
  const double scale = spec.classifier.mean ? 1.0 / static_cast<double>(length()) : 1.0;
  for (std::size_t i = 0; i < width; ++i) state[i] = static_cast<float>(states[i] * scale);
  if (engine::classify(model(), state, inner, out)) return Status();
  return keys_.explained(error(Code::numeric, "the hidden states are not finite: there are no scores"));
}

Status Session::embedding(const EmbeddingOptions& options, std::span<float> out) const {
  QINFER_TRY(check_embedding());
  const platform::ScopedFloatEnvironment environment;
  const model::ModelSpec& spec = model().spec();
  if (spec.score.kind == model::ScoreKind::dense)
    return error(Code::unsupported, "the model's file gives scores of pairs of texts, and no embeddings");
  const Pooling pooling = options.pooling.value_or(spec.embedding.pooling);
  const std::size_t row = pooling == Pooling::first ? 0 : pooling == Pooling::mean ? 1 : 2;
  std::span<const float> values(embedding_data() + row * spec.n_embd, spec.n_embd);
  std::vector<float> mean, dense;
  // A length of 1 makes no difference between the sum and the mean.
  if (pooling == Pooling::mean && (options.unscaled || !spec.embedding.dense.empty())) {
    mean.assign(values.begin(), values.end());
    for (float& value : mean) value /= static_cast<float>(length());
    values = mean;
  }
  if (!spec.embedding.dense.empty()) {
    dense.resize(spec.embedding_dims());
    apply_dense(model(), values, dense);
    values = dense;
  }
  values = values.first(out.size());
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  if (!std::isfinite(squares))
    return keys_.explained(error(Code::numeric, "the hidden states are not finite: there is no embedding"));
  const double scale = options.unscaled ? 1 : squares > 0 ? 1 / std::sqrt(squares) : 0;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i] * scale);
  return Status();
}

}  // namespace qinfer::engine

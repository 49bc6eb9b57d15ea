// The keys of a GGUF file about its architecture, and the fields of config.json that they are made into: the values of
// one and the same tree that hf_config.h reads, so that an architecture is described once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/json.h"
#include "source/architecture.h"

namespace qinfer::source {

class GgufFields {
 public:
  GgufFields(const formats::Gguf& gguf, const GgufArchitecture& architecture);

  /// The file has it.
  bool has_tensor(std::string_view name) const { return gguf_.find(name) != nullptr; }
  const formats::Gguf& gguf() const { return gguf_; }
  const formats::GgufMetadata& metadata() const { return gguf_.metadata(); }
  const std::string& file() const { return gguf_.metadata().file(); }
  const GgufArchitecture& architecture() const { return architecture_; }

  // ---- Keys "<architecture>.<name>". Absent ones are std::nullopt.
  std::string key(std::string_view name) const;
  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t min, std::int64_t max) const;
  Result<std::int64_t> required(std::string_view name, std::int64_t min, std::int64_t max) const;
  /// Of an f32, the shortest decimal that gives the same f32, as config.json would have it: 1e-06, not
  /// 9.999999974752427e-7.
  Result<std::optional<double>> number(std::string_view name, double min, double max) const;
  Result<std::optional<std::string_view>> text(std::string_view name) const;
  /// A value for all layers: one, or an array with one for each, which must agree. Only after n_layers is known.
  Result<std::optional<std::int64_t>> same_in_layers(std::string_view name, std::int64_t min, std::int64_t max) const;
  Status missing(std::string_view name) const;

  // ---- Fields
  void add(std::string_view field, std::int64_t value);
  void add(std::string_view field, bool value);
  void add(std::string_view field, double value);
  void add_null(std::string_view field);
  void add_text(std::string_view field, std::string_view value);
  void add_list(std::string_view field, std::span<const std::int64_t> values);
  void add_list(std::string_view field, std::span<const float> values);
  void add_list(std::string_view field, std::span<const std::string_view> values);
  void begin_object(std::string_view field);
  void end_object();
  /// Which architecture of config.json it is, where that is not the usual one.
  void set_hugging_face(std::string_view name) { hugging_face_ = name; }
  /// The key of a window, if it has one, as sliding_window: its value, or 0.
  Result<std::int64_t> add_window();
  /// With a window: which layers have it, as layer_types. Files list it for each layer, say that each n-th has none, or
  /// leave out that n is `every`.
  Status add_window_pattern(std::int64_t every);
  /// All that was added. QINFER_E_INTERNAL if a field was added twice.
  Result<formats::JsonDocument> take();

  std::int64_t n_layers = 0, hidden = 0, heads = 0, head_dim = 0, ffn = 0, vocab = 0;

 private:
  void add_key(std::string_view field);
  const formats::Gguf& gguf_;
  const GgufArchitecture& architecture_;
  std::string_view hugging_face_;
  formats::JsonTreeBuilder tree_;
};

}  // namespace qinfer::source

// The key-values of a GGUF file that say which model it holds: the inverse of gguf_config.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/gguf_writer.h"
#include "model/spec.h"
#include "source/architecture.h"

namespace qinfer::source {

/// Keys "<architecture>.<name>".
class GgufKeys {
 public:
  GgufKeys(const GgufArchitecture& architecture, formats::GgufWriter& out) : architecture_(architecture), out_(out) {}
  const GgufArchitecture& architecture() const { return architecture_; }
  void u32(std::string_view name, std::uint32_t value);
  void f32(std::string_view name, double value);
  void text(std::string_view name, std::string_view value);
  void boolean(std::string_view name, bool value);
  void texts(std::string_view name, std::span<const std::string> values);
  /// Whether each layer has a window, where some have.
  void window_pattern(const model::ModelSpec& spec);

 private:
  const GgufArchitecture& architecture_;
  formats::GgufWriter& out_;
};

/// Writes what an architecture has keys for. Whatever else a spec says is lost: the caller reads the file back and
/// compares.
void add_gguf_keys(const model::ModelSpec& spec, const GgufArchitecture& architecture, formats::GgufWriter& out);

/// The numbers of "rope_freqs.weight"; empty for a model that needs none.
std::vector<float> gguf_rope_divisors(const model::ModelSpec& spec);

/// What a spec becomes by way of a GGUF file, as far as results depend on it: llama3 scaling becomes divisors, and
/// tokens and the rows of positions that no token has are left out.
model::ModelSpec as_gguf_says(model::ModelSpec spec);

}  // namespace qinfer::source

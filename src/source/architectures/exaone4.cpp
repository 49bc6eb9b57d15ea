// EXAONE 4: norms after attention and network, of each head of queries and keys too. Where some layers have a window,
// the others have no rotary embedding.
#include "source/architectures/rows.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"
#include "source/hf_windows.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::AttentionSpec;
using model::ModelSpec;

constexpr std::int64_t kFullEvery = 4;

Status read_exaone4_windows(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  const formats::Json* window = fields.object().find("sliding_window");
  if (window != nullptr && window->is_null()) return refuse_windows(fields, architecture, spec);
  std::int64_t every = kFullEvery;
  if (!fields.has("layer_types")) {
    QINFER_ASSIGN(const auto stated, fields.integer("sliding_window_pattern", 1, kMaxLayers));
    every = stated.value_or(every);
  }
  QINFER_TRY(read_window_pattern(fields, every, spec));
  spec.each_attention([](AttentionSpec& layer) { layer.no_rope = layer.window == 0; });
  return Status();
}

constexpr OwnName kExaone4Keys[] = {"attention.sliding_window", "attention.sliding_window_pattern",
                                    "rope.freq_base_swa"};

/// Layers with a window are turned by the only embedding there is.
Status read_exaone4_keys(GgufFields& fields) {
  QINFER_ASSIGN(const auto base, fields.number("rope.freq_base", 1e-3, 1e15));
  QINFER_ASSIGN(const auto local, fields.number("rope.freq_base_swa", 1e-3, 1e15));
  if (local && *local != base.value_or(10000.0))
    return error(Code::unsupported, "{}: key \"{}\" is {}, expected that of \"{}\", {}", fields.file(),
                 fields.key("rope.freq_base_swa"), *local, fields.key("rope.freq_base"), base.value_or(10000.0));
  QINFER_ASSIGN(const std::int64_t window, fields.add_window());
  if (window != 0) return fields.add_window_pattern(kFullEvery);
  fields.add_null("sliding_window");
  return Status();
}

void write_exaone4_keys(const ModelSpec& spec, GgufKeys& keys) { keys.window_pattern(spec); }

void add_exaone4_notes(const ModelSpec& spec, std::vector<std::string>& notes) {
  const bool has_windows = spec.largest_attention().window != 0;
  if (has_windows != (spec.n_layers() == 64))
    notes.emplace_back(
        "it gives windows to models of this architecture that have 64 layers and to no others: results "
        "differ");
}

}  // namespace

constexpr Architecture kExaone4{.name = "Exaone4ForCausalLM",
                                .qk_norm = model::QkNorm::heads,
                                .default_kv_heads = 32,
                                .norms = {false, true, false, true},
                                .default_bos = 0,
                                .default_end = 2,
                                .read_windows = read_exaone4_windows};

constexpr GgufArchitecture kGgufExaone4{.name = "exaone4",
                                        .hugging_face = "Exaone4ForCausalLM",
                                        .own_keys = kExaone4Keys,
                                        .read_own = read_exaone4_keys,
                                        .write_own = write_exaone4_keys,
                                        .add_notes = add_exaone4_notes};

}  // namespace qinfer::source

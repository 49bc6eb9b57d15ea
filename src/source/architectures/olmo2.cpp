// OLMo 2: norms after attention and network, and of whole queries and keys. OLMo 3: the same with a window in three of
// four layers, where no scaling of rotary embeddings applies. GGUF files call both "olmo2".
#include "source/architectures/rows.h"
#include "source/gguf_fields.h"
#include "source/gguf_keys.h"
#include "source/hf_rope.h"
#include "source/hf_windows.h"

namespace qinfer::source {
namespace {

using formats::FieldReader;
using model::ModelSpec;

constexpr std::int64_t kGlobalEvery = 4;
constexpr double kOlmo3Theta = 5e5;

}  // namespace

constexpr Architecture kOlmo2{.name = "Olmo2ForCausalLM",
                              .attention_bias = true,
                              .qk_norm = model::QkNorm::whole,
                              .norms = {false, true, false, true}};

namespace {

Status read_olmo3_windows(const FieldReader& fields, const Architecture&, ModelSpec& spec) {
  return read_window_pattern(fields, kGlobalEvery, spec);
}

/// transformers 5 takes rope_theta outside of rope_parameters for the layers without a window alone, version 4 for all.
Status read_olmo3_ropes(const FieldReader& fields, const Architecture& architecture, ModelSpec& spec) {
  QINFER_ASSIGN(const auto theta, fields.number("rope_theta"));
  if (theta && *theta != kOlmo3Theta && !fields.has("rope_local_base_freq") && !fields.has("rope_parameters"))
    return error(Code::unsupported,
                 "{}: \"rope_theta\" is {}, of which versions of transformers disagree whether it is meant for layers "
                 "with a window: expected {}, or \"rope_parameters\" for each kind of layer",
                 fields.where(), *theta, kOlmo3Theta);
  return read_ropes_by_layer_type(fields, architecture, {.full = kOlmo3Theta, .local = kOlmo3Theta}, spec);
}

constexpr Architecture olmo3() {
  Architecture row = kOlmo2;
  row.name = "Olmo3ForCausalLM";
  row.default_end = 50279;
  row.read_windows = read_olmo3_windows;
  row.read_ropes = read_olmo3_ropes;
  return row;
}

constexpr OwnName kOlmo2Keys[] = {"attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa"};
constexpr std::string_view kOlmo2Also[] = {"Olmo3ForCausalLM"};

/// With a window it is OLMo 3.
Status read_olmo2_keys(GgufFields& fields) {
  QINFER_ASSIGN(const std::int64_t window, fields.add_window());
  if (window == 0) return Status();
  fields.set_hugging_face("Olmo3ForCausalLM");
  QINFER_ASSIGN(const auto base, fields.number("rope.freq_base", 1e-3, 1e15));
  QINFER_ASSIGN(const auto local, fields.number("rope.freq_base_swa", 1e-3, 1e15));
  fields.add("rope_local_base_freq", local.value_or(base.value_or(10000.0)));
  return fields.add_window_pattern(kGlobalEvery);
}

void write_olmo2_keys(const ModelSpec& spec, GgufKeys& keys) { keys.window_pattern(spec); }

void add_olmo2_notes(const ModelSpec& spec, std::vector<std::string>& notes) {
  if (spec.tied_embeddings) notes.emplace_back("it refuses this architecture with tied embeddings");
}

}  // namespace

constexpr Architecture kOlmo3 = olmo3();

constexpr GgufArchitecture kGgufOlmo2{.name = "olmo2",
                                      .hugging_face = "Olmo2ForCausalLM",
                                      .also = kOlmo2Also,
                                      .own_keys = kOlmo2Keys,
                                      .read_own = read_olmo2_keys,
                                      .write_own = write_olmo2_keys,
                                      .add_notes = add_olmo2_notes};

}  // namespace qinfer::source

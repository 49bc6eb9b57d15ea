// OLMo 2: norms after attention and network, and of whole queries and keys.
#include "source/architectures/rows.h"

namespace qinfer::source {

constexpr Architecture kOlmo2{.name = "Olmo2ForCausalLM",
                              .attention_bias = true,
                              .qk_norm = model::QkNorm::whole,
                              .norms = {false, true, false, true}};

namespace {

void add_olmo2_notes(const model::ModelSpec& spec, std::vector<std::string>& notes) {
  if (spec.tied_embeddings) notes.emplace_back("it refuses this architecture with tied embeddings");
}

}  // namespace

constexpr GgufArchitecture kGgufOlmo2{
    .name = "olmo2", .hugging_face = "Olmo2ForCausalLM", .add_notes = add_olmo2_notes};

}  // namespace qinfer::source

// config.json and generation_config.json of Hugging Face transformers (versions 4 and 5) -> ModelSpec.
#pragma once

#include <string_view>

#include "base/notes.h"
#include "base/status.h"
#include "formats/json.h"
#include "model/spec.h"
#include "source/architecture.h"

namespace qinfer::source {

/// Absent in config.json: decided by whether the checkpoint has lm_head.weight.
enum class Tied : std::uint8_t { no, yes, unstated };

struct ParsedConfig {
  model::ModelSpec spec;
  Tied tied = Tied::unstated;
  const Architecture* architecture = nullptr;
};

/// The object of config.json that describes the text: text_config of a model that has parts for images or sound, too,
/// and otherwise all of it.
const formats::Json& text_fields(const formats::Json& config);

/// QINFER_E_UNSUPPORTED names the field whose value qinfer does not know; QINFER_E_FORMAT the field that is missing,
/// of the wrong type or out of range. `name` begins every message.
/// Tokens beyond the vocabulary, which can never be drawn, are passed over with a note.
Result<ParsedConfig> parse_hf_config(const formats::Json& config, std::string_view name, Notes& notes);

/// Begin and end tokens of generation_config.json override those of config.json.
Status apply_generation_config(const formats::Json& config, std::string_view name, model::ModelSpec& spec,
                               Notes& notes);

}  // namespace qinfer::source

// config.json and generation_config.json of Hugging Face transformers (versions 4 and 5) -> ModelSpec.
#pragma once

#include <string_view>

#include "base/status.h"
#include "formats/json.h"
#include "model/spec.h"

namespace qinfer::model {

/// Absent in config.json: decided by whether the checkpoint has lm_head.weight.
enum class Tied : std::uint8_t { no, yes, unstated };

struct ParsedConfig {
  ModelSpec spec;
  Tied tied = Tied::unstated;
};

/// QINFER_E_UNSUPPORTED names the field whose value qinfer does not know; QINFER_E_FORMAT the field that is missing,
/// of the wrong type or out of range. `name` begins every message.
Result<ParsedConfig> parse_hf_config(const formats::Json& config, std::string_view name);

/// Begin and end tokens of generation_config.json override those of config.json.
Status apply_generation_config(const formats::Json& config, std::string_view name, ModelSpec& spec);

}  // namespace qinfer::model

// sampling.h: how a model's own files want its text to be drawn, and settings of a conversation by name.
#pragma once

#include <qinfer/qinfer.hpp>

#include <string>
#include <vector>

#include "conversation.h"

namespace cli {

struct Sampling {
  qinfer_sampler_options options = qi::options<qinfer_sampler_options>();
  std::string steps;                 ///< of SamplerTexts
  std::int32_t penalty_window = -1;  ///< of SamplerTexts
  std::string origin;                ///< who says so, for people
};

/// What generation_config.json, or the keys general.sampling.* of a GGUF file, say. do_sample is read as transformers
/// does, whose defaults hold for what a file that samples does not say (temperature 1, top-k 50); a file that states
/// only some of the numbers samples too, as vLLM has it. Where nothing is said: the defaults of llama.cpp
/// (temperature 0.8, top-k 40, top-p 0.95, min-p 0.05).
Sampling sampling_of(const qi::Model& model);

/// "greedy", or "temperature 0.6, top-k 20, seed 0".
std::string sampling_text(const qinfer_sampler_options& options);

/// Sets what has this name ("temp", "temperature", "top_k", "top-k", ...). Throws Failure, which says what would be
/// right.
void set_by_name(ConversationOptions& options, const std::string& name, const std::string& value);
/// Names that set_by_name() knows.
std::vector<std::string> setting_names();
/// A line for each: name, value, what it is.
std::string settings_text(const ConversationOptions& options);

}  // namespace cli

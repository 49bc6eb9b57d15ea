// sampler_options.h: the options of the sampler that are named as llama.cpp's.
#pragma once

#include <qinfer/qinfer.h>

#include <qinfer/qinfer.hpp>
#include <string>
#include <vector>

#include "command_line.h"

namespace cli {

/// What qinfer_sampler_options does not hold, as it was given.
struct SamplerTexts {
  std::string steps;                  ///< letters; "" = the default order
  std::vector<std::string> breakers;  ///< of DRY, as typed; empty: the default ones
  std::int32_t dry_window = -1;       ///< -1: all tokens; 0: DRY is off
  std::int32_t penalty_window = -1;   ///< -1: all tokens; 0: penalties are off
};

/// Adds them; add_sampler_args() of options.h has the others.
void add_more_sampler_args(Options& options, qinfer_sampler_options& sampler, SamplerTexts& texts);
/// "top_k;temperature" as letters of qinfer_sampler_options.steps. Throws Failure, which says what would be right.
std::string step_letters(const std::string& names);
/// Letters of a file, without those that are none of a step or were there before.
std::string known_steps(std::string_view letters);
/// The inverse of step_letters().
std::string step_names(const std::string& letters);
/// One more breaker of DRY, as it was typed; "none" and "default" take the place of all. Throws Failure, which says
/// what would be right.
void add_breaker(SamplerTexts& texts, const std::string& typed);
/// "default", "none", or the texts as typed, in quotes.
std::string breakers_text(const SamplerTexts& texts);
/// How the session draws from now on.
void set_sampler(qi::Session& session, qinfer_sampler_options sampler, const SamplerTexts& texts);

}  // namespace cli

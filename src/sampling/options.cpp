// See options.h.
#include "sampling/options.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace qinfer::sampling {
namespace {

struct Bound {
  std::string_view name;
  float SamplerOptions::*member;
  float least, most;  ///< infinite: any finite number
  std::string_view range;
};

constexpr Bound kBounds[] = {
    {"temperature", &SamplerOptions::temperature, 0, INFINITY, "0 or more"},
    {"top_p", &SamplerOptions::top_p, 0, 1, "0 to 1"},
    {"min_p", &SamplerOptions::min_p, 0, 1, "0 to 1"},
    {"repeat_penalty", &SamplerOptions::repeat_penalty, 0, INFINITY, "0 or more"},
    {"frequency_penalty", &SamplerOptions::frequency_penalty, -INFINITY, INFINITY, "a finite number"},
    {"presence_penalty", &SamplerOptions::presence_penalty, -INFINITY, INFINITY, "a finite number"},
    {"typical_p", &SamplerOptions::typical_p, 0, 1, "0 to 1"},
    {"top_n_sigma", &SamplerOptions::top_n_sigma, 0, INFINITY, "0 or more"},
    {"dynatemp_range", &SamplerOptions::dynatemp_range, 0, INFINITY, "0 or more"},
    {"dynatemp_exponent", &SamplerOptions::dynatemp_exponent, 0, INFINITY, "0 or more"},
    {"xtc_probability", &SamplerOptions::xtc_probability, 0, 1, "0 to 1"},
    {"xtc_threshold", &SamplerOptions::xtc_threshold, 0, 1, "0 to 1"},
    {"dry_multiplier", &SamplerOptions::dry_multiplier, 0, INFINITY, "0 or more"},
    {"mirostat_tau", &SamplerOptions::mirostat_tau, 0, 1000, "0 to 1000"},
    {"mirostat_eta", &SamplerOptions::mirostat_eta, 0, 1, "0 to 1"},
};

Status check_steps(const SamplerOptions& options) {
  if (std::find(options.steps.begin(), options.steps.end(), '\0') == options.steps.end())
    return error(Code::invalid_argument, "steps has no NUL in its {} bytes", options.steps.size());
  const std::string_view steps(options.steps.data());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (kDefaultSteps.find(steps[i]) == std::string_view::npos)
      return error(Code::invalid_argument, "steps has the byte {:#04x} at index {}, expected letters of \"{}\"",
                   static_cast<unsigned char>(steps[i]), i, kDefaultSteps);
    if (steps.find(steps[i]) != i)
      return error(Code::invalid_argument, "steps has the letter {} twice, expected each at most once", steps[i]);
  }
  return Status();
}

}  // namespace

Status check_options(const SamplerOptions& options) {
  for (const Bound& bound : kBounds) {
    const float value = options.*bound.member;
    if (std::isfinite(value) && value >= bound.least && value <= bound.most) continue;
    return error(Code::invalid_argument, "{} is {}, expected {}", bound.name, value, bound.range);
  }
  const float base = options.dry_base;
  if (base != 0 && !(base >= 1 && std::isfinite(base)))
    return error(Code::invalid_argument, "dry_base is {}, expected 1 or more, or 0", base);
  if (!std::isfinite(options.temperature + options.dynatemp_range))
    return error(Code::invalid_argument, "dynatemp_range is {}, with the temperature {} above the range of f32",
                 options.dynatemp_range, options.temperature);
  if (options.mirostat != 0 && options.mirostat != 2)
    return error(Code::invalid_argument, "mirostat is {}, expected 0 or 2", options.mirostat);
  return check_steps(options);
}

std::string_view steps_of(const SamplerOptions& options) {
  return options.steps[0] == '\0' ? kDefaultSteps : std::string_view(options.steps.data());
}

}  // namespace qinfer::sampling

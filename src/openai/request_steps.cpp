// See request.h: the fields of sampling that llama.cpp's server has besides OpenAI's, by its names.
#include <algorithm>
#include <limits>

#include "openai/request_fields.h"

namespace qinfer::openai {

using formats::Json;

namespace {

struct StepName {
  std::string_view name;
  char letter;
};

constexpr StepName kStepNames[] = {
    {"penalties", 'e'},   {"dry", 'd'},     {"temperature", 't'}, {"temp", 't'},  {"top_n_sigma", 's'},
    {"top-n-sigma", 's'}, {"top_k", 'k'},   {"top-k", 'k'},       {"typ_p", 'y'}, {"typ-p", 'y'},
    {"typical_p", 'y'},   {"typical", 'y'}, {"typical-p", 'y'},   {"typ", 'y'},   {"top_p", 'p'},
    {"top-p", 'p'},       {"nucleus", 'p'}, {"min_p", 'm'},       {"min-p", 'm'}, {"xtc", 'x'},
};
constexpr std::string_view kExpectedSteps =
    "an array of penalties, dry, temperature, top_n_sigma, top_k, typ_p, top_p, min_p and xtc, each at most once";

Status add_step(char letter, const Json& given, std::string& steps) {
  if (steps.find(letter) != std::string::npos) return wrong_value("samplers", given, kExpectedSteps);
  steps.push_back(letter);
  return Status();
}

/// Names, or one text of letters.
Status read_samplers(Fields& fields, std::string& steps) {
  const Json* given = fields.find("samplers");
  if (given == nullptr) return Status();
  if (given->is_string()) {
    for (const char letter : given->text()) {
      const bool known = std::any_of(std::begin(kStepNames), std::end(kStepNames),
                                     [letter](const StepName& step) { return step.letter == letter; });
      if (!known) return wrong_value("samplers", *given, kExpectedSteps);
      QINFER_TRY(add_step(letter, *given, steps));
    }
  } else if (given->is_array()) {
    for (const Json& name : *given) {
      const auto known = std::find_if(std::begin(kStepNames), std::end(kStepNames), [&](const StepName& step) {
        return name.is_string() && step.name == name.text();
      });
      if (known == std::end(kStepNames)) return wrong_value("samplers", name, kExpectedSteps);
      QINFER_TRY(add_step(known->letter, name, steps));
    }
  }
  if (steps.empty()) return wrong_value("samplers", *given, kExpectedSteps);
  return Status();
}

Status read_breakers(Fields& fields, Sampling& sampling) {
  const Json* given = fields.find("dry_sequence_breakers");
  if (given == nullptr) return Status();
  const auto wrong = [given] {
    return wrong_value("dry_sequence_breakers", *given,
                       format_text("an array of at most {} texts of 1 to {} bytes", kMaxBreakers, kMaxBreakerBytes));
  };
  if (!given->is_array() || given->size() > kMaxBreakers) return wrong();
  sampling.dry_breakers.emplace();
  for (const Json& text : *given) {
    if (!text.is_string() || text.text().empty() || text.text().size() > kMaxBreakerBytes) return wrong();
    sampling.dry_breakers->emplace_back(text.text());
  }
  return Status();
}

Status read_mirostat(Fields& fields, Sampling& sampling) {
  QINFER_ASSIGN(const auto version, fields.integer("mirostat", 0, 2));
  sampling.mirostat = static_cast<std::uint32_t>(version.value_or(0));
  if (sampling.mirostat == 1)
    return error(Code::unsupported, "request: \"mirostat\" 1 is not supported: 2 is its successor");
  return Status();
}

Status read_dry(Fields& fields, Sampling& sampling) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  QINFER_ASSIGN(const auto allowed, fields.integer("dry_allowed_length", 1, kMost));
  sampling.dry_allowed_length = static_cast<std::uint32_t>(allowed.value_or(0));
  QINFER_ASSIGN(const auto window, fields.integer("dry_penalty_last_n", -1, kMost));
  // 0 is a window of no tokens.
  if (window == 0) sampling.dry_multiplier = 0;
  sampling.dry_penalty_tokens = static_cast<std::uint32_t>(std::max<std::int64_t>(window.value_or(0), 0));
  return read_breakers(fields, sampling);
}

}  // namespace

Status read_more_sampling(Fields& fields, Sampling& sampling) {
  const auto take = [&](std::string_view key, double min, double max, double& into) -> Status {
    QINFER_ASSIGN(const std::optional<double> value, fields.number(key, min, max));
    into = std::max(value.value_or(into), 0.0);  // below 0: off
    return Status();
  };
  QINFER_TRY(take("typical_p", 0, 1, sampling.typical_p));
  QINFER_TRY(take("top_n_sigma", -1, 1e6, sampling.top_n_sigma));
  QINFER_TRY(take("dynatemp_range", 0, 100, sampling.dynatemp_range));
  QINFER_TRY(take("dynatemp_exponent", 1e-3, 1e3, sampling.dynatemp_exponent));
  QINFER_TRY(take("xtc_probability", 0, 1, sampling.xtc_probability));
  QINFER_TRY(take("xtc_threshold", 1e-6, 1, sampling.xtc_threshold));
  QINFER_TRY(take("dry_multiplier", 0, 1e6, sampling.dry_multiplier));
  QINFER_TRY(take("dry_base", 1, 1e6, sampling.dry_base));
  QINFER_TRY(take("mirostat_tau", 1e-3, 1000, sampling.mirostat_tau));
  QINFER_TRY(take("mirostat_eta", 1e-6, 1, sampling.mirostat_eta));
  QINFER_TRY(read_dry(fields, sampling));
  QINFER_TRY(read_mirostat(fields, sampling));
  return read_samplers(fields, sampling.steps);
}

}  // namespace qinfer::openai

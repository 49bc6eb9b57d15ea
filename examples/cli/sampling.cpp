// sampling.cpp: see sampling.h.
#include "sampling.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

#include "command_line.h"
#include "support.h"

namespace cli {
namespace {

constexpr double kMaxReal = 1000;  // of a temperature and of penalties
constexpr std::uint32_t kMaxTopK = 1u << 30;

/// What a file states under a key; nothing if that is no number that a sampler takes.
std::optional<double> number(const qi::Model& model, const char* key, double highest) {
  if (key == nullptr) return std::nullopt;
  const std::string text(model.meta(key).value_or(""));
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value < 0 ? 0 : std::min(value, highest);  // 0 is off; -1 is also found for that
}

/// The names of the numbers in one kind of file.
struct Keys {
  const char *temperature, *top_k, *top_p, *min_p, *repeat_penalty;
  const char *typical_p = nullptr, *xtc_probability = nullptr, *xtc_threshold = nullptr;  // null: there is none
  const char *mirostat = nullptr, *mirostat_tau = nullptr, *mirostat_eta = nullptr;
};
constexpr Keys kHuggingFace{
    "generation.temperature",        "generation.top_k",    "generation.top_p", "generation.min_p",
    "generation.repetition_penalty", "generation.typical_p"};
constexpr Keys kGguf{"gguf.general.sampling.temp",
                     "gguf.general.sampling.top_k",
                     "gguf.general.sampling.top_p",
                     "gguf.general.sampling.min_p",
                     "gguf.general.sampling.penalty_repeat",
                     nullptr,
                     "gguf.general.sampling.xtc_probability",
                     "gguf.general.sampling.xtc_threshold",
                     "gguf.general.sampling.mirostat",
                     "gguf.general.sampling.mirostat_tau",
                     "gguf.general.sampling.mirostat_eta"};

qinfer_sampler_options llama_cpp_defaults() {
  auto options = qi::options<qinfer_sampler_options>();
  options.temperature = 0.8f;
  options.top_k = 40;
  options.top_p = 0.95f;
  options.min_p = 0.05f;
  return options;
}

/// Those of a file that says do_sample.
qinfer_sampler_options transformers_defaults() {
  auto options = qi::options<qinfer_sampler_options>();
  options.temperature = 1;
  options.top_k = 50;
  return options;
}

/// Whether the file states one of the numbers that choose among tokens.
bool states_any(const qi::Model& model, const Keys& keys) {
  return number(model, keys.temperature, kMaxReal) || number(model, keys.top_k, kMaxTopK) ||
         number(model, keys.top_p, 1) || number(model, keys.min_p, 1) || number(model, keys.typical_p, 1) ||
         number(model, keys.xtc_probability, 1) || number(model, keys.mirostat, 2);
}

void take(const qi::Model& model, const Keys& keys, qinfer_sampler_options& options) {
  const auto take_one = [&](const char* key, double highest, float& value) {
    if (const auto stated = number(model, key, highest)) value = static_cast<float>(*stated);
  };
  take_one(keys.temperature, kMaxReal, options.temperature);
  take_one(keys.top_p, 1, options.top_p);
  take_one(keys.min_p, 1, options.min_p);
  take_one(keys.repeat_penalty, kMaxReal, options.repeat_penalty);
  take_one(keys.typical_p, 1, options.typical_p);
  take_one(keys.xtc_probability, 1, options.xtc_probability);
  take_one(keys.xtc_threshold, 1, options.xtc_threshold);
  take_one(keys.mirostat_tau, kMaxReal, options.mirostat_tau);
  take_one(keys.mirostat_eta, 1, options.mirostat_eta);
  if (number(model, keys.mirostat, kMaxReal) == 2) options.mirostat = 2;  // there is no other version
  if (const auto stated = number(model, keys.top_k, kMaxTopK)) options.top_k = static_cast<std::uint32_t>(*stated);
}

/// What only GGUF files state, as llama.cpp reads it.
void take_steps(const qi::Model& model, Sampling& sampling) {
  sampling.steps = known_steps(model.meta("gguf.general.sampling.sequence").value_or(""));
  const std::string window(model.meta("gguf.general.sampling.penalty_last_n").value_or("-1"));
  std::from_chars(window.data(), window.data() + window.size(), sampling.penalty_window);
  sampling.penalty_window = std::max(sampling.penalty_window, -1);
}

std::string short_number(double value) { return format("%g", value); }

}  // namespace

Sampling sampling_of(const qi::Model& model) {
  Sampling sampling;
  take_steps(model, sampling);
  if (states_any(model, kGguf)) {
    sampling.options = llama_cpp_defaults();
    sampling.origin = "as the GGUF file says";
    take(model, kGguf, sampling.options);
    return sampling;
  }
  const auto do_sample = model.meta("generation.do_sample");
  sampling.origin = "as generation_config.json says";
  if (do_sample == "false") {
    take(model, kHuggingFace, sampling.options);
    sampling.options.temperature = 0;
  } else if (do_sample == "true" || states_any(model, kHuggingFace)) {
    sampling.options = transformers_defaults();
    take(model, kHuggingFace, sampling.options);
  } else {
    sampling.options = llama_cpp_defaults();
    sampling.origin = "the model says nothing of it";
    take(model, kHuggingFace, sampling.options);  // a penalty
    take(model, kGguf, sampling.options);
  }
  return sampling;
}

std::string sampling_text(const qinfer_sampler_options& options) {
  std::string text = options.temperature == 0 ? "greedy" : "temperature " + short_number(options.temperature);
  const auto add = [&](const char* name, double value) {
    text += std::string(", ") + name + " " + short_number(value);
  };
  if (options.temperature != 0) {
    if (options.top_k != 0) add("top-k", options.top_k);
    if (options.top_p != 0) add("top-p", options.top_p);
    if (options.min_p != 0) add("min-p", options.min_p);
    if (options.typical_p != 0 && options.typical_p != 1) add("typical", options.typical_p);
    if (options.top_n_sigma > 0) add("top-nsigma", options.top_n_sigma);
    if (options.dynatemp_range != 0) add("dynatemp-range", options.dynatemp_range);
    if (options.xtc_probability != 0) add("xtc-probability", options.xtc_probability);
    if (options.mirostat != 0) add("mirostat", options.mirostat);
  }
  if (options.dry_multiplier != 0) add("dry-multiplier", options.dry_multiplier);
  if (options.repeat_penalty != 0 && options.repeat_penalty != 1) add("repeat penalty", options.repeat_penalty);
  if (options.frequency_penalty != 0) add("frequency penalty", options.frequency_penalty);
  if (options.presence_penalty != 0) add("presence penalty", options.presence_penalty);
  if (options.temperature != 0) text += ", seed " + std::to_string(options.seed);
  return text;
}

namespace {

void check(const std::string& reason) {
  if (!reason.empty()) throw Failure(reason);
}

void set_real(float& value, const std::string& text, double lowest, double highest) {
  check(check_real_number(text, lowest, highest));
  std::from_chars(text.data(), text.data() + text.size(), value);
}

/// -1: all tokens.
void set_window(std::int32_t& value, const std::string& text) {
  if (text != "-1") check(check_whole_number(text, 0, 1u << 30));
  std::from_chars(text.data(), text.data() + text.size(), value);
}

template <typename Integer>
void set_integer(Integer& value, const std::string& text, std::uint64_t highest) {
  check(check_whole_number(text, 0, highest));
  std::from_chars(text.data(), text.data() + text.size(), value);
}

struct Setting {
  const char *name, *also, *what;
  void (*set)(ConversationOptions& options, const std::string& value);
  std::string (*get)(const ConversationOptions& options);
};

using Conv = ConversationOptions;
using Text = std::string;

const Setting kSettings[] = {
    {"temp", "temperature", "0 is greedy: always the likeliest token",
     [](Conv& c, const Text& v) { set_real(c.sampler.temperature, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.temperature); }},
    {"top-k", "", "keep the K likeliest tokens (0 = off)",
     [](Conv& c, const Text& v) { set_integer(c.sampler.top_k, v, kMaxTopK); },
     [](const Conv& c) { return std::to_string(c.sampler.top_k); }},
    {"top-p", "", "the likeliest that have this probability together",
     [](Conv& c, const Text& v) { set_real(c.sampler.top_p, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.top_p); }},
    {"min-p", "", "drop those below this share of the likeliest",
     [](Conv& c, const Text& v) { set_real(c.sampler.min_p, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.min_p); }},
    {"typical", "typical-p", "the most typical of this probability together",
     [](Conv& c, const Text& v) { set_real(c.sampler.typical_p, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.typical_p); }},
    {"top-nsigma", "top-n-sigma", "keep those so many deviations from the best logit",
     [](Conv& c, const Text& v) { set_real(c.sampler.top_n_sigma, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.top_n_sigma); }},
    {"dynatemp-range", "", "temperature less and plus this, by the entropy",
     [](Conv& c, const Text& v) { set_real(c.sampler.dynatemp_range, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.dynatemp_range); }},
    {"dynatemp-exp", "dynatemp-exponent", "exponent of that",
     [](Conv& c, const Text& v) { set_real(c.sampler.dynatemp_exponent, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.dynatemp_exponent == 0 ? 1 : c.sampler.dynatemp_exponent); }},
    {"xtc-probability", "", "chance that the likeliest are excluded (0 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.xtc_probability, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.xtc_probability); }},
    {"xtc-threshold", "", "probability from which they are",
     [](Conv& c, const Text& v) { set_real(c.sampler.xtc_threshold, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.xtc_threshold == 0 ? 0.1 : c.sampler.xtc_threshold); }},
    {"dry-multiplier", "", "penalty for going on with a repetition (0 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.dry_multiplier, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.dry_multiplier); }},
    {"dry-base", "", "its growth with each token of the repetition",
     [](Conv& c, const Text& v) { set_real(c.sampler.dry_base, v, 1, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.dry_base == 0 ? 1.75 : c.sampler.dry_base); }},
    {"dry-allowed-length", "", "shorter repetitions cost nothing",
     [](Conv& c, const Text& v) { set_integer(c.sampler.dry_allowed_length, v, 1u << 30); },
     [](const Conv& c) {
       return std::to_string(c.sampler.dry_allowed_length == 0 ? 2 : c.sampler.dry_allowed_length);
     }},
    {"dry-penalty-last-n", "", "how far back DRY looks (-1 = all, 0 = off)",
     [](Conv& c, const Text& v) { set_window(c.sampler_texts.dry_window, v); },
     [](const Conv& c) { return std::to_string(c.sampler_texts.dry_window); }},
    {"dry-sequence-breaker", "", "one more text that ends repetitions; none, default",
     [](Conv& c, const Text& v) { add_breaker(c.sampler_texts, v); },
     [](const Conv& c) { return breakers_text(c.sampler_texts); }},
    {"mirostat", "", "2: mirostat 2 in place of the filters (0 = off)",
     [](Conv& c, const Text& v) {
       check(check_one_of(v, {"0", "2"}));
       c.sampler.mirostat = v == "2" ? 2 : 0;
     },
     [](const Conv& c) { return std::to_string(c.sampler.mirostat); }},
    {"mirostat-lr", "mirostat-eta", "its learning rate",
     [](Conv& c, const Text& v) { set_real(c.sampler.mirostat_eta, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.mirostat_eta == 0 ? 0.1 : c.sampler.mirostat_eta); }},
    {"mirostat-ent", "mirostat-tau", "its target of surprise, in bits",
     [](Conv& c, const Text& v) { set_real(c.sampler.mirostat_tau, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.mirostat_tau == 0 ? 5 : c.sampler.mirostat_tau); }},
    {"samplers", "", "steps in order, with ; between them; default",
     [](Conv& c, const Text& v) { c.sampler_texts.steps = v == "default" ? "" : step_letters(v); },
     [](const Conv& c) { return c.sampler_texts.steps.empty() ? Text("default") : step_names(c.sampler_texts.steps); }},
    {"repeat-last-n", "", "how far back penalties look (-1 = all, 0 = off)",
     [](Conv& c, const Text& v) { set_window(c.sampler_texts.penalty_window, v); },
     [](const Conv& c) { return std::to_string(c.sampler_texts.penalty_window); }},
    {"repeat-penalty", "", "divide the logits of past tokens (1 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.repeat_penalty, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.repeat_penalty == 0 ? 1 : c.sampler.repeat_penalty); }},
    {"frequency-penalty", "", "subtracted for each time that a token occurred",
     [](Conv& c, const Text& v) { set_real(c.sampler.frequency_penalty, v, -kMaxReal, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.frequency_penalty); }},
    {"presence-penalty", "", "subtracted if a token occurred",
     [](Conv& c, const Text& v) { set_real(c.sampler.presence_penalty, v, -kMaxReal, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.presence_penalty); }},
    {"seed", "", "equal seeds give equal texts; /retry adds 1",
     [](Conv& c, const Text& v) { set_integer(c.sampler.seed, v, UINT64_MAX); },
     [](const Conv& c) { return std::to_string(c.sampler.seed); }},
    {"max-tokens", "num-predict", "of an answer at most (0 = until it ends)",
     [](Conv& c, const Text& v) { set_integer(c.max_tokens, v, 1u << 30); },
     [](const Conv& c) { return std::to_string(c.max_tokens); }},
    {"max-think", "", "tokens of reasoning at most (0 = no bound)",
     [](Conv& c, const Text& v) { set_integer(c.max_reasoning, v, 1u << 30); },
     [](const Conv& c) { return std::to_string(c.max_reasoning); }},
    {"overflow", "", "when the context is full: stop or drop-oldest",
     [](Conv& c, const Text& v) {
       check(check_one_of(v, {"stop", "drop-oldest"}));
       c.drops_oldest = v == "drop-oldest";
     },
     [](const Conv& c) { return Text(c.drops_oldest ? "drop-oldest" : "stop"); }},
};

}  // namespace

void set_by_name(ConversationOptions& options, const std::string& name, const std::string& value) {
  std::string wanted = name;
  std::replace(wanted.begin(), wanted.end(), '_', '-');
  for (const Setting& setting : kSettings) {
    if (wanted != setting.name && wanted != setting.also) continue;
    try {
      setting.set(options, value);
    } catch (const Failure& failure) {
      throw Failure(std::string(setting.name) + ": " + failure.what());
    }
    return;
  }
  throw Failure("there is no setting " + json_string(name) + suggestion(wanted, setting_names()) +
                " (/set alone names them all)");
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : kSettings) names.emplace_back(setting.name);
  return names;
}

std::string settings_text(const ConversationOptions& options) {
  std::string text;
  for (const Setting& setting : kSettings)
    text += format("%-20s %-7s %s\n", setting.name, setting.get(options).c_str(), setting.what);
  return text;
}

}  // namespace cli

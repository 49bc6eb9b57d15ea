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
std::optional<double> number(const qi::Model& model, const std::string& key, double highest) {
  const std::string text(model.meta(key).value_or(""));
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value < 0 ? 0 : std::min(value, highest);  // 0 is off; -1 is also found for that
}

/// The names of the numbers in one kind of file.
struct Keys {
  const char *temperature, *top_k, *top_p, *min_p, *repeat_penalty;
};
constexpr Keys kHuggingFace{"generation.temperature", "generation.top_k", "generation.top_p", "generation.min_p",
                            "generation.repetition_penalty"};
constexpr Keys kGguf{"gguf.general.sampling.temp", "gguf.general.sampling.top_k", "gguf.general.sampling.top_p",
                     "gguf.general.sampling.min_p", "gguf.general.sampling.penalty_repeat"};

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
         number(model, keys.top_p, 1) || number(model, keys.min_p, 1);
}

void take(const qi::Model& model, const Keys& keys, qinfer_sampler_options& options) {
  const auto take_one = [&](const char* key, double highest, float& value) {
    if (const auto stated = number(model, key, highest)) value = static_cast<float>(*stated);
  };
  take_one(keys.temperature, kMaxReal, options.temperature);
  take_one(keys.top_p, 1, options.top_p);
  take_one(keys.min_p, 1, options.min_p);
  take_one(keys.repeat_penalty, kMaxReal, options.repeat_penalty);
  if (const auto stated = number(model, keys.top_k, kMaxTopK)) options.top_k = static_cast<std::uint32_t>(*stated);
}

std::string short_number(double value) { return format("%g", value); }

}  // namespace

Sampling sampling_of(const qi::Model& model) {
  Sampling sampling;
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
  }
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
    {"top-p", "", "keep the likeliest that together reach this probability (0 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.top_p, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.top_p); }},
    {"min-p", "", "drop tokens less likely than this share of the likeliest (0 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.min_p, v, 0, 1); },
     [](const Conv& c) { return short_number(c.sampler.min_p); }},
    {"repeat-penalty", "", "divide the logits of tokens that occurred (1 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.repeat_penalty, v, 0, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.repeat_penalty == 0 ? 1 : c.sampler.repeat_penalty); }},
    {"frequency-penalty", "", "subtracted for each time that a token occurred (0 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.frequency_penalty, v, -kMaxReal, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.frequency_penalty); }},
    {"presence-penalty", "", "subtracted if a token occurred (0 = off)",
     [](Conv& c, const Text& v) { set_real(c.sampler.presence_penalty, v, -kMaxReal, kMaxReal); },
     [](const Conv& c) { return short_number(c.sampler.presence_penalty); }},
    {"seed", "", "equal seeds give equal texts; /retry adds 1",
     [](Conv& c, const Text& v) { set_integer(c.sampler.seed, v, UINT64_MAX); },
     [](const Conv& c) { return std::to_string(c.sampler.seed); }},
    {"max-tokens", "num-predict", "of an answer at most (0 = until it ends)",
     [](Conv& c, const Text& v) { set_integer(c.max_tokens, v, 1u << 30); },
     [](const Conv& c) { return std::to_string(c.max_tokens); }},
    {"max-think", "", "tokens of reasoning at most; then the answer begins (0 = no bound)",
     [](Conv& c, const Text& v) { set_integer(c.max_reasoning, v, 1u << 30); },
     [](const Conv& c) { return std::to_string(c.max_reasoning); }},
    {"overflow", "", "when the context is full: stop, or drop-oldest turns",
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
    text += format("%-17s  %-11s  %s\n", setting.name, setting.get(options).c_str(), setting.what);
  return text;
}

}  // namespace cli

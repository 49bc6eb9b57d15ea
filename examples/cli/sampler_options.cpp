// sampler_options.cpp: see sampler_options.h.
#include "sampler_options.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "support.h"

namespace cli {
namespace {

constexpr std::size_t kMaxBreakers = 16, kMaxBreaker = 40;  // of qinfer_session_set_dry_breakers

struct Step {
  std::string_view name;
  char letter;  ///< of qinfer_sampler_options.steps
};
constexpr Step kSteps[] = {
    {"penalties", 'e'}, {"dry", 'd'},   {"temperature", 't'}, {"top_n_sigma", 's'}, {"top_k", 'k'},
    {"typ_p", 'y'},     {"top_p", 'p'}, {"min_p", 'm'},       {"xtc", 'x'},
};

bool are_none(const SamplerTexts& texts) { return texts.breakers.size() == 1 && texts.breakers[0] == "none"; }

/// As llama.cpp reads it: \n, \t and \\ in it stand for a line feed, a tab and a backslash.
std::string unescaped(const std::string& typed) {
  std::string text;
  for (std::size_t i = 0; i < typed.size(); ++i) {
    const char next = typed[i] == '\\' && i + 1 < typed.size() ? typed[i + 1] : '\0';
    const bool is_escape = next == 'n' || next == 't' || next == '\\';
    text += !is_escape ? typed[i] : next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
    if (is_escape) ++i;
  }
  return text;
}

/// As a session takes them.
std::vector<std::string> breakers_of(const SamplerTexts& texts) {
  if (texts.breakers.empty()) return {"\n", ":", "\"", "*"};  // those of a session that was given none
  std::vector<std::string> breakers;
  if (are_none(texts)) return breakers;
  for (const std::string& typed : texts.breakers) breakers.push_back(unescaped(typed));
  return breakers;
}

/// Of the option.
std::string letters_of(const std::string& names) {
  try {
    return step_letters(names);
  } catch (const Failure& failure) {
    throw UsageError(std::string("--samplers: ") + failure.what());
  }
}

}  // namespace

std::string step_letters(const std::string& names) {
  std::string letters;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(';', begin), names.size());
    std::string name = names.substr(begin, end - begin);
    std::replace(name.begin(), name.end(), '-', '_');
    const auto known =
        std::find_if(std::begin(kSteps), std::end(kSteps), [&](const Step& s) { return s.name == name; });
    if (known == std::end(kSteps))
      throw Failure(json_string(name) +
                    " is not one of penalties, dry, temperature, top_n_sigma, top_k, typ_p, top_p, min_p and xtc");
    if (letters.find(known->letter) != std::string::npos) throw Failure(name + " is there twice");
    letters.push_back(known->letter);
    begin = end + 1;
  }
  return letters;
}

std::string known_steps(std::string_view letters) {
  std::string known;
  for (const Step& step : kSteps) known += step.letter;
  std::string kept;
  for (const char letter : letters)
    if (known.find(letter) != known.npos && kept.find(letter) == kept.npos) kept += letter;
  return kept;
}

std::string step_names(const std::string& letters) {
  std::string names;
  for (const char letter : letters)
    for (const Step& step : kSteps)
      if (step.letter == letter) names += (names.empty() ? "" : ";") + std::string(step.name);
  return names;
}

void add_more_sampler_args(Options& options, qinfer_sampler_options& sampler, SamplerTexts& texts) {
  const auto real = [&](const char* name, float& value, double lowest, double highest, const char* help) {
    options.add(name, value, help).real_number(lowest, highest).type_name("X");
  };
  const auto whole = [&](const char* name, std::uint32_t& value, std::uint64_t highest, const char* help) {
    options.add(name, value, help).whole_number(0, highest).type_name("N");
  };
  options.add("--repeat-last-n", texts.penalty_window, "How far back penalties look (default -1: all; 0 = off)")
      .real_number(-1, 1u << 30)
      .type_name("N");
  real("--typical", sampler.typical_p, 0, 1, "Keep the most typical tokens that together reach this probability");
  real("--top-nsigma", sampler.top_n_sigma, -1, 1000, "Keep tokens within X standard deviations of the best logit");
  real("--dynatemp-range", sampler.dynatemp_range, 0, 1000, "Temperature less and plus X, by the entropy (0 = off)");
  real("--dynatemp-exp", sampler.dynatemp_exponent, 0, 1000, "Exponent of that (default 1)");
  real("--xtc-probability", sampler.xtc_probability, 0, 1, "Chance that the likeliest choices are excluded (0 = off)");
  real("--xtc-threshold", sampler.xtc_threshold, 0, 1, "Probability from which they are (default 0.1)");
  real("--dry-multiplier", sampler.dry_multiplier, 0, 1000, "Penalty for going on with a repetition (0 = off)");
  real("--dry-base", sampler.dry_base, 1, 1000, "Its growth with each token of the repetition (default 1.75)");
  whole("--dry-allowed-length", sampler.dry_allowed_length, 1u << 30, "Shorter repetitions cost nothing (default 2)");
  options.add("--dry-penalty-last-n", texts.dry_window, "How far back DRY looks (default -1: all; 0 = off)")
      .real_number(-1, 1u << 30)
      .type_name("N");
  options
      .add("--dry-sequence-breaker", texts.breakers,
           "Text that no repetition reaches over, with \\n for a line feed and \\t for a tab; may be repeated, and "
           "takes the place of the default ones (line feed, colon, double quote, asterisk); none = no text")
      .one_value()
      .type_name("TEXT");
  whole("--mirostat", sampler.mirostat, 2, "2: mirostat 2 in place of the filters (default 0)");
  real("--mirostat-lr", sampler.mirostat_eta, 0, 1, "Its learning rate, eta (default 0.1)");
  real("--mirostat-ent", sampler.mirostat_tau, 0, 1000, "Its target of surprise in bits, tau (default 5)");
  options
      .add("--samplers", texts.steps,
           "Steps in their order, with ; between them (default "
           "penalties;dry;temperature;top_n_sigma;top_k;typ_p;top_p;min_p;xtc)")
      .replaced_by(letters_of)
      .type_name("NAMES");
}

void add_breaker(SamplerTexts& texts, const std::string& typed) {
  if (typed == "default") return texts.breakers.clear();
  if (are_none(texts) || typed == "none") texts.breakers.clear();
  if (unescaped(typed).size() > kMaxBreaker)
    throw Failure("it has " + std::to_string(unescaped(typed).size()) + " bytes, at most " +
                  std::to_string(kMaxBreaker) + " are taken");
  if (texts.breakers.size() == kMaxBreakers)
    throw Failure("there are " + std::to_string(kMaxBreakers) + " already, and no more are taken; default or none");
  texts.breakers.push_back(typed);
}

std::string breakers_text(const SamplerTexts& texts) {
  if (texts.breakers.empty()) return "default";
  if (are_none(texts)) return "none";
  std::string all;
  for (const std::string& typed : texts.breakers) all += (all.empty() ? "\"" : " \"") + typed + "\"";
  return all;
}

void set_sampler(qi::Session& session, qinfer_sampler_options sampler, const SamplerTexts& texts) {
  std::copy(texts.steps.begin(), texts.steps.end(), sampler.steps);
  sampler.top_n_sigma = std::max(sampler.top_n_sigma, 0.0F);
  if (texts.penalty_window == 0) sampler.repeat_penalty = sampler.frequency_penalty = sampler.presence_penalty = 0;
  sampler.penalty_tokens = static_cast<std::uint32_t>(std::max(texts.penalty_window, 0));
  if (texts.dry_window == 0) sampler.dry_multiplier = 0;
  sampler.dry_penalty_tokens = static_cast<std::uint32_t>(std::max(texts.dry_window, 0));
  if (!texts.breakers.empty() || sampler.dry_multiplier > 0) session.set_dry_breakers(breakers_of(texts));
  session.set_sampler(sampler);
}

}  // namespace cli

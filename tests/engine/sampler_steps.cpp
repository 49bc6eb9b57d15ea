// The steps of the sampler that fixtures/sampler_steps.json has: probabilities, mirostat's numbers and DRY's penalties
// of an independent program (fixtures/make_sampler_steps.py), and hostile options.
//
// Every draw is fixed by its seed and position, so a test that passes once passes always.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/math_f64.h"
#include "sampling/sampler.h"
#include "support/catch.h"

namespace {

using nlohmann::json;
using qinfer::Code;
using qinfer::sampling::DryBreakers;
using qinfer::sampling::SamplerOptions;
using qinfer::sampling::SamplerState;
using qinfer::sampling::SamplerWorkspace;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_f32 = std::numeric_limits<float>::quiet_NaN();
constexpr float largest_f32 = std::numeric_limits<float>::max();

/// Working memory full of what an earlier call could have left there.
struct Memory {
  std::vector<float> logits;
  std::vector<std::uint32_t> ids, counts, repeats;
  Memory(std::size_t n_vocab, std::size_t n_history)
      : logits(n_vocab, nan_f32), ids(n_vocab, ~0u), counts(n_vocab, 0), repeats(n_history, ~0u) {}
  SamplerWorkspace workspace() { return {logits, ids, counts, repeats}; }
  bool counts_zero() const {
    return std::all_of(counts.begin(), counts.end(), [](auto c) { return c == 0; });
  }
};

SamplerOptions options_of(const json& from) {
  SamplerOptions o;
  o.temperature = 1;
  const auto take = [&](const char* name, auto& into) {
    if (from.contains(name)) from.at(name).get_to(into);
  };
  take("temperature", o.temperature), take("top_k", o.top_k), take("top_p", o.top_p), take("min_p", o.min_p);
  take("repeat_penalty", o.repeat_penalty), take("frequency_penalty", o.frequency_penalty);
  take("presence_penalty", o.presence_penalty), take("typical_p", o.typical_p), take("top_n_sigma", o.top_n_sigma);
  take("dynatemp_range", o.dynatemp_range), take("dynatemp_exponent", o.dynatemp_exponent);
  take("xtc_probability", o.xtc_probability), take("xtc_threshold", o.xtc_threshold);
  take("dry_multiplier", o.dry_multiplier), take("dry_base", o.dry_base);
  take("dry_allowed_length", o.dry_allowed_length), take("dry_penalty_tokens", o.dry_penalty_tokens);
  take("mirostat", o.mirostat), take("mirostat_tau", o.mirostat_tau), take("mirostat_eta", o.mirostat_eta);
  if (from.contains("steps")) {
    const auto steps = from.at("steps").get<std::string>();
    std::copy(steps.begin(), steps.end(), o.steps.begin());
  }
  return o;
}

const json& fixture() {
  static const json all = json::parse(std::ifstream(QINFER_TEST_FIXTURES "/sampler_steps.json"));
  return all;
}

/// Where the share of each token ends in [0, 1), in the order of ids.
std::vector<double> ends_of(const std::vector<double>& probabilities) {
  std::vector<double> ends(probabilities.size());
  std::partial_sum(probabilities.begin(), probabilities.end(), ends.begin());
  return ends;
}

/// By how much chi^2 is above its limit. Laurent and Massart (2000): chi^2 of d degrees exceeds d + 2 sqrt(d x) + 2x
/// with a probability of at most e^-x. Tokens with less than 5 draws expected are taken together.
double excess(const std::vector<double>& expected, const std::vector<int>& counts, double x) {
  double chi = 0, few_expected = 0, few = 0, degrees = -1;
  const auto add = [&](double wanted, double got) {
    chi += (got - wanted) * (got - wanted) / wanted;
    ++degrees;
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] >= 5)
      add(expected[i], counts[i]);
    else
      few_expected += expected[i], few += counts[i];
  }
  if (few_expected >= 1) add(few_expected, few);
  degrees = std::max(degrees, 0.0);
  return chi - (degrees + 2 * std::sqrt(degrees * x) + 2 * x);
}

/// What the draws of one case did.
struct Drawn {
  std::vector<int> counts;
  int errors = 0, misplaced = 0, bounds_wrong = 0;
};

Drawn draw_case(const json& c, const SamplerOptions& base) {
  const auto logits = c.at("logits").get<std::vector<float>>();
  const auto history = c.at("history").get<std::vector<std::int32_t>>();
  const std::vector<double> plain = ends_of(c.at("probabilities"));
  const std::vector<double> excluded = c.contains("excluded") ? ends_of(c.at("excluded")) : plain;
  const std::vector<double> mu_after = c.value("mu_after", std::vector<double>());
  // The ends of the shares may be off by the rounding of float32: each operation on a logit below 16 rounds by at most
  // 2^-21, ten of them make 5e-6, a temperature of 0.3 makes that 2e-5, and the relative error of a share is at most
  // twice that.
  const double edge = 4e-5;
  Memory memory(logits.size(), history.size());
  Drawn drawn{std::vector<int>(logits.size())};
  const int n_draws = c.at("draws");
  for (int i = 0; i < n_draws; ++i) {
    SamplerOptions options = base;
    options.seed = 77000 + static_cast<std::uint64_t>(i);
    SamplerState state{nullptr, c.value("mu", 0.0F)};
    auto result = qinfer::sampling::sample(logits, history, options, {}, memory.workspace(), state);
    if (!result.ok()) {
      ++drawn.errors;
      continue;
    }
    const auto token = static_cast<std::size_t>(result.value());
    ++drawn.counts[token];
    const bool excludes = qinfer::sampling::second_uniform(options.seed, history.size()) < options.xtc_probability;
    const std::vector<double>& ends = excludes ? excluded : plain;
    const double u = qinfer::sampling::uniform(options.seed, history.size());
    if (u < (token == 0 ? 0 : ends[token - 1]) - edge || u > ends[token] + edge) ++drawn.misplaced;
    // mu moves by eta, at most 1, times the surprise, whose absolute error is that of the logits, in bits.
    if (!mu_after.empty() && !(std::abs(state.mu - mu_after[token]) < 1e-4)) ++drawn.bounds_wrong;
  }
  if (!memory.counts_zero()) ++drawn.errors;
  return drawn;
}

}  // namespace

TEST_CASE("sampler steps: draws are those of the definitions", "[sampler]") {
  const json& cases = fixture().at("steps");
  REQUIRE(cases.size() > 100);
  const double x = std::log(static_cast<double>(cases.size()) / 1e-7);
  for (const json& c : cases) {
    INFO(c.at("name"));
    const SamplerOptions options = options_of(c.at("options"));
    REQUIRE(qinfer::sampling::check_options(options).ok());
    const Drawn drawn = draw_case(c, options);
    CHECK(drawn.errors == 0);
    CHECK(drawn.misplaced == 0);
    CHECK(drawn.bounds_wrong == 0);
    const auto plain = c.at("probabilities").get<std::vector<double>>();
    const auto excluded = c.contains("excluded") ? c.at("excluded").get<std::vector<double>>() : plain;
    std::vector<double> expected(plain.size());
    int removed_but_drawn = 0;
    for (std::size_t t = 0; t < plain.size(); ++t) {
      const double chance = c.contains("excluded") ? options.xtc_probability : 0;
      expected[t] = c.at("draws").get<double>() * ((1 - chance) * plain[t] + chance * excluded[t]);
      if (expected[t] == 0) removed_but_drawn += drawn.counts[t];
    }
    CHECK(removed_but_drawn == 0);
    CHECK(excess(expected, drawn.counts, x) <= 0);
  }
}

TEST_CASE("sampler steps: DRY's penalties are those of its definition", "[sampler]") {
  const json& cases = fixture().at("dry");
  REQUIRE(cases.size() == 400);
  const auto bytes_of = [](const json& list) {
    std::vector<std::string> texts;
    for (const json& hex : list) {
      std::string& text = texts.emplace_back();
      const auto digits = hex.get<std::string>();
      for (std::size_t i = 0; i < digits.size(); i += 2)
        text.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    }
    return texts;
  };
  for (const json& c : cases) {
    INFO(c.at("name"));
    const std::vector<std::string> texts = bytes_of(c.at("texts")), breakers = bytes_of(c.at("breakers"));
    const DryBreakers found(breakers, static_cast<std::uint32_t>(texts.size()),
                            [&](std::int32_t t) { return std::string_view(texts[static_cast<std::size_t>(t)]); });
    const auto history = c.at("history").get<std::vector<std::int32_t>>();
    const auto after = c.at("after").get<std::vector<double>>();
    Memory memory(texts.size(), history.size());
    memory.logits = c.at("logits").get<std::vector<float>>();
    qinfer::sampling::apply_dry(options_of(c.at("options")), history, breakers.empty() ? nullptr : &found,
                                memory.workspace());
    CHECK(memory.counts_zero());
    for (std::size_t t = 0; t < texts.size(); ++t) {
      // One rounding to float32, after a power in double that is off by some 2^-52.
      const double rounding = 0x1p-24 * std::abs(after[t]) + 1e-12 * std::abs(after[t]);
      INFO("token " << t);
      CHECK(std::abs(memory.logits[t] - after[t]) <= rounding);
    }
  }
}

TEST_CASE("sampler steps: a long repetition loses no more than float32 has", "[sampler]") {
  const std::vector<std::int32_t> history(5000, 1);
  Memory memory(3, history.size());
  memory.logits = {1, 2, -inf};
  SamplerOptions options;
  options.dry_multiplier = largest_f32;
  options.dry_base = largest_f32;
  qinfer::sampling::apply_dry(options, history, nullptr, memory.workspace());
  CHECK(memory.logits == std::vector<float>{1, -largest_f32, -inf});
  // A banned token stays banned, and a draw goes on with what is left.
  SamplerState state;
  options.temperature = 1;
  const std::vector<qinfer::sampling::Bias> ban{{2, -inf}};
  const std::vector<float> logits{1, 2, 3};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    options.seed = seed;
    auto drawn = qinfer::sampling::sample(logits, history, options, ban, memory.workspace(), state);
    REQUIRE(drawn.ok());
    CHECK(drawn.value() == 0);
  }
}

TEST_CASE("sampler steps: breakers are found where they end", "[sampler]") {
  const std::vector<std::string> texts{"a", "b\nc", "xy", "z", "", "yz"};
  const DryBreakers breakers({"\n", "xyz"}, 6,
                             [&](std::int32_t t) { return std::string_view(texts[static_cast<std::size_t>(t)]); });
  CHECK(breakers.contains(1));
  for (const std::int32_t t : {0, 2, 3, 4, 5}) CHECK_FALSE(breakers.contains(t));
  const auto after = [&](std::vector<std::int32_t> history, std::size_t most) {
    return breakers.tokens_after(history, most);
  };
  CHECK(after({0, 1, 0, 0}, 10) == 2);
  CHECK(after({0, 1, 0, 0}, 1) == 1);
  CHECK(after({0, 2, 3, 0}, 10) == 1);      // xy z
  CHECK(after({0, 2, 4, 4, 3}, 10) == 0);   // xy "" "" z
  CHECK(after({0, 2, 5, 0, 0}, 10) == 10);  // xy yz
  CHECK(after({3, 0, 0}, 10) == 10);        // the xy before is not there
  CHECK(after({}, 10) == 10);
}

TEST_CASE("sampler steps: check_options names what is out of range", "[sampler]") {
  struct Member {
    std::string name;
    float SamplerOptions::*member;
    std::vector<float> bad;
  };
  const std::vector<Member> members{
      {"typical_p", &SamplerOptions::typical_p, {-0.1f, 1.0000001f, inf, -inf, nan_f32}},
      {"top_n_sigma", &SamplerOptions::top_n_sigma, {-1, inf, -inf, nan_f32}},
      {"dynatemp_range", &SamplerOptions::dynatemp_range, {-1e-45f, inf, -inf, nan_f32}},
      {"dynatemp_exponent", &SamplerOptions::dynatemp_exponent, {-1, inf, nan_f32}},
      {"xtc_probability", &SamplerOptions::xtc_probability, {-0.1f, 1.1f, inf, nan_f32}},
      {"xtc_threshold", &SamplerOptions::xtc_threshold, {-0.1f, 1.1f, inf, nan_f32}},
      {"dry_multiplier", &SamplerOptions::dry_multiplier, {-0.1f, inf, -inf, nan_f32}},
      {"dry_base", &SamplerOptions::dry_base, {-1, 0.999f, 1e-45f, inf, nan_f32}},
      {"mirostat_tau", &SamplerOptions::mirostat_tau, {-1, 1001, inf, nan_f32}},
      {"mirostat_eta", &SamplerOptions::mirostat_eta, {-0.1f, 1.1f, inf, nan_f32}},
  };
  const auto refuses = [](const SamplerOptions& options, std::string_view begin) {
    const qinfer::Status status = qinfer::sampling::check_options(options);
    INFO(status.message());
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().substr(0, begin.size()) == begin);
  };
  for (const Member& m : members)
    for (const float value : m.bad) {
      SamplerOptions options;
      options.*m.member = value;
      refuses(options, m.name + " is ");
    }
  SamplerOptions options;
  options.temperature = options.dynatemp_range = largest_f32;
  refuses(options, "dynatemp_range is ");
  for (const std::uint32_t version : {1u, 3u, ~0u}) {
    options = {};
    options.mirostat = version;
    refuses(options, "mirostat is ");
  }
  const auto steps = [](std::string_view text) {
    SamplerOptions made;
    std::copy(text.begin(), text.end(), made.steps.begin());
    return made;
  };
  CHECK(qinfer::sampling::check_options(steps("edskypmxt")).ok());
  CHECK(qinfer::sampling::check_options(steps("t")).ok());
  refuses(steps("tk;p"), "steps has the byte 0x3b at index 2");
  refuses(steps("tK"), "steps has the byte 0x4b");
  refuses(steps("\xff"), "steps has the byte 0xff");
  refuses(steps("tkpt"), "steps has the letter t twice");
  refuses(steps("tttttttttttttttttttt"), "steps has no NUL");
}

TEST_CASE("sampler steps: extreme numbers draw some token", "[sampler]") {
  std::mt19937 random(5);
  const float extremes[] = {0, 1e-45f, 1e-38f, 1e-7f, 0.5f, 1, 2, 1e7f, 1e38f, largest_f32};
  const auto any = [&](float most) { return std::min(extremes[random() % std::size(extremes)], most); };
  const std::string letters(qinfer::sampling::kDefaultSteps);
  int failed = 0, bad_bounds = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t n_vocab = 1 + random() % 30;
    std::vector<float> logits(n_vocab);
    for (float& logit : logits) logit = (random() % 2 == 0 ? 1 : -1) * any(largest_f32);
    std::vector<std::int32_t> history(random() % 40);
    for (std::int32_t& token : history) token = static_cast<std::int32_t>(random() % std::min<std::size_t>(n_vocab, 3));
    SamplerOptions o;
    o.temperature = any(1e38f), o.dynatemp_range = any(1e38f), o.dynatemp_exponent = any(largest_f32);
    o.top_k = static_cast<std::uint32_t>(random() % 5), o.top_p = any(1), o.min_p = any(1), o.typical_p = any(1);
    o.top_n_sigma = any(largest_f32), o.xtc_probability = any(1), o.xtc_threshold = any(1);
    o.dry_multiplier = any(largest_f32), o.dry_base = std::max(any(largest_f32), 1.0F);
    o.repeat_penalty = any(largest_f32), o.frequency_penalty = any(largest_f32);
    o.mirostat = random() % 3 == 0 ? 2 : 0, o.mirostat_tau = any(1000), o.mirostat_eta = any(1);
    o.seed = random();
    std::string steps = letters;
    std::shuffle(steps.begin(), steps.end(), random);
    steps.resize(random() % (steps.size() + 1));
    std::copy(steps.begin(), steps.end(), o.steps.begin());
    REQUIRE(qinfer::sampling::check_options(o).ok());
    Memory memory(n_vocab, history.size());
    SamplerState state{nullptr, (random() % 2 == 0 ? 1 : -1) * any(largest_f32)};
    auto drawn = qinfer::sampling::sample(logits, history, o, {}, memory.workspace(), state);
    failed += !drawn.ok() || drawn.value() < 0 || static_cast<std::size_t>(drawn.value()) >= n_vocab;
    bad_bounds += !std::isfinite(state.mu) || !memory.counts_zero();
  }
  CHECK(failed == 0);
  CHECK(bad_bounds == 0);
}

TEST_CASE("sampler steps: draws are the same on every CPU and compiler", "[sampler]") {
  // Sums, powers and logarithms of the sampler are its own, so this number, FNV-1a over 20,000 draws, stays.
  std::uint64_t hash = 0xcbf29ce484222325;
  std::uint64_t seed = 1;
  const auto next = [&] { return seed = seed * 6364136223846793005u + 1442695040888963407u; };
  std::vector<float> logits(300);
  std::vector<std::int32_t> history(64);
  Memory memory(logits.size(), history.size());
  SamplerState state{nullptr, 10};
  for (int i = 0; i < 20000; ++i) {
    if (i % 50 == 0) {
      for (float& logit : logits) logit = static_cast<float>(static_cast<std::int64_t>(next()) >> 40) * 0x1p-20F;
      for (std::int32_t& token : history) token = static_cast<std::int32_t>(next() >> 60);
    }
    SamplerOptions o;
    o.temperature = 0.9F, o.seed = static_cast<std::uint64_t>(i);
    if (i % 7 == 0) o.typical_p = 0.9F;
    if (i % 7 == 1) o.top_n_sigma = 1.5F;
    if (i % 7 == 2) o.dynatemp_range = 0.6F, o.dynatemp_exponent = 1.3F;
    if (i % 7 == 3) o.xtc_probability = 0.5F, o.xtc_threshold = 0.02F;
    if (i % 7 == 4) o.dry_multiplier = 0.7F;
    if (i % 7 == 5) o.mirostat = 2;
    if (i % 7 == 6) o.top_p = 0.9F, o.top_k = 40, o.min_p = 0.01F, o.repeat_penalty = 1.1F;
    auto drawn = qinfer::sampling::sample(logits, history, o, {}, memory.workspace(), state);
    REQUIRE(drawn.ok());
    hash = (hash ^ static_cast<std::uint64_t>(drawn.value())) * 0x100000001b3;
    hash = (hash ^ std::bit_cast<std::uint32_t>(state.mu)) * 0x100000001b3;
  }
  CHECK(hash == 0x151b7bada4c1b24b);
}

TEST_CASE("log_f64 and exp_f64 are within 1e-15", "[sampler]") {
  std::mt19937_64 random(3);
  double worst_log = 0, worst_exp = 0;
  const auto log_error = [&](double x) {
    // Relative to the result; near x = 1, where that is x - 1, too.
    const long double want = std::log(static_cast<long double>(x));
    worst_log = std::max(worst_log, static_cast<double>(std::abs((qinfer::log_f64(x) - want) / want)));
  };
  for (int i = 0; i < 200000; ++i) {
    log_error(std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, static_cast<int>(random() % 2000) - 1000));
    const double near_one = 1 + (static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) * 0.01;
    if (near_one != 1) log_error(near_one);
    const double x = static_cast<double>(random() >> 11) * 0x1p-53 * 1400 - 700;
    const long double want = std::exp(static_cast<long double>(x));
    worst_exp = std::max(worst_exp, static_cast<double>(std::abs((qinfer::exp_f64(x) - want) / want)));
  }
  CHECK(worst_log < 1e-15);
  CHECK(worst_exp < 1e-15);
  CHECK(qinfer::log_f64(1) == 0);
  CHECK(qinfer::log_f64(0) == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(qinfer::log_f64(-1)));
  CHECK(std::isnan(qinfer::log_f64(std::nan(""))));
  CHECK(qinfer::exp_f64(0) == 1);
  CHECK(qinfer::exp_f64(-1e300) == 0);
  CHECK(qinfer::exp_f64(-std::numeric_limits<double>::infinity()) == 0);
  CHECK(qinfer::exp_f64(1e300) == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(qinfer::exp_f64(std::nan(""))));
}

// The sampler against fixtures/sampler.json, whose probabilities are those of Hugging Face transformers (see
// fixtures/make_sampler_fixtures.py), and its promises about seeds, errors and working memory.
//
// Every draw is fixed by its seed and position, so a test that passes once passes always. The bounds below say how
// unlikely it was to fail if seeds and positions had been chosen at random.
#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.h"

namespace {

using qinfer::Code;
using qinfer::sampling::Bias;
using qinfer::sampling::SamplerOptions;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_f32 = std::numeric_limits<float>::quiet_NaN();
constexpr float largest_f32 = std::numeric_limits<float>::max();

/// Working memory full of what an earlier call could have left there; calls that check `counts` afterwards.
class Sampler {
 public:
  explicit Sampler(std::size_t n_vocab) : logits_(n_vocab, nan_f32), ids_(n_vocab, ~0u), counts_(n_vocab, 0) {}

  qinfer::Result<std::int32_t> operator()(std::span<const float> logits, std::span<const std::int32_t> history,
                                          const SamplerOptions& options, std::span<const Bias> bias = {}) {
    qinfer::sampling::SamplerState state;
    auto result = qinfer::sampling::sample(logits, history, options, bias, {logits_, ids_, counts_}, state);
    counts_zero_ = counts_zero_ && std::all_of(counts_.begin(), counts_.end(), [](auto c) { return c == 0; });
    return result;
  }
  /// After every call so far.
  bool counts_zero() const { return counts_zero_; }

 private:
  std::vector<float> logits_;
  std::vector<std::uint32_t> ids_, counts_;
  bool counts_zero_ = true;
};

/// -1 for an error.
std::int32_t draw(std::span<const float> logits, std::span<const std::int32_t> history, const SamplerOptions& options,
                  std::span<const Bias> bias = {}) {
  Sampler sampler(logits.size());
  auto result = sampler(logits, history, options, bias);
  CHECK(sampler.counts_zero());
  return result.ok() ? result.value() : -1;
}

void check_numeric(std::span<const float> logits, std::span<const std::int32_t> history, const SamplerOptions& options,
                   std::span<const Bias> bias, const std::string& part_of_message) {
  Sampler sampler(logits.size());
  auto result = sampler(logits, history, options, bias);
  CHECK(sampler.counts_zero());
  REQUIRE_FALSE(result.ok());
  const qinfer::Status status = result.take_status();
  INFO(status.message());
  CHECK(status.code() == Code::numeric);
  CHECK(status.message().find(part_of_message) != std::string_view::npos);
}

struct Case {
  std::string name;
  SamplerOptions options;
  std::vector<Bias> bias;
  std::vector<std::int32_t> history;
  std::vector<float> logits;
  std::vector<double> probabilities;
  std::int32_t greedy = 0;
};

std::vector<Case> read_cases() {
  std::ifstream file(QINFER_TEST_FIXTURES "/sampler.json");
  std::vector<Case> cases;
  for (const auto& json : nlohmann::json::parse(file)) {
    Case& c = cases.emplace_back();
    json.at("name").get_to(c.name);
    for (const auto& [name, value] : json.at("options").items()) {
      if (name == "temperature") {
        value.get_to(c.options.temperature);
      } else if (name == "top_k") {
        value.get_to(c.options.top_k);
      } else if (name == "top_p") {
        value.get_to(c.options.top_p);
      } else if (name == "min_p") {
        value.get_to(c.options.min_p);
      } else if (name == "repeat_penalty") {
        value.get_to(c.options.repeat_penalty);
      } else if (name == "frequency_penalty") {
        value.get_to(c.options.frequency_penalty);
      } else if (name == "presence_penalty") {
        value.get_to(c.options.presence_penalty);
      } else if (name == "penalty_tokens") {
        value.get_to(c.options.penalty_tokens);
      } else {
        FAIL("unknown option " << name);
      }
    }
    for (const auto& pair : json.at("bias"))
      c.bias.push_back({pair.at(0).get<std::int32_t>(), pair.at(1).is_null() ? -inf : pair.at(1).get<float>()});
    json.at("history").get_to(c.history);
    json.at("logits").get_to(c.logits);
    json.at("probabilities").get_to(c.probabilities);
    json.at("greedy").get_to(c.greedy);
    REQUIRE(c.logits.size() == c.probabilities.size());
  }
  return cases;
}

/// The Kullback-Leibler divergence of two coins.
double divergence(double q, double p) {
  const auto term = [](double a, double b) { return a == 0 ? 0 : a * std::log(a / b); };
  return term(q, p) + term(1 - q, 1 - p);
}

}  // namespace

TEST_CASE("sampler: probabilities are those of transformers") {
  const std::vector<Case> cases = read_cases();
  REQUIRE(cases.size() >= 60);

  // How often token t comes up in n draws is binomial. By the Chernoff-Hoeffding bound, count / n = q has
  // n * divergence(q, p) >= c with a probability of at most 2 exp(-c). With one such comparison for each token of each
  // case, c = ln(2 * comparisons / alpha) makes alpha the probability that any of them fails.
  const int n_draws = 10000;
  const double alpha = 1e-7;
  std::size_t comparisons = 0;
  for (const Case& c : cases) comparisons += c.logits.size();
  const double limit = std::log(2.0 * static_cast<double>(comparisons) / alpha);

  // A sharper check, without chance: the draw is the token, in the order of ids, whose share of [0, 1) the uniform
  // number falls into. The ends of the shares may be off by the rounding of float32: each operation on a logit below 16
  // rounds by at most 2^-21, up to six of them make 3e-6, a temperature of 0.3 makes that 1e-5, and the relative error
  // of a share is at most twice that. (Cases with larger logits or lower temperatures have smaller or exact sums.)
  const double edge = 2e-5;

  for (const Case& c : cases) {
    INFO(c.name);
    const std::size_t n_vocab = c.logits.size();
    std::vector<double> ends(n_vocab);
    double sum = 0;
    for (std::size_t t = 0; t < n_vocab; ++t) ends[t] = sum += c.probabilities[t];
    CHECK(std::abs(sum - 1) < 1e-6);

    // The first half of the draws has one position and many seeds. The second has one seed and many positions, where
    // that changes nothing else: the history becomes longer by tokens that penalties must not see.
    const SamplerOptions& o = c.options;
    const bool penalties =
        (o.repeat_penalty != 0 && o.repeat_penalty != 1) || o.frequency_penalty != 0 || o.presence_penalty != 0;
    const bool by_position = !penalties || (o.penalty_tokens != 0 && o.penalty_tokens <= c.history.size());
    std::vector<std::int32_t> history(n_draws, c.greedy);
    history.insert(history.end(), c.history.begin(), c.history.end());

    Sampler sampler(n_vocab);
    std::vector<int> counts(n_vocab, 0);
    int errors = 0, misplaced = 0;
    for (int i = 0; i < n_draws; ++i) {
      SamplerOptions options = o;
      options.seed = 1000;
      std::size_t position = c.history.size();
      if (by_position && i >= n_draws / 2)
        position += static_cast<std::size_t>(i);
      else
        options.seed += static_cast<std::uint64_t>(i);
      auto result = sampler(c.logits, std::span<const std::int32_t>(history).last(position), options, c.bias);
      if (!result.ok() || result.value() < 0 || static_cast<std::size_t>(result.value()) >= n_vocab) {
        ++errors;
        continue;
      }
      const std::size_t token = static_cast<std::size_t>(result.value());
      ++counts[token];
      const double u = qinfer::sampling::uniform(options.seed, position);
      const double begin = token == 0 ? 0 : ends[token - 1];
      if (u < begin - edge || u > ends[token] + edge) ++misplaced;
    }
    CHECK(errors == 0);
    CHECK(misplaced == 0);
    CHECK(sampler.counts_zero());

    std::string removed_but_drawn, unlikely;
    for (std::size_t t = 0; t < n_vocab; ++t) {
      const double p = c.probabilities[t];
      const double q = static_cast<double>(counts[t]) / n_draws;
      if (p == 0) {
        if (counts[t] != 0) removed_but_drawn += fmt::format(" {}", t);
      } else if (n_draws * divergence(q, std::min(p, 1.0)) >= limit) {
        unlikely += fmt::format(" {} ({} instead of {})", t, q, p);
      }
    }
    CHECK(removed_but_drawn.empty());
    CHECK(unlikely.empty());
  }
}

TEST_CASE("sampler: temperature 0 takes the largest score and the lowest id") {
  for (const Case& c : read_cases()) {
    INFO(c.name);
    SamplerOptions options = c.options;
    options.temperature = 0;
    CHECK(draw(c.logits, c.history, options, c.bias) == c.greedy);
    options.seed = 77;
    CHECK(draw(c.logits, c.history, options, c.bias) == c.greedy);
  }
  const std::vector<float> ties{-2, 3, 1, 3, 3};
  CHECK(draw(ties, {}, {}) == 1);
  CHECK(draw(ties, {}, {}, std::vector<Bias>{{1, -1}}) == 3);
  CHECK(draw(std::vector<float>{5}, {}, {}) == 0);
  CHECK(draw(std::vector<float>{-largest_f32, -0.0f, 0.0f}, {}, {}) == 1);
}

TEST_CASE("sampler: of equal tokens at the limit of top_p the lowest ids stay") {
  // transformers leaves this to its sort. Ours is fixed, so that all builds draw the same.
  const std::vector<float> logits(8, 2.5f);
  const auto drawn = [&](float top_p) {
    std::set<std::int32_t> tokens;
    for (std::uint64_t seed = 0; seed < 500; ++seed)
      tokens.insert(draw(logits, {}, {.temperature = 1, .top_p = top_p, .seed = seed}));
    return tokens;
  };
  CHECK(drawn(1e-6f) == std::set<std::int32_t>{0});
  CHECK(drawn(0.125f) == std::set<std::int32_t>{0});
  CHECK(drawn(0.126f) == std::set<std::int32_t>{0, 1});
  CHECK(drawn(0.5f) == std::set<std::int32_t>{0, 1, 2, 3});
  CHECK(drawn(1).size() == 8);
  CHECK(drawn(0).size() == 8);  // off
}

TEST_CASE("sampler: a draw depends on seed and position alone") {
  const std::size_t n_vocab = 1000;
  const std::vector<float> logits(n_vocab, 0.5f);
  const std::vector<std::int32_t> zeros(300, 0), others(300, 17);
  const std::span<const std::int32_t> a(zeros), b(others);
  Sampler one(n_vocab), two(n_vocab);
  const auto at = [&](Sampler& sampler, std::span<const std::int32_t> history, std::uint64_t seed) {
    auto result = sampler(logits, history, {.temperature = 1, .seed = seed});
    REQUIRE(result.ok());
    return result.value();
  };
  std::vector<std::int32_t> forward;
  for (std::size_t i = 0; i <= 300; ++i) forward.push_back(at(one, a.first(i), 5));
  // Again, in another order, with other tokens before it, in other memory.
  for (std::size_t i = 301; i-- > 0;) CHECK(at(two, b.first(i), 5) == forward[i]);

  // Of 301 pairs of equally likely draws, 0.3 agree on average; 12 or more do with a probability under 1e-14.
  for (const std::uint64_t seed : {std::uint64_t{4}, std::uint64_t{6}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    int equal = 0;
    for (std::size_t i = 0; i <= 300; ++i) equal += at(two, a.first(i), seed) == forward[i];
    CHECK(equal < 12);
  }
  int repeats = 0;
  for (std::size_t i = 0; i < 300; ++i) repeats += forward[i] == forward[i + 1];
  CHECK(repeats < 12);
}

TEST_CASE("sampler: the smallest and the largest uniform number draw the first and the last token left") {
  // Seeds found by running splitmix64 backwards from 0 and from 2^64 - 1.
  const std::uint64_t low = 0xc5deefb0344c1df5, high = 0x1fdb84807c8bc327;
  CHECK(qinfer::sampling::uniform(low, 0) == 0);
  CHECK(qinfer::sampling::uniform(high, 0) == 1 - 0x1p-53);
  for (std::size_t n_vocab = 5; n_vocab < 100; ++n_vocab) {
    const std::vector<float> logits(n_vocab, 1.0f);
    const std::int32_t last = static_cast<std::int32_t>(n_vocab) - 1;
    const std::vector<Bias> ends{{0, -inf}, {1, -1000}, {last - 1, -1000}, {last, -inf}};
    CHECK(draw(logits, {}, {.temperature = 1, .seed = low}) == 0);
    CHECK(draw(logits, {}, {.temperature = 1, .seed = high}) == last);
    CHECK(draw(logits, {}, {.temperature = 1, .seed = low}, ends) == 2);
    CHECK(draw(logits, {}, {.temperature = 1, .seed = high}, ends) == last - 2);
  }
}

TEST_CASE("sampler: uniform() is uniform") {
  using qinfer::sampling::uniform;
  const int n = 1000000;
  const auto check = [&](auto&& number) {
    double low = 1, high = 0, sum = 0, squares = 0, products = 0, previous = number(0) - 0.5;
    for (int i = 1; i <= n; ++i) {
      const double u = number(static_cast<std::uint64_t>(i));
      low = std::min(low, u);
      high = std::max(high, u);
      const double x = u - 0.5;
      sum += x;
      squares += x * x;
      products += x * previous;
      previous = x;
    }
    // Bounds are six standard deviations (2e-9 each). Of one term: x 12^-1/2, x^2 180^-1/2, product of neighbours 1/12.
    const double six = 6 / std::sqrt(static_cast<double>(n));
    CHECK(std::abs(sum / n) < six / std::sqrt(12.0));
    CHECK(std::abs(squares / n - 1.0 / 12) < six / std::sqrt(180.0));
    CHECK(std::abs(products / n) < six / 12);
    CHECK(low >= 0);
    CHECK(low < 25e-6);  // otherwise none of a million is: e^-25
    CHECK(high < 1);
    CHECK(high > 1 - 25e-6);
  };
  SECTION("over positions") {
    check([](std::uint64_t i) { return uniform(0, i); });
    check([](std::uint64_t i) { return uniform(123456789, i); });
  }
  SECTION("over seeds") {
    check([](std::uint64_t i) { return uniform(i, 0); });
    check([](std::uint64_t i) { return uniform(i, 4096); });
  }
  SECTION("published values of splitmix64") {
    // The first outputs of the generator for the seeds 0 and 1234567. The position is chosen such that it is xored with
    // splitmix64(seed) to that seed, which also fixes how seed and position are combined.
    const std::uint64_t first_0 = 0xe220a8397b1dcdaf, first_1234567 = 6457827717110365317;
    CHECK(uniform(0, first_0) == static_cast<double>(first_0 >> 11) / 9007199254740992.0);
    CHECK(uniform(1234567, first_1234567 ^ 1234567) == static_cast<double>(first_1234567 >> 11) / 9007199254740992.0);
    CHECK(uniform(0, first_0 ^ 1234567) == static_cast<double>(first_1234567 >> 11) / 9007199254740992.0);
  }
}

TEST_CASE("sampler: check_options names the member that is out of range") {
  using qinfer::sampling::check_options;
  CHECK(check_options({}).ok());
  CHECK(check_options({.temperature = largest_f32,
                       .top_k = ~0u,
                       .top_p = 1,
                       .min_p = 1,
                       .repeat_penalty = largest_f32,
                       .frequency_penalty = -largest_f32,
                       .presence_penalty = -largest_f32,
                       .penalty_tokens = ~0u,
                       .seed = ~std::uint64_t{0}})
            .ok());
  CHECK(check_options({.temperature = 1e-45f, .top_p = 1e-45f, .min_p = 1e-45f, .repeat_penalty = 1e-45f}).ok());

  struct Member {
    std::string name;
    float SamplerOptions::*member;
    std::vector<float> bad;
  };
  const std::vector<Member> members{
      {"temperature", &SamplerOptions::temperature, {-1e-45f, -1, inf, -inf, nan_f32}},
      {"top_p", &SamplerOptions::top_p, {-0.1f, 1.0000001f, inf, -inf, nan_f32}},
      {"min_p", &SamplerOptions::min_p, {-0.1f, 1.0000001f, inf, -inf, nan_f32}},
      {"repeat_penalty", &SamplerOptions::repeat_penalty, {-1e-45f, -1, inf, -inf, nan_f32}},
      {"frequency_penalty", &SamplerOptions::frequency_penalty, {inf, -inf, nan_f32}},
      {"presence_penalty", &SamplerOptions::presence_penalty, {inf, -inf, nan_f32}},
  };
  for (const Member& m : members) {
    for (const float value : m.bad) {
      SamplerOptions options;
      options.*m.member = value;
      const qinfer::Status status = check_options(options);
      INFO(m.name << " " << value << ": " << status.message());
      CHECK(status.code() == Code::invalid_argument);
      CHECK(status.message().substr(0, m.name.size() + 1) == m.name + " ");
    }
  }
}

TEST_CASE("sampler: a logit that is not finite is an error that names the token") {
  for (const float temperature : {0.0f, 0.8f}) {
    for (const float bad : {nan_f32, inf, -inf}) {
      for (const std::size_t token : {std::size_t{0}, std::size_t{17}, std::size_t{49}}) {
        std::vector<float> logits(50, 1.0f);
        logits[token] = bad;
        const std::vector<std::int32_t> history{17, 17, 3};
        check_numeric(logits, history, {.temperature = temperature, .repeat_penalty = 1.1f}, {},
                      fmt::format("token {} ", token));
      }
    }
  }
}

TEST_CASE("sampler: a bias of -infinity bans") {
  const std::vector<float> logits{1, 9, 2, 8, 8};
  const auto drawn = [&](std::span<const Bias> bias, const SamplerOptions& base, std::vector<std::int32_t> history) {
    std::set<std::int32_t> tokens;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      SamplerOptions options = base;
      options.seed = seed;
      tokens.insert(draw(logits, history, options, bias));
    }
    return tokens;
  };
  const std::vector<Bias> best{{1, -inf}}, both{{1, -inf}, {3, -inf}, {4, -inf}};
  CHECK(draw(logits, {}, {}, best) == 3);
  CHECK(draw(logits, {}, {}, both) == 2);
  CHECK(drawn(both, {.temperature = 2}, {}) == std::set<std::int32_t>{0, 2});
  CHECK(drawn(both, {.temperature = 1e30f}, {}) == std::set<std::int32_t>{0, 2});
  CHECK(drawn(both, {.temperature = 2, .top_k = 4, .top_p = 0.9999f, .min_p = 1e-30f}, {}) ==
        std::set<std::int32_t>{0, 2});
  // Rewards for repeats do not bring a banned token back.
  CHECK(drawn(both, {.temperature = 2, .repeat_penalty = 0.5f, .frequency_penalty = -50, .presence_penalty = -50},
              {1, 1, 3, 4}) == std::set<std::int32_t>{0, 2});
  // Values for the same token add up.
  CHECK(draw(logits, {}, {}, std::vector<Bias>{{0, 5}, {0, 4}}) == 0);
  CHECK(draw(logits, {}, {}, std::vector<Bias>{{1, 100}, {1, -inf}}) == 3);
}

TEST_CASE("sampler: nothing left to draw is an error") {
  const std::vector<float> logits{1, 9, 2};
  const std::vector<std::int32_t> history{0, 1, 1, 2};
  const std::vector<Bias> all{{0, -inf}, {1, -inf}, {2, -inf}};
  for (const float temperature : {0.0f, 1.0f}) {
    check_numeric(logits, {}, {.temperature = temperature}, all, "no token to draw");
    check_numeric(logits, history, {.temperature = temperature, .repeat_penalty = 1.5f, .frequency_penalty = -1}, all,
                  "no token to draw");
    // Rewards beyond the range of f32 stay at its end, where all three meet.
    CHECK(draw(logits, history, {.temperature = temperature, .frequency_penalty = -largest_f32}) >= 0);
  }
}

TEST_CASE("sampler: extreme penalties do not turn a token into NaN") {
  // In float32, -infinity - 2 * -largest would be NaN, which no comparison of the filters can order.
  std::vector<float> logits(40, 0.0f);
  const std::vector<std::int32_t> history{39, 39, 7, 7};
  const std::vector<Bias> bias{{39, -inf}, {7, -inf}};
  const SamplerOptions base{.temperature = 1, .frequency_penalty = -largest_f32, .presence_penalty = -largest_f32};
  const std::vector<SamplerOptions> filters{{}, {.top_k = 39}, {.top_p = 0.99f}, {.min_p = 0.5f}};
  for (const SamplerOptions& filter : filters) {
    int banned = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      SamplerOptions options = base;
      options.top_k = filter.top_k;
      options.top_p = filter.top_p;
      options.min_p = filter.min_p;
      options.seed = seed;
      const std::int32_t token = draw(logits, history, options, bias);
      banned += token == -1 || token == 7 || token == 39;
    }
    INFO("top_k " << filter.top_k << ", top_p " << filter.top_p << ", min_p " << filter.min_p);
    CHECK(banned == 0);
  }
  // 1 / 1e-39 - 3 * 3.3e38 = 1e37, though neither term is in the range of float32.
  logits[39] = 1;
  const SamplerOptions both{.repeat_penalty = 1e-39f, .frequency_penalty = 3.3e38f};
  CHECK(draw(logits, std::vector<std::int32_t>{39, 39, 39}, both) == 39);
  // 1 / 9e-40 - 2 * 3.3e38 = 4.5e38 is out of range: the largest number there is, and so the largest logit.
  CHECK(draw(logits, std::vector<std::int32_t>{39, 39}, {.repeat_penalty = 9e-40f, .frequency_penalty = 3.3e38f}) ==
        39);
}

TEST_CASE("sampler: a ban is final and sums of biases stay finite") {
  const std::vector<float> logits{0, 1, 0, 0};
  const SamplerOptions warm{.temperature = 1};
  // In f32 the two add up to infinity, and that with -infinity to NaN.
  const std::vector<std::vector<Bias>> bans = {
      {{2, 3e38f}, {2, 3e38f}, {2, -inf}}, {{2, -inf}, {2, 3e38f}, {2, 3e38f}}, {{2, 3e38f}, {2, -inf}, {2, 3e38f}}};
  for (const std::vector<Bias>& ban : bans) {
    std::vector<int> drawn(logits.size());
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      SamplerOptions options = warm;
      options.seed = seed;
      const std::int32_t token = draw(logits, {}, options, ban);
      REQUIRE(token >= 0);
      ++drawn[static_cast<std::size_t>(token)];
    }
    CHECK(drawn[2] == 0);
    CHECK(drawn[0] > 0);
    CHECK(drawn[1] > drawn[3]);
    CHECK(draw(logits, {}, {}, ban) == 1);
  }
  const std::vector<Bias> most{{2, 3e38f}, {2, 3e38f}}, least{{1, -3e38f}, {1, -3e38f}, {1, 3e38f}};
  CHECK(draw(logits, {}, {}, most) == 2);
  CHECK(draw(logits, {}, warm, most) == 2);
  CHECK(draw(logits, {}, {}, least) == 0);
}

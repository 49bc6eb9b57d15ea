// Log probabilities: of tokens in a row of logits, of the most likely ones, and during a generation.
#include <qinfer/qinfer.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sampling/logprobs.h"
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

/// The definition in long double, summed in another order.
std::vector<double> reference(const std::vector<float>& row) {
  const long double most = *std::max_element(row.begin(), row.end());
  long double sum = 0;
  for (std::size_t i = row.size(); i-- > 0;) sum += std::exp(static_cast<long double>(row[i]) - most);
  std::vector<double> all;
  for (const float logit : row) all.push_back(static_cast<double>(logit - most - std::log(sum)));
  return all;
}

struct Loaded {
  ModelDir dir;
  qi::Model model;
  qi::KvCache cache;
  explicit Loaded(const TinySpec& spec) : dir(spec), model(qi::Model::load(dir.path())), cache(model) {}
  qi::Session session() {
    qi::Session session(cache);
    session.append(some_tokens(5));
    return session;
  }
};

TinySpec endless() {
  TinySpec spec;
  spec.seed = 3;
  return spec;
}

/// What on_token_info was told, copied.
struct Told {
  qi::Token token;
  std::string text;
  double logprob;
  std::vector<std::pair<qi::Token, double>> top;
};

qi::OnTokenInfo keep(std::vector<Told>& all) {
  return [&all](const qinfer_token_info& info) {
    Told told{info.token, std::string(info.text, info.text_len), info.logprob, {}};
    for (std::uint32_t i = 0; i < info.n_top; ++i) told.top.emplace_back(info.top_tokens[i], info.top_logprobs[i]);
    all.push_back(told);
    return true;
  };
}

}  // namespace

TEST_CASE("Log probabilities are the log softmax of the kept rows, in double", "[api][logprobs]") {
  Loaded loaded{endless()};
  auto options = qi::options<qinfer_session_options>();
  options.max_logits = 3;
  qi::Session session(loaded.cache, options);
  session.append(some_tokens(9));
  auto eval_options = qi::options<qinfer_eval_options>();
  eval_options.keep_logits = 3;
  session.eval(eval_options);
  std::vector<qi::Token> every(300);
  std::iota(every.begin(), every.end(), 0);
  for (std::size_t back = 0; back < 3; ++back) {
    const std::vector<double> expected = reference(session.copy_logits(back)), got = session.logprobs(every, back);
    double sum = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO(back << " " << i << " expected " << expected[i] << " got " << got[i]);
      REQUIRE(std::abs(got[i] - expected[i]) < 1e-13);
      sum += std::exp(got[i]);
    }
    REQUIRE(std::abs(sum - 1) < 1e-12);
    const auto top = session.top_logprobs(300, back);
    for (std::size_t i = 0; i < top.size(); ++i) {
      REQUIRE(top[i].second == got[static_cast<std::size_t>(top[i].first)]);
      if (i != 0) REQUIRE(top[i - 1].second >= top[i].second);
      if (i != 0 && top[i - 1].second == top[i].second) REQUIRE(top[i - 1].first < top[i].first);
    }
    std::vector<qi::Token> ids;
    for (const auto& [token, logprob] : top) ids.push_back(token);
    std::sort(ids.begin(), ids.end());
    REQUIRE(ids == every);
    for (const std::size_t n : {0, 1, 2, 7, 299}) {
      const auto few = session.top_logprobs(n, back);
      REQUIRE(few == std::vector<std::pair<qi::Token, double>>(top.begin(), top.begin() + static_cast<int>(n)));
    }
  }
  const std::vector<float> row = session.copy_logits();
  const qi::Token drawn = session.sample();
  REQUIRE(std::abs(session.logprob(drawn) - reference(row)[static_cast<std::size_t>(drawn)]) < 1e-13);
}

TEST_CASE("Equal logits are ordered by id, and large ones do not overflow", "[api][logprobs]") {
  const std::vector<float> row = {1, 3, 3, -3e38f, 3, 1};
  std::vector<std::int32_t> top(5);
  qinfer::sampling::top_tokens(row, top);
  REQUIRE(top == std::vector<std::int32_t>{1, 2, 4, 0, 5});
  top.resize(2);
  qinfer::sampling::top_tokens(row, top);
  REQUIRE(top == std::vector<std::int32_t>{1, 2});
  const std::vector<float> large = {3e38f, -3e38f, 3e38f};
  auto normalizer = qinfer::sampling::log_normalizer(large);
  REQUIRE(normalizer.ok());
  REQUIRE(std::abs(static_cast<double>(large[0]) - normalizer.value()) <= 1e23);  // half an ulp of 3e38 in double
  for (const float bad : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> broken = {1, bad, 2};
    const qinfer::Status status = qinfer::sampling::log_normalizer(broken).take_status();
    REQUIRE(status.code() == qinfer::Code::numeric);
    REQUIRE_THAT(std::string(status.message()), contains("token 1"));
  }
}

TEST_CASE("Log probabilities of what is not there are refused", "[api][logprobs]") {
  Loaded loaded{endless()};
  qi::Session session = loaded.session();
  qi::Token tokens[301] = {1, 2, 300};
  double values[301];
  const qinfer_session* one = session.native();
  REQUIRE_FAILS(QINFER_E_STATE, "no logits are kept", qinfer_session_logprobs(one, 0, tokens, 1, values, &err));
  REQUIRE_FAILS(QINFER_E_STATE, "no logits are kept", qinfer_session_top_logprobs(one, 0, tokens, values, 1, &err));
  session.eval();
  REQUIRE_FAILS(QINFER_E_STATE, "the token 1 before", qinfer_session_logprobs(one, 1, tokens, 1, values, &err));
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 2, "token 300 at index 2",
                   qinfer_session_logprobs(one, 0, tokens, 3, values, &err));
  tokens[0] = -1;
  REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, 0, "token -1 at index 0",
                   qinfer_session_logprobs(one, 0, tokens, 1, values, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n is 301", qinfer_session_top_logprobs(one, 0, tokens, values, 301, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "tokens is NULL", qinfer_session_logprobs(one, 0, nullptr, 1, values, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "logprobs is NULL",
                qinfer_session_logprobs(one, 0, tokens, 1, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "tokens is NULL",
                qinfer_session_top_logprobs(one, 0, nullptr, values, 1, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "session is NULL",
                qinfer_session_top_logprobs(nullptr, 0, tokens, values, 1, &err));
  auto options = qi::options<qinfer_eval_options>();
  options.flags = QINFER_EVAL_NO_LOGITS;
  session.append({1});
  session.eval(options);
  REQUIRE_FAILS(QINFER_E_STATE, "QINFER_EVAL_NO_LOGITS", qinfer_session_logprobs(one, 0, tokens, 1, values, &err));
}

TEST_CASE("A generation tells each token's log probability and the most likely ones", "[api][logprobs]") {
  Loaded loaded{endless()};
  qi::Session session = loaded.session(), stepped = loaded.session();
  auto sampler = qi::options<qinfer_sampler_options>();
  sampler.temperature = 3;
  sampler.top_k = 50;
  session.set_sampler(sampler);
  stepped.set_sampler(sampler);
  std::vector<Told> told;
  qi::GenerateOptions request;
  request.max_tokens = 12;
  request.n_top = 4;
  request.on_token_info = keep(told);
  std::string text;
  std::vector<qi::Token> tokens;
  request.on_token = [&](std::string_view piece, qi::Token token) {
    text += piece;
    tokens.push_back(token);
    return true;
  };
  const qinfer_generate_result result = session.generate(request);
  REQUIRE(result.new_tokens == 12);
  std::string told_text;
  std::vector<qi::Token> told_tokens;
  std::size_t n = 0;
  for (const Told& one : told) {
    told_text += one.text;
    told_tokens.push_back(one.token);
    if (one.token < 0) {
      REQUIRE(&one == &told.back());
      REQUIRE(one.logprob == 0);
      REQUIRE(one.top.empty());
      continue;
    }
    ++n;
    stepped.eval();
    REQUIRE(stepped.sample() == one.token);
    REQUIRE(one.logprob == stepped.logprob(one.token));
    REQUIRE(one.top == stepped.top_logprobs(4));
  }
  REQUIRE(n == 12);
  REQUIRE(told_text == text);
  REQUIRE(told_tokens == tokens);
}

TEST_CASE("An end token is told too, and nonzero from on_token_info stops", "[api][logprobs]") {
  Loaded loaded{endless()};
  qi::Session session = loaded.session();
  const std::pair<qi::Token, float> only_end = {kTinyEnd, 1e6f};
  session.set_bias({only_end});
  std::vector<Told> told;
  qi::GenerateOptions request;
  request.on_token_info = keep(told);
  int texts = 0;
  request.on_token = [&](std::string_view, qi::Token) { return ++texts > 0; };
  REQUIRE(session.generate(request).finish == QINFER_FINISH_END);
  REQUIRE(texts == 0);  // as before there was on_token_info
  REQUIRE(told.size() == 1);
  REQUIRE(told[0].token == kTinyEnd);
  REQUIRE(told[0].logprob < 0);
  REQUIRE(told[0].text.empty());

  qi::Session other = loaded.session();
  request.on_token_info = [&](const qinfer_token_info& info) {
    REQUIRE(info.struct_size == sizeof info);
    REQUIRE(info.n_top == 0);
    return false;
  };
  const qinfer_generate_result result = other.generate(request);
  REQUIRE(result.finish == QINFER_FINISH_CALLBACK);
  REQUIRE(result.new_tokens == 1);
  request.on_token_info = [](const qinfer_token_info&) -> bool { throw std::logic_error("of the host"); };
  REQUIRE_THROWS_AS(other.generate(request), std::logic_error);

  auto options = sized<qinfer_generate_options>();
  options.n_top = 65;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "n_top is 65, at most 64",
                qinfer_generate(other.native(), &options, nullptr, &err));
}

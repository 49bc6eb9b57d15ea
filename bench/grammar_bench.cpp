// grammar_bench: what the masks of a grammar cost at a real vocabulary. Documents of real-life schemas are fed to
// matchers token by token, as a model would draw them, and the mask before each token is timed: each document with a
// matcher of its own, as each request has, so that what a matcher learns in one document helps none of the next.
//
//   grammar_bench TOKENIZER_JSON [REAL_SCHEMAS_JSON]
#include <fmt/format.h>
#include <qinfer/qinfer_grammar.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void must(qinfer_status status, const qinfer_error& error) {
  if (status != QINFER_OK) throw std::runtime_error(error.message);
}

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("{} cannot be read", path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

qinfer_grammar_vocab* make_vocab(const qinfer::text::Tokenizer& tokenizer) {
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  std::vector<std::uint32_t> flags;
  for (std::uint32_t token = 0; token < tokenizer.size(); ++token) {
    const std::string_view bytes = tokenizer.token_bytes(static_cast<qinfer_token>(token));
    texts.push_back(bytes.data());
    sizes.push_back(bytes.size());
    flags.push_back(tokenizer.is_control(static_cast<qinfer_token>(token)) ? QINFER_TOKEN_CONTROL : 0);
  }
  // Some control token ends texts; which one changes nothing here.
  const auto control = std::find(flags.begin(), flags.end(), static_cast<std::uint32_t>(QINFER_TOKEN_CONTROL));
  if (control != flags.end()) *control |= QINFER_TOKEN_END;
  qinfer_grammar_vocab_options options = {};
  options.struct_size = sizeof options;
  options.n_tokens = tokenizer.size();
  options.texts = texts.data();
  options.text_lens = sizes.data();
  options.flags = flags.data();
  qinfer_grammar_vocab* vocab = nullptr;
  qinfer_error error;
  const auto begin = Clock::now();
  must(qinfer_grammar_vocab_create(&options, &vocab, &error), error);
  fmt::print("vocabulary of {} tokens made in {:.2f} s\n", tokenizer.size(), microseconds(begin) / 1e6);
  return vocab;
}

double quantile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

void print_row(const char* name, std::vector<double>& values) {
  fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", name, values.size(), quantile(values, 0.5),
             quantile(values, 0.9), quantile(values, 0.99), values.back());
}

struct Times {
  std::vector<double> compile, masks, accepts;
};

void run_document(const qinfer::text::Tokenizer& tokenizer, const qinfer_grammar* grammar, const std::string& document,
                  Times& times) {
  std::vector<qinfer::text::TokenId> tokens;
  if (!tokenizer.encode(document, {}, tokens).ok()) throw std::runtime_error("a document cannot be tokenised");
  qinfer_grammar_matcher* matcher = nullptr;
  qinfer_error error;
  must(qinfer_grammar_matcher_create(grammar, &matcher, &error), error);
  std::vector<std::uint32_t> mask((tokenizer.size() + 31) / 32);
  for (const qinfer::text::TokenId token : tokens) {
    std::size_t n = 0;
    auto begin = Clock::now();
    must(qinfer_grammar_matcher_mask(matcher, mask.data(), mask.size(), &n, &error), error);
    times.masks.push_back(microseconds(begin));
    begin = Clock::now();
    must(qinfer_grammar_matcher_accept(matcher, &token, 1, &error), error);
    times.accepts.push_back(microseconds(begin));
  }
  qinfer_grammar_matcher_free(matcher);
}

void run(const char* tokenizer_path, const char* schemas_path) {
  const std::string json = read(tokenizer_path);
  auto loaded = qinfer::text::Tokenizer::from_json(json, tokenizer_path, {});
  if (!loaded.ok()) throw std::runtime_error(std::string(loaded.take_status().message()));
  const qinfer::text::Tokenizer& tokenizer = *loaded.value();
  qinfer_grammar_vocab* vocab = make_vocab(tokenizer);
  Times times;
  for (const nlohmann::ordered_json& item : nlohmann::ordered_json::parse(read(schemas_path))) {
    const std::string schema = item.at("schema").dump();
    qinfer_grammar* grammar = nullptr;
    qinfer_error error;
    const auto begin = Clock::now();
    must(qinfer_grammar_compile(vocab, QINFER_GRAMMAR_JSON_SCHEMA, schema.data(), schema.size(), nullptr, &grammar,
                                &error),
         error);
    times.compile.push_back(microseconds(begin));
    for (const nlohmann::ordered_json& document : item.at("valid"))
      for (const int indent : {-1, 2}) run_document(tokenizer, grammar, document.dump(indent), times);
    qinfer_grammar_free(grammar);
  }
  qinfer_grammar_vocab_free(vocab);
  fmt::print("| us | number | median | 90 % | 99 % | most |\n|---|---|---|---|---|---|\n");
  print_row("compiling a schema", times.compile);
  print_row("a mask", times.masks);
  print_row("accepting a token", times.accepts);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr, "usage: grammar_bench TOKENIZER_JSON [REAL_SCHEMAS_JSON]\n");
    return 2;
  }
  try {
    run(argv[1], argc == 3 ? argv[2] : QINFER_REAL_SCHEMAS);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "grammar_bench: {}\n", failure.what());
    return 1;
  }
}

// Grammars in tests: handles that free themselves, and a vocabulary of single bytes that is small enough for a mask to
// be compared with every token tried.
#pragma once

#include <qinfer/qinfer_grammar.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/c_api.h"

namespace qinfer::test {

using GrammarVocab = std::unique_ptr<qinfer_grammar_vocab, Freer<qinfer_grammar_vocab_free>>;
using Grammar = std::unique_ptr<qinfer_grammar, Freer<qinfer_grammar_free>>;
using Matcher = std::unique_ptr<qinfer_grammar_matcher, Freer<qinfer_grammar_matcher_free>>;

/// Some words, the bytes 0 to 255 as tokens 0 to 255, control tokens from `separator` on, two of which look like the
/// numbers that Lark grammars can name tokens by, and an end token as the last.
struct SmallVocab {
  std::vector<std::string> texts;
  qinfer_token separator = 0, end = 0;
  GrammarVocab vocab;

  SmallVocab() {
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* word :
         {"true", "false", "null", "\":", "{\"", "\"}", "name", " ,", "12", "345", "ab", "abc", "aaaaaaaa", "\n"})
      texts.emplace_back(word);
    separator = static_cast<qinfer_token>(texts.size());
    for (const char* control : {"<sep>", "[5]", "[12"}) texts.emplace_back(control);
    end = static_cast<qinfer_token>(texts.size());
    texts.emplace_back("<end>");
    std::vector<const char*> pointers;
    std::vector<std::size_t> sizes;
    for (const std::string& text : texts) {
      pointers.push_back(text.data());
      sizes.push_back(text.size());
    }
    std::vector<std::uint32_t> flags(texts.size(), 0);
    std::fill(flags.begin() + separator, flags.end(), QINFER_TOKEN_CONTROL);
    flags.back() = QINFER_TOKEN_CONTROL | QINFER_TOKEN_END;
    auto options = sized<qinfer_grammar_vocab_options>();
    options.n_tokens = static_cast<std::uint32_t>(texts.size());
    options.texts = pointers.data();
    options.text_lens = sizes.data();
    options.flags = flags.data();
    qinfer_grammar_vocab* out = nullptr;
    REQUIRE_OK(qinfer_grammar_vocab_create(&options, &out, &err));
    vocab.reset(out);
  }
};

inline GrammarVocab vocab_of(const qinfer_model* model) {
  auto info = sized<qinfer_model_info>();
  REQUIRE_OK(qinfer_model_get_info(model, &info, &err));
  auto options = sized<qinfer_grammar_vocab_options>();
  options.n_tokens = info.n_vocab;
  options.model = model;
  options.token_text = qinfer_token_text;
  options.token_flags = qinfer_token_flags;
  qinfer_grammar_vocab* out = nullptr;
  REQUIRE_OK(qinfer_grammar_vocab_create(&options, &out, &err));
  return GrammarVocab(out);
}

inline Grammar compile(const GrammarVocab& vocab, std::int32_t kind, std::string_view text,
                       const qinfer_grammar_options* options = nullptr) {
  qinfer_grammar* out = nullptr;
  REQUIRE_OK(qinfer_grammar_compile(vocab.get(), kind, text.data(), text.size(), options, &out, &err));
  return Grammar(out);
}

inline Matcher matcher_of(const Grammar& grammar) {
  qinfer_grammar_matcher* out = nullptr;
  REQUIRE_OK(qinfer_grammar_matcher_create(grammar.get(), &out, &err));
  return Matcher(out);
}

inline std::vector<std::uint32_t> mask_of(const Matcher& matcher) {
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "words", qinfer_grammar_matcher_mask(matcher.get(), nullptr, 0, &n, &err));
  std::vector<std::uint32_t> words(n);
  REQUIRE_OK(qinfer_grammar_matcher_mask(matcher.get(), words.data(), n, &n, &err));
  return words;
}

inline bool has(const std::vector<std::uint32_t>& mask, qinfer_token token) {
  const auto index = static_cast<std::size_t>(token);
  return (mask[index / 32] >> (index % 32) & 1) != 0;
}

inline std::uint32_t flags_of(const Matcher& matcher) {
  auto info = sized<qinfer_grammar_matcher_info>();
  REQUIRE_OK(qinfer_grammar_matcher_get_info(matcher.get(), &info, &err));
  return info.flags;
}

/// Whether the bytes of `text`, and then the end, are accepted one by one. Without assertions, which are for one
/// thread.
inline bool fulfils(const SmallVocab& small, const Grammar& grammar, const std::string& text) {
  qinfer_grammar_matcher* created = nullptr;
  if (qinfer_grammar_matcher_create(grammar.get(), &created, nullptr) != QINFER_OK) return false;
  const Matcher matcher(created);
  std::vector<qinfer_token> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  tokens.push_back(small.end);
  return qinfer_grammar_matcher_accept(matcher.get(), tokens.data(), tokens.size(), nullptr) == QINFER_OK;
}

}  // namespace qinfer::test

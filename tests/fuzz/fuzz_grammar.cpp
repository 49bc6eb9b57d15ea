// Fuzzes the grammar library: the input is a schema, regular expression or Lark grammar as it is, or chooses pieces of
// a schema. What compiles is walked through its masks: what a mask allows is accepted, and taking it back leads back.
#include <qinfer/qinfer_grammar.h>

#include <string>
#include <vector>

#include "choices.h"

namespace {

using qinfer::fuzz::Choices;

constexpr const char* kPieces[] = {"{",
                                   "}",
                                   "[",
                                   "]",
                                   ",",
                                   ":",
                                   "\"a\"",
                                   "\"b\"",
                                   "\"\"",
                                   "\"^[^\\\"]*$\"",
                                   "\"(a|b)+$\"",
                                   "true",
                                   "false",
                                   "null",
                                   "0",
                                   "1",
                                   "2.0",
                                   "-1e400",
                                   "1000000",
                                   "\"type\":",
                                   "\"string\"",
                                   "\"object\"",
                                   "\"array\"",
                                   "\"integer\"",
                                   "[\"number\",\"null\"]",
                                   "\"const\":",
                                   "\"enum\":[",
                                   "\"required\":[\"a\"]",
                                   "\"properties\":{\"a\":",
                                   "\"patternProperties\":{\"^a\":",
                                   "\"additionalProperties\":",
                                   "\"propertyNames\":",
                                   "\"items\":",
                                   "\"prefixItems\":[",
                                   "\"contains\":",
                                   "\"minContains\":",
                                   "\"maxContains\":",
                                   "\"minItems\":",
                                   "\"maxItems\":",
                                   "\"minLength\":",
                                   "\"maxLength\":",
                                   "\"minProperties\":",
                                   "\"maxProperties\":",
                                   "\"minimum\":",
                                   "\"exclusiveMaximum\":",
                                   "\"multipleOf\":",
                                   "\"pattern\":",
                                   "\"format\":\"date\"",
                                   "\"allOf\":[",
                                   "\"anyOf\":[",
                                   "\"oneOf\":[",
                                   "\"not\":",
                                   "\"if\":",
                                   "\"then\":",
                                   "\"else\":",
                                   "\"dependentRequired\":{\"a\":[\"b\"]}",
                                   "\"dependentSchemas\":{\"a\":",
                                   "\"unevaluatedProperties\":",
                                   "\"unevaluatedItems\":",
                                   "\"uniqueItems\":true",
                                   "\"$defs\":{\"a\":",
                                   "\"$ref\":\"#/$defs/a\"",
                                   "\"$ref\":\"#\"",
                                   "\"$dynamicRef\":\"#b\"",
                                   "\"$dynamicAnchor\":\"b\"",
                                   "\"$anchor\":\"b\"",
                                   "\"$id\":\"c/\"",
                                   "\"$id\":\"urn:x:y\""};

/// JSON whose brackets close, so that more inputs get further than the parser: pieces, and what is open at the end.
std::string make_schema(Choices& choices) {
  std::string text = "{", open = "}";
  while (!choices.done() && text.size() < 4096) {
    const std::string piece = choices.of(kPieces);
    if (!open.empty() && (piece == "}" || piece == "]")) {
      text += open.back();
      open.pop_back();
    } else {
      text += piece;
      if (piece.ends_with('{') || piece.ends_with("{\"a\":") || piece.ends_with("{\"^a\":")) open += '}';
      if (piece.ends_with('[')) open += ']';
    }
    if (open.empty()) break;
  }
  text.append(open.rbegin(), open.rend());
  return text;
}

/// The 256 bytes and an end token.
const qinfer_grammar_vocab* vocabulary() {
  static qinfer_grammar_vocab* const made = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    texts.emplace_back("<end>");
    std::vector<const char*> pointers;
    std::vector<std::size_t> sizes;
    for (const std::string& text : texts) pointers.push_back(text.data()), sizes.push_back(text.size());
    std::vector<std::uint32_t> flags(texts.size(), 0);
    flags.back() = QINFER_TOKEN_CONTROL | QINFER_TOKEN_END;
    qinfer_grammar_vocab_options options = {};
    options.struct_size = sizeof options;
    options.n_tokens = static_cast<std::uint32_t>(texts.size());
    options.texts = pointers.data();
    options.text_lens = sizes.data();
    options.flags = flags.data();
    qinfer_grammar_vocab* vocab = nullptr;
    if (qinfer_grammar_vocab_create(&options, &vocab, nullptr) != QINFER_OK) __builtin_trap();
    return vocab;
  }();
  return made;
}

void walk(qinfer_grammar_matcher* matcher, Choices& choices) {
  constexpr std::size_t kWords = 9, kEnd = 256;
  std::uint32_t mask[kWords], again[kWords];
  std::size_t n = 0;
  for (int step = 0; step < 64; ++step) {
    if (qinfer_grammar_matcher_mask(matcher, mask, kWords, &n, nullptr) != QINFER_OK) return;
    std::size_t token = choices.below(257);
    for (std::size_t tried = 0; tried <= kEnd && (mask[token / 32] >> (token % 32) & 1) == 0; ++tried)
      token = (token + 1) % 257;
    const auto chosen = static_cast<qinfer_token>(token);
    if (qinfer_grammar_matcher_accept(matcher, &chosen, 1, nullptr) != QINFER_OK) __builtin_trap();
    if (choices.one_of(4)) {
      if (qinfer_grammar_matcher_rewind(matcher, 1, nullptr) != QINFER_OK) __builtin_trap();
      if (qinfer_grammar_matcher_mask(matcher, again, kWords, &n, nullptr) != QINFER_OK) return;
      if (!std::equal(mask, mask + kWords, again)) __builtin_trap();
    } else if (token == kEnd) {
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices({reinterpret_cast<const char*>(data), size});
  const std::size_t kind = choices.below(6);
  Choices steps(std::string_view(reinterpret_cast<const char*>(data), size));
  const std::string text = kind < 4 ? make_schema(choices) : choices.text(2048);
  constexpr std::int32_t kKinds[] = {QINFER_GRAMMAR_REGEX, QINFER_GRAMMAR_LARK};
  qinfer_grammar_options options = {};
  options.struct_size = sizeof options;
  options.max_states = 5000;
  options.max_symbols = 20000;
  options.compile_work = 100000;
  options.mask_work = 20000;
  qinfer_grammar* grammar = nullptr;
  qinfer_error error;
  const qinfer_status status =
      qinfer_grammar_compile(vocabulary(), kind < 4 ? QINFER_GRAMMAR_JSON_SCHEMA : kKinds[kind - 4], text.data(),
                             text.size(), &options, &grammar, &error);
  if (status == QINFER_E_INTERNAL) __builtin_trap();
  if (status != QINFER_OK) return 0;
  qinfer_grammar_matcher* matcher = nullptr;
  if (qinfer_grammar_matcher_create(grammar, &matcher, nullptr) == QINFER_OK) walk(matcher, steps);
  qinfer_grammar_matcher_free(matcher);
  qinfer_grammar_free(grammar);
  return 0;
}

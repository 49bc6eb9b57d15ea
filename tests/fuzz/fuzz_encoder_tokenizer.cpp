// Fuzzes the tokenizers of encoders: a tokenizer.json with WordPiece or Unigram of which something was changed, or a
// charsmap with other bytes; then texts, pairs of texts and their tokens' text. Steps are few, so that a text which
// uses them up does so soon.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "mutate.h"
#include "text/charsmap.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using qinfer::Code;
using qinfer::Status;
using qinfer::fuzz::Choices;
using namespace qinfer::text;

constexpr const char* kFiles[] = {"word_piece_cased", "word_piece_accents_only", "pre_whitespace", "unigram_ties",
                                  "form_nfkd",        "unigram_bytes",           "unigram_t5"};
constexpr std::uint64_t kSteps = 2'000'000;

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(QINFER_TEST_FIXTURES) + "/tokenizers/" + name + ".json", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) __builtin_trap();
  return text;
}

const std::vector<std::string>& known_values() {
  static const std::vector<std::string> values = {
      R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":true,"lowercase":false})",
      R"({"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"StripAccents"},{"type":"Nmt"}]})",
      R"({"type":"NFD"})",
      R"({"type":"Strip","strip_left":true,"strip_right":false})",
      R"({"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="})",
      R"({"type":"BertPreTokenizer"})",
      R"({"type":"Whitespace"})",
      R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"a","prepend_scheme":"first","split":true}]})",
      R"({"type":"Punctuation","behavior":"MergedWithNext"})",
      R"({"type":"CharDelimiterSplit","delimiter":"e"})",
      R"({"type":"BertProcessing","sep":["a",1],"cls":["b",0]})",
      R"({"type":"RobertaProcessing","sep":["a",1],"cls":["b",0],"trim_offsets":true,"add_prefix_space":true})",
      R"({"Sequence":{"id":"B","type_id":1}})",
      R"({"SpecialToken":{"id":"[SEP]","type_id":255}})",
      R"({"type":"WordPiece","prefix":"","cleanup":true})",
      R"({"type":"Unigram","unk_id":0,"vocab":[["a",-1],["aa",-1e308],["<0x61>",0.5]],"byte_fallback":true})",
      R"({"type":"WordPiece","unk_token":"a","continuing_subword_prefix":"a","max_input_chars_per_word":9,"vocab":{"a":0,"aab":1}})",
      R"(["a",-1.5])",
      R"("Unigram")",
      R"("WordPiece")",
      R"("##")",
      R"("")"};
  return values;
}

void broken(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  __builtin_trap();
}

/// Whether a call succeeded; a refusal must say why.
bool good(const Status& status) {
  if (!status.ok() && (status.message().empty() || status.code() == Code::internal))
    broken("an error without a reason");
  return status.ok();
}

void use(const Tokenizer& tokenizer, Choices& choices) {
  std::string text = "Hello  the \u00c9t\u00e9 12, \u4f60 " + choices.text(300);
  text.resize(find_invalid_utf8(text));
  std::vector<TokenId> ids;
  std::vector<TypeId> types;
  const EncodeOptions options{.add_special = true, .parse_special = choices.one_of(2), .max_work = kSteps};
  if (!good(tokenizer.encode(text, options, ids, types)) && !ids.empty()) broken("tokens of a text that was refused");
  static_cast<void>(good(tokenizer.encode_pair(text, "a b", options, ids, types)));
  if (types.size() != ids.size()) broken("not a type for each token");
  Detokenizer detokenizer(tokenizer);
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<std::uint32_t>(id) >= tokenizer.size()) broken("a token beyond the vocabulary");
    std::vector<char> out(3 * tokenizer.max_token_bytes() + 16);  // fresh, so that a sanitizer sees a byte too many
    const std::size_t n = detokenizer.push(id, out);
    if (n > out.size()) broken("more text than there is room for");
  }
}

void try_charsmap(Choices& choices) {
  const auto map = Charsmap::parse(choices.text(2000), "charsmap");
  if (!map.ok()) return;
  Work work(kSteps, {});
  std::string text = "a\u0301\uff21bc", out;
  text += choices.text(200);
  text.resize(find_invalid_utf8(text));
  static_cast<void>(good(map.value().append_by_cluster(text, 1 << 20, work, out)));
  static_cast<void>(good(map.value().append_by_prefix(text, 1 << 20, work, out)));
  if (find_invalid_utf8(out) != out.size()) broken("replacements that are not UTF-8");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> read;
    for (const char* name : kFiles) read.push_back(read_file(name));
    return read;
  }();
  Choices choices({reinterpret_cast<const char*>(data), size});
  if (choices.one_of(8)) {
    try_charsmap(choices);
    return 0;
  }
  const std::string text = qinfer::fuzz::mutate_json(files[choices.below(files.size())], known_values(), choices);
  auto loaded = Tokenizer::from_json(text, "tokenizer.json", {});
  if (!loaded.ok()) {
    static_cast<void>(good(loaded.take_status()));
    return 0;
  }
  use(*loaded.value(), choices);
  return 0;
}

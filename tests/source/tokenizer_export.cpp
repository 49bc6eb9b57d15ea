// Tokenizers as key-values of GGUF files that are written: what is read back from the keys for llama.cpp, without the
// whole tokenizer.json beside them, gives the tokens that Hugging Face's library gives.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "formats/gguf.h"
#include "source/gguf_tokenizer.h"
#include "source/gguf_tokenizer_export.h"
#include "support/checkpoint_writer.h"
#include "support/tokenizers.h"
#include "text/normal_form.h"
#include "text/unicode.h"
#include "text/utf8.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

const std::filesystem::path kTokenizers = QINFER_TEST_FIXTURES "/tokenizers";

std::string fixture(const std::string& name) { return read_text_file(kTokenizers / (name + ".json")); }

model::ModelSpec encoder(std::uint32_t n_vocab, std::uint32_t n_types) {
  model::ModelSpec spec;
  spec.causal = false;
  spec.n_vocab = n_vocab;
  spec.n_types = n_types;
  return spec;
}

struct Exported {
  std::string note, model;
  formats::Gguf gguf;
  source::GgufTokenizer keys;  ///< what they alone say; nothing where the model is "none"
};

Exported export_tokenizer(const std::string& json, const model::ModelSpec& spec) {
  const auto tokenizer = load_tokenizer_text(json);
  formats::GgufWriter writer;
  writer.add_text("general.architecture", "bert");
  auto note = source::add_gguf_tokenizer(json, spec, *tokenizer, {}, writer);
  REQUIRE(note.ok());
  std::string bytes = writer.header();
  constexpr std::string_view kWhole = "tokenizer.huggingface.json", kOther = "tokenizer.huggingface.not_";
  const std::size_t at = bytes.find(kWhole);
  REQUIRE(at != bytes.npos);
  bytes.replace(at, kWhole.size(), kOther);
  const ModelDir place;
  place.write("keys.gguf", bytes);
  auto opened = formats::Gguf::open(place.file("keys.gguf"), nullptr, {});
  REQUIRE(opened.ok());
  Exported out{std::move(note.value()), {}, std::move(opened.value()), {}};
  out.model = *out.gguf.metadata().string("tokenizer.ggml.model").value();
  if (out.model == "none") return out;
  auto read = source::read_gguf_tokenizer(out.gguf.metadata(), {}, {});
  if (!read.ok()) FAIL(std::string(read.take_status().message()));
  out.keys = std::move(read.value());
  return out;
}

struct Compared {
  std::size_t texts = 0, pairs = 0, other_texts = 0, other_pairs = 0;
};

/// Of all texts of a fixture, with the tokens around them.
Compared compare(const std::string& name, const Tokenizer& tokenizer) {
  Compared n;
  std::ifstream file(kTokenizers / (name + ".cases.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const Json c = Json::parse(line);
    if (c.contains("most")) continue;
    std::vector<TokenId> ids;
    std::vector<text::TypeId> types;
    const Tokenizer::EncodeOptions options{.add_special = true, .parse_special = true};
    if (c.contains("pair")) {
      REQUIRE(
          tokenizer.encode_pair(c["pair"][0].get<std::string>(), c["pair"][1].get<std::string>(), options, ids, types)
              .ok());
      ++n.pairs;
      const bool same =
          ids == c["ids"].get<std::vector<TokenId>>() && types == c["types"].get<std::vector<text::TypeId>>();
      n.other_pairs += same ? 0 : 1;
      continue;
    }
    REQUIRE(tokenizer.encode(c["text"].get<std::string>(), options, ids).ok());
    ++n.texts;
    if (ids != c[c.contains("added") ? "added" : "ids"].get<std::vector<TokenId>>()) {
      UNSCOPED_INFO(name << ": " << line.substr(0, 300));
      ++n.other_texts;
    }
  }
  REQUIRE(n.texts >= 24);
  return n;
}

}  // namespace

TEST_CASE("exported WordPiece gives the tokens of its tokenizer.json", "[gguf][export]") {
  struct Case {
    const char *name, *note;
    std::size_t other;  ///< texts with words of more characters than the file allows, or added tokens of other forms
  };
  for (const Case& test : {Case{"word_piece", "", 0}, Case{"word_piece_cased", "words of many characters", 0}}) {
    INFO(test.name);
    const Exported exported = export_tokenizer(fixture(test.name), encoder(430, 2));
    CHECK(exported.model == "bert");
    CHECK(exported.note.find(test.note) != std::string::npos);
    CHECK(exported.note.empty() == (*test.note == 0));
    const Compared n = compare(test.name, *exported.keys.tokenizer);
    CHECK(n.other_texts == test.other);
    CHECK(n.pairs > 0);
  }
}

namespace {

/// Letters, numbers, punctuation and symbols that no normal form changes, and single spaces between them:
/// SentencePiece, which the keys mean, and Hugging Face's library are of different minds about others.
bool is_plain(const std::string& text) {
  const text::KindSet known =
      *text::find_category("L") | *text::find_category("N") | *text::find_category("P") | *text::find_category("S");
  for (std::size_t i = 0; i < text.size();) {
    const text::Char c = text::char_at(text, i);
    const bool is_single_space = text[i] == ' ' && i != 0 && i + 1 != text.size() && text[i - 1] != ' ';
    if (!is_single_space && (known >> text::char_kind(c.code) & 1) == 0) return false;
    i += c.size;
  }
  std::string form;
  std::vector<std::int32_t> room;
  REQUIRE(text::append_normal_form(text::NormalForm::kc, text, room, form).ok());
  return form == text;
}

std::vector<std::string> plain_texts() {
  std::vector<std::string> texts;
  std::ifstream file(QINFER_TEST_FIXTURES "/golden_tokens/texts.jsonl");
  for (std::string line; std::getline(file, line);) {
    auto text = Json::parse(line).get<std::string>();
    if (is_plain(text)) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

TEST_CASE("exported Unigram gives the tokens of its tokenizer.json", "[gguf][export]") {
  struct Case {
    const char *name, *note;
    bool pairs;  ///< of texts, of which its file says how they are joined
  };
  const std::vector<std::string> texts = plain_texts();
  REQUIRE(texts.size() > 100);
  for (const Case& test : {Case{"unigram", "", true}, Case{"unigram_t5", "spaces at the ends", true},
                           Case{"unigram_bytes", "not bytes", false}}) {
    INFO(test.name);
    const Exported exported = export_tokenizer(fixture(test.name), encoder(500, 1));
    CHECK(exported.model == "t5");
    CHECK(exported.note.find(test.note) != std::string::npos);
    CHECK(exported.note.empty() == (*test.note == 0));
    const auto whole = load_tokenizer_text(fixture(test.name));
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(texts[i]);
      CHECK(encode(*exported.keys.tokenizer, texts[i], true, true) == encode(*whole, texts[i], true, true));
      if (!test.pairs || i == 0) continue;
      std::vector<TokenId> want, found;
      std::vector<text::TypeId> types;
      REQUIRE(whole->encode_pair(texts[i - 1], texts[i], {.add_special = true}, want, types).ok());
      REQUIRE(exported.keys.tokenizer->encode_pair(texts[i - 1], texts[i], {.add_special = true}, found, types).ok());
      CHECK(found == want);
    }
  }
}

TEST_CASE("exported BPE of an encoder has the tokens around a text", "[gguf][export]") {
  Json file = Json::parse(fixture("gpt2"));
  const Json around = {{"type", "RobertaProcessing"},
                       {"sep", {"<|b|>", 381}},
                       {"cls", {"<|a|>", 380}},
                       {"trim_offsets", true},
                       {"add_prefix_space", false}};
  file["post_processor"] = around;
  const auto add = [&](int id, const char* content) {
    file["added_tokens"].push_back({{"id", id},
                                    {"content", content},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
  };
  add(380, "<|a|>");
  add(381, "<|b|>");
  const Exported exported = export_tokenizer(file.dump(), encoder(410, 1));
  CHECK(exported.model == "gpt2");
  CHECK(exported.note.empty());
  const auto whole = load_tokenizer_text(file.dump());
  CHECK(encode(*exported.keys.tokenizer, "hello world", true, true) == encode(*whole, "hello world", true, true));
  std::vector<TokenId> want, found;
  std::vector<text::TypeId> types;
  REQUIRE(whole->encode_pair("hello", "world", {.add_special = true}, want, types).ok());
  REQUIRE(exported.keys.tokenizer->encode_pair("hello", "world", {.add_special = true}, found, types).ok());
  CHECK(found == want);
  CHECK(std::count(want.begin(), want.end(), 381) == 3);
  // A decoder does not end what it goes on with.
  model::ModelSpec decoder = encoder(410, 0);
  decoder.causal = true;
  decoder.bos_token = 380;
  CHECK(export_tokenizer(file.dump(), decoder).model == "none");
  decoder.end_tokens = {3, 381};
  const Exported ends = export_tokenizer(file.dump(), decoder);
  CHECK(ends.model == "gpt2");
  CHECK(ends.keys.eos == 381);
  CHECK(ends.keys.eot == 3);
}

TEST_CASE("tokenizers of encoders that keys cannot say are said to be so", "[gguf][export]") {
  const auto refused = [](const Json& file, const std::string& why) {
    INFO(why);
    const Exported exported = export_tokenizer(file.dump(), encoder(500, 2));
    CHECK(exported.model == "none");
    CHECK(exported.note.find(why) != std::string::npos);
  };
  const Json word_piece = Json::parse(fixture("word_piece")), unigram = Json::parse(fixture("unigram"));
  const auto at = [](Json file, const char* pointer, const Json& value) {
    file[Json::json_pointer(pointer)] = value;
    return file;
  };
  refused(at(word_piece, "/normalizer", {{"type", "Lowercase"}}), "not BertNormalizer");
  refused(at(word_piece, "/normalizer/clean_text", false), "control characters");
  refused(at(word_piece, "/pre_tokenizer", {{"type", "Whitespace"}}), "not BertPreTokenizer");
  refused(at(word_piece, "/model/continuing_subword_prefix", ""), "no \"##\"");
  refused(at(word_piece, "/post_processor", nullptr), "as BERT does");
  refused(at(unigram, "/normalizer", {{"type", "NFKC"}}), "normalises by \"NFKC\"");
  refused(at(unigram, "/normalizer", nullptr), "no charsmap");
  refused(at(unigram, "/pre_tokenizer", nullptr), "no Metaspace");
  refused(at(unigram, "/pre_tokenizer", {{"type", "Whitespace"}}), "has a part \"Whitespace\"");
  refused(at(unigram, "/model/unk_id", nullptr), "no token for what has none");
  refused(at(unigram, "/model/vocab/50/0", "a\u2581b"), "go over words");
  for (const char* name : {"word_level", "inside", "word_end"}) refused(Json::parse(fixture(name)), "");
}

TEST_CASE("word pieces that would be read as others are left out", "[gguf][export]") {
  Json file = Json::parse(fixture("word_piece"));
  for (const char* token : {"##\u2581x", "##[x]"}) file["model"]["vocab"][token] = file["model"]["vocab"].size();
  const Exported exported = export_tokenizer(file.dump(), encoder(430, 2));
  CHECK(exported.model == "bert");
  const auto types = exported.gguf.metadata().find("tokenizer.ggml.token_type");
  REQUIRE(types != nullptr);
  CHECK(compare("word_piece", *exported.keys.tokenizer).other_texts == 0);
}

// Tokenizers of GGUF files: the tokens that llama.cpp and Hugging Face's library give, special ids, chat templates, and
// key-values that are damaged one at a time.
#include "source/gguf_tokenizer.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "formats/gguf_writer.h"
#include "source/chat_tokens.h"
#include "source/gguf_pre_tokenizers.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_keys.h"
#include "support/test_data.h"
#include "support/tokenizers.h"
#include "text/pre_tokenizer.h"

using namespace qinfer;
using namespace qinfer::test;
namespace fs = std::filesystem;
using source::GgufTokenizer;

namespace {

const fs::path kFixtures = QINFER_TEST_FIXTURES;

// Of the test data.
constexpr char kGpt2[] = "tokenizers/gpt2/tokenizer.json";
constexpr char kMistral[] = "tokenizers/mistral/tokenizer.json";
constexpr char kQwen3[] = "tokenizers/qwen3/tokenizer.json";

Result<GgufTokenizer> open_tokenizer(const std::string& path, std::uint32_t vocab_size = 0) {
  auto opened = formats::Gguf::open(path, nullptr, {});
  if (!opened.ok()) return opened.take_status();
  return source::read_gguf_tokenizer(opened.value().metadata(), {vocab_size}, {});
}

GgufTokenizer load(const std::string& path) {
  auto loaded = open_tokenizer(path);
  if (!loaded.ok()) FAIL(std::string(loaded.take_status().message()));
  return std::move(loaded.value());
}

Result<GgufTokenizer> read(const GgufKeys& keys, std::uint32_t vocab_size = 0) {
  const ModelDir directory;
  directory.write("model.gguf", keys.file());
  return open_tokenizer(directory.file("model.gguf"), vocab_size);
}

GgufTokenizer load(const GgufKeys& keys) {
  auto loaded = read(keys);
  if (!loaded.ok()) FAIL(std::string(loaded.take_status().message()));
  return std::move(loaded.value());
}

/// Of a file without a chat template.
std::vector<TokenId> end_tokens(const GgufTokenizer& tokenizer) {
  model::ModelSpec spec;
  spec.n_vocab = tokenizer.tokenizer->size();
  source::take_end_tokens(tokenizer, spec);
  Notes notes;
  REQUIRE(source::find_end_tokens({}, *tokenizer.tokenizer, spec, notes, {}).ok());
  return spec.end_tokens;
}

/// "a", "b", "ab", a space before them, and two added tokens.
GgufKeys byte_level_keys() {
  GgufKeys keys;
  keys.set("general.architecture", "llama");
  keys.set("tokenizer.ggml.model", "gpt2");
  keys.set("tokenizer.ggml.pre", "qwen2");
  keys.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "\u0120", "ab", "\u0120a", "<|im_end|>", "<x>"});
  keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 1, 3, 4});
  keys.set("tokenizer.ggml.merges", std::vector<std::string>{"a b", "\u0120 a"});
  keys.set("tokenizer.ggml.eos_token_id", 5U);
  return keys;
}

GgufKeys score_keys() {
  GgufKeys keys;
  keys.set("general.architecture", "llama");
  keys.set("tokenizer.ggml.model", "llama");
  keys.set("tokenizer.ggml.tokens",
           std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "b", "ab", "ba", "\u2581", "\u2581a", "<0x41>", "<s"});
  keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1, 1, 1, 1, 1, 1, 6, 1});
  keys.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -9, -1, -1, -9, -5, 0, -9});
  return keys;
}

/// The key-values that the conversion of a tokenizer.json gives. By score they fall in the order in which merges make
/// tokens.
GgufKeys converted_keys(const Json& json, const std::string& model, const std::string& pre) {
  const bool by_score = model == "llama";
  std::map<std::size_t, std::pair<std::string, std::int32_t>> tokens;
  for (const auto& [content, id] : json["model"]["vocab"].items())
    tokens[id] = {content, by_score && content.size() == 6 && content.starts_with("<0x") ? 6 : 1};
  for (const Json& added : json["added_tokens"]) tokens[added["id"]] = {added["content"], added["special"] ? 3 : 4};
  std::map<std::string, float> order;
  std::vector<std::string> merges;
  for (const Json& merge : json["model"]["merges"]) {
    std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
    if (!merge.is_string()) text = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    merges.push_back(text);
    order.emplace(text.erase(text.find(' ', 1), 1), -static_cast<float>(order.size()));
  }
  std::vector<std::string> contents(tokens.rbegin()->first + 1);
  std::vector<std::int32_t> types(contents.size(), 5);
  std::vector<float> scores(contents.size());
  for (const auto& [id, token] : tokens) {
    contents[id] = token.first;
    types[id] = token.second;
    const auto known = order.find(token.first);
    scores[id] = known == order.end() ? -1e6F : known->second;
  }
  GgufKeys keys;
  keys.set("general.architecture", "llama");
  keys.set("tokenizer.ggml.model", model);
  keys.set("tokenizer.ggml.pre", pre);
  keys.set("tokenizer.ggml.tokens", contents);
  keys.set("tokenizer.ggml.token_type", types);
  if (by_score) keys.set("tokenizer.ggml.scores", scores);
  if (!by_score) keys.set("tokenizer.ggml.merges", merges);
  return keys;
}

void check_converted(const GgufKeys& keys, const char* golden) {
  const GgufTokenizer loaded = load(keys);
  std::ifstream texts(kFixtures / "golden_tokens" / "texts.jsonl"), ids(kFixtures / "golden_tokens" / golden);
  std::size_t lines = 0;
  for (std::string text, expected; std::getline(texts, text) && std::getline(ids, expected); ++lines) {
    INFO(text);
    const auto found = encode(*loaded.tokenizer, Json::parse(text).get<std::string>());
    REQUIRE(found == Json::parse(expected)["ids"].get<std::vector<TokenId>>());
  }
  REQUIRE(lines > 1000);
}

}  // namespace

TEST_CASE("a GGUF file's tokenizer gives llama.cpp's, tokenizers' or SentencePiece's tokens", "[gguf]") {
  const std::string name = GENERATE("qwen2", "llama_bpe", "gpt_4o", "gpt_2", "smollm", "llama", "gemma", "gemma4",
                                    "ties", "bert", "t5", "t5_bytes");
  const fs::path path = kFixtures / "gguf_tokenizers" / name;
  const GgufTokenizer loaded = load(path.string() + ".gguf");
  std::ifstream file(path.string() + ".cases.jsonl");
  std::size_t cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Json parsed = Json::parse(line);
    if (parsed.contains("pair")) continue;
    INFO(name << ": " << line);
    const std::string text = parsed["text"];
    const auto ids_of = [&](const char* key) {
      return parsed[parsed.contains(key) ? key : "ids"].get<std::vector<TokenId>>();
    };
    REQUIRE(encode(*loaded.tokenizer, text) == ids_of("ids"));
    REQUIRE(encode(*loaded.tokenizer, text, false) == ids_of("plain"));
    REQUIRE(encode(*loaded.tokenizer, text, true, true) == ids_of("added"));
  }
  REQUIRE(cases > 40);
}

TEST_CASE("Gemma 4's tokenizer by the names of pre-tokenizers that stand for it", "[gguf]") {
  const std::string path = (kFixtures / "gguf_tokenizers" / "gemma4").string();
  auto opened = formats::Gguf::open(path + ".gguf", nullptr, {});
  REQUIRE(opened.ok());
  const formats::GgufMetadata& metadata = opened.value().metadata();
  const GgufTokenizer want = load(path + ".gguf");
  for (const char* pre : {"gemma4", "granite-embed-multi-311m"}) {
    INFO(pre);
    formats::GgufWriter writer;
    writer.add_text("tokenizer.ggml.model", "gpt2");
    writer.add_text("tokenizer.ggml.pre", pre);
    for (std::size_t i = 0; i < metadata.size(); ++i)
      if (metadata[i].key != "tokenizer.ggml.model") writer.add(metadata[i]);
    const ModelDir place;
    place.write("model.gguf", writer.header());
    const GgufTokenizer found = load(place.file("model.gguf"));
    for (const char* text : {"hello  world\n\n", " a", "don't \u4f60\u597d \U0001F642"})
      CHECK(encode(*found.tokenizer, text, true, true) == encode(*want.tokenizer, text, true, true));
  }
}

TEST_CASE("decoding with a GGUF file's tokenizer gives the text again", "[gguf]") {
  const std::string name = GENERATE("llama_bpe", "gpt_4o", "gpt_2", "smollm", "llama", "gemma", "gemma4");
  const GgufTokenizer loaded = load((kFixtures / "gguf_tokenizers" / (name + ".gguf")).string());
  for (const std::string text : {"hello world", "  two  spaces", "don't \u4f60\u597d \U0001F642", "a\n\nb"}) {
    INFO(name << ": " << text);
    REQUIRE(decode(*loaded.tokenizer, encode(*loaded.tokenizer, text)) == text);
  }
}

TEST_CASE("GPT-2's tokenizer.json as GGUF key-values gives Hugging Face's tokens", "[gguf]") {
  SKIP_UNLESS_TEST_DATA(kGpt2);
  check_converted(converted_keys(Json::parse(read_text_file(find_test_data(kGpt2))), "gpt2", "gpt-2"), "gpt2.jsonl");
}

TEST_CASE("Qwen3's tokenizer.json as GGUF key-values gives Hugging Face's tokens", "[gguf]") {
  SKIP_UNLESS_TEST_DATA(kQwen3);
  check_converted(converted_keys(Json::parse(read_text_file(find_test_data(kQwen3))), "gpt2", "qwen2"), "qwen3.jsonl");
}

TEST_CASE("Mistral's tokenizer.json as GGUF key-values gives Hugging Face's tokens", "[gguf]") {
  SKIP_UNLESS_TEST_DATA(kMistral);
  check_converted(converted_keys(Json::parse(read_text_file(find_test_data(kMistral))), "llama", "default"),
                  "mistral.jsonl");
}

TEST_CASE("a GGUF file says which tokens begin and end texts", "[gguf]") {
  SECTION("keys, and names of added tokens") {
    GgufKeys keys = byte_level_keys();
    keys.set("tokenizer.ggml.eos_token_id", 6U);
    keys.set("tokenizer.ggml.padding_token_id", UINT32_MAX);
    keys.set("tokenizer.ggml.add_eos_token", true);
    const GgufTokenizer loaded = load(keys);
    CHECK(loaded.bos == -1);
    CHECK(loaded.eos == 6);
    CHECK(loaded.padding == -1);
    CHECK(end_tokens(loaded) == std::vector<TokenId>{6, 5});
    CHECK(loaded.tokenizer->is_control(6));
    CHECK(encode(*loaded.tokenizer, "ab", false, true) == std::vector<TokenId>{3, 6});
  }
  SECTION("SentencePiece's where keys are absent") {
    const GgufTokenizer loaded = load(score_keys());
    CHECK(loaded.bos == 1);
    CHECK(loaded.unknown == 0);
    CHECK(end_tokens(loaded) == std::vector<TokenId>{2});
    CHECK(encode(*loaded.tokenizer, "a", false, true) == std::vector<TokenId>{1, 8});
  }
  SECTION("a pre-tokenizer whose models begin texts needs the id") {
    GgufKeys keys = byte_level_keys();
    keys.set("tokenizer.ggml.pre", "llama-bpe");
    CHECK_FALSE(read(keys).ok());
    keys.set("tokenizer.ggml.bos_token_id", 5U);
    CHECK(encode(*load(keys).tokenizer, "ab", false, true) == std::vector<TokenId>{5, 3});
    keys.remove("tokenizer.ggml.bos_token_id");
    keys.set("tokenizer.ggml.add_bos_token", false);
    CHECK(encode(*load(keys).tokenizer, "ab", false, true) == std::vector<TokenId>{3});
  }
}

TEST_CASE("text becomes control, byte and unused tokens of a GGUF file in no way", "[gguf]") {
  GgufKeys keys = score_keys();
  const std::vector<TokenId> as_text = {7, 10, 0};  // U+2581, "<s" and the unknown token for ">"
  CHECK(encode(*load(keys).tokenizer, "<s>", false) == as_text);
  CHECK(encode(*load(keys).tokenizer, "<s>", true) == std::vector<TokenId>{1});
  CHECK(encode(*load(keys).tokenizer, "A", false) == std::vector<TokenId>{7, 9});
  keys.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 1, 1, 5, 1, 1, 1, 6, 1});
  CHECK(encode(*load(keys).tokenizer, "ab", false) == std::vector<TokenId>{8, 4});
}

TEST_CASE("Phi-3's added tokens take the white space after them", "[gguf]") {
  GgufKeys keys = score_keys();
  CHECK(encode(*load(keys).tokenizer, "</s>  a") == std::vector<TokenId>{2, 7, 7, 8});
  keys.set("general.name", "Phi-3 Mini");
  CHECK(encode(*load(keys).tokenizer, "</s>  a") == std::vector<TokenId>{2, 8});
}

TEST_CASE("a whole tokenizer.json in a GGUF file is the tokenizer", "[gguf]") {
  GgufKeys keys = byte_level_keys();
  keys.set("tokenizer.ggml.model", "something else");
  keys.set("tokenizer.huggingface.json", small_tokenizer().dump());
  keys.set("tokenizer.ggml.eos_token_id", 2U);
  const GgufTokenizer loaded = load(keys);
  CHECK(loaded.tokenizer->size() == 265);
  CHECK(end_tokens(loaded) == std::vector<TokenId>{2});
  keys.set("tokenizer.huggingface.json", "{");
  CHECK_FALSE(read(keys).ok());
}

TEST_CASE("chat templates of a GGUF file", "[gguf]") {
  const auto templates_of = [](const GgufKeys& keys) {
    const ModelDir directory;
    directory.write("model.gguf", keys.file());
    auto opened = formats::Gguf::open(directory.file("model.gguf"), nullptr, {});
    REQUIRE(opened.ok());
    return source::read_gguf_chat_templates(opened.value().metadata());
  };
  GgufKeys keys = byte_level_keys();
  CHECK(templates_of(keys).list.empty());
  keys.set("tokenizer.chat_template", "plain");
  keys.set("tokenizer.chat_templates", std::vector<std::string>{"tool_use", "a"});
  keys.set("tokenizer.chat_template.a", "first");
  keys.set("tokenizer.chat_template.tool_use", "tools");
  const auto found = templates_of(keys);
  REQUIRE(found.status.ok());
  REQUIRE(found.list.size() == 3);
  CHECK(found.list[0].name == "a");
  CHECK(found.list[1].name == "default");
  CHECK(found.list[1].text == "plain");
  CHECK(found.list[2].text == "tools");
  keys.remove("tokenizer.chat_template.a");
  const auto damaged = templates_of(keys);
  CHECK(damaged.list.empty());
  CHECK(damaged.status.code() == Code::format);
}

TEST_CASE("the patterns of every name of a pre-tokenizer can be used", "[gguf]") {
  std::istringstream names(source::gguf_pre_tokenizer_names());
  std::size_t count = 0;
  for (std::string name; std::getline(names >> std::ws, name, ','); ++count) {
    INFO(name);
    const source::GgufPreTokenizer* row = source::find_gguf_pre_tokenizer(name);
    REQUIRE(row != nullptr);
    auto pre_tokenizer = text::PreTokenizer::byte_level(row->patterns, name);
    if (!pre_tokenizer.ok()) FAIL(std::string(pre_tokenizer.take_status().message()));
    text::PreTokenizerScratch scratch;
    scratch.text = "Hello wORLD don't 1234567 \u4f60\u597d\uac00 e\u0301!? \r\n\n  x";
    text::Work work(1'000'000, {});
    REQUIRE(pre_tokenizer.value().apply(true, 4096, work, scratch).ok());
    CHECK(scratch.pieces.size() >= 5);  // superbpe keeps words together
  }
  CHECK(count > 80);
}

TEST_CASE("a damaged tokenizer in a GGUF file is refused, naming the key", "[gguf]") {
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    const char* message;
    Code code;
    void (*damage)(GgufKeys&);
    bool by_score = false;
  };
  const Case cases[] = {
      {"tokenizer.ggml.model\" is missing", Code::format, [](GgufKeys& k) { k.remove("tokenizer.ggml.model"); }},
      {"tokenizer.ggml.model is \"rwkv\", supported are \"gpt2\", \"llama\", \"bert\", \"t5\" and \"gemma4\"",
       Code::unsupported, [](GgufKeys& k) { k.set("tokenizer.ggml.model", "rwkv"); }},
      {"tokenizer.ggml.pre is \"poro\", supported are default, gpt-2", Code::unsupported,
       [](GgufKeys& k) { k.set("tokenizer.ggml.pre", "poro"); }},
      {"tokenizer.ggml.pre", Code::format, [](GgufKeys& k) { k.set("tokenizer.ggml.pre", 1U); }},
      {"tokenizer.ggml.tokens\" is missing", Code::format, [](GgufKeys& k) { k.remove("tokenizer.ggml.tokens"); }},
      {"tokenizer.ggml.tokens\" is empty", Code::format,
       [](GgufKeys& k) { k.set("tokenizer.ggml.tokens", std::vector<std::string>{}); }},
      {"tokenizer.ggml.token_type\" has 7 values, expected 6", Code::format,
       [](GgufKeys& k) {
         k.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c", "d", "e", "f"});
       }},
      {"tokenizer.ggml.tokens[1] is not valid UTF-8", Code::format,
       [](GgufKeys& k) {
         k.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "\xff", "c", "d", "e", "f", "g"});
       }},
      {"tokenizer.ggml.token_type\" holds 7", Code::format,
       [](GgufKeys& k) {
         k.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{7, 1, 1, 1, 1, 3, 4});
       }},
      {"only the models \"llama\", \"t5\" and \"gemma4\" have", Code::unsupported,
       [](GgufKeys& k) {
         k.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{6, 1, 1, 1, 1, 3, 4});
       }},
      {"tokenizer.ggml.merges\" is missing", Code::format, [](GgufKeys& k) { k.remove("tokenizer.ggml.merges"); }},
      {"tokenizer.ggml.merges[0] is \"ab\", expected two tokens", Code::format,
       [](GgufKeys& k) { k.set("tokenizer.ggml.merges", std::vector<std::string>{"ab"}); }},
      {"tokenizer.ggml.merges: merge 0", Code::format,
       [](GgufKeys& k) { k.set("tokenizer.ggml.merges", std::vector<std::string>{"b a"}); }},
      {"tokenizer.ggml.merges[0] is not valid UTF-8", Code::format,
       [](GgufKeys& k) { k.set("tokenizer.ggml.merges", std::vector<std::string>{"a \xff"}); }},
      {"tokenizer.ggml.eos_token_id", Code::format, [](GgufKeys& k) { k.set("tokenizer.ggml.eos_token_id", "5"); }},
      {"tokenizer.ggml.bos_token_id\" is missing", Code::format,
       [](GgufKeys& k) { k.set("tokenizer.ggml.add_bos_token", true); }},
      {"tokenizer.ggml.seperator_token_id\" is missing", Code::format,
       [](GgufKeys& k) {
         k.set("tokenizer.ggml.add_eos_token", true);
         k.set("tokenizer.ggml.add_sep_token", true);
       }},
      {"tokenizer.ggml.scores\" is missing", Code::format, [](GgufKeys& k) { k.remove("tokenizer.ggml.scores"); },
       true},
      {"tokenizer.ggml.scores\" has 1 values, expected 11", Code::format,
       [](GgufKeys& k) { k.set("tokenizer.ggml.scores", std::vector<float>{1}); }, true},
      {"tokenizer.ggml.scores[3] is nan", Code::format,
       [](GgufKeys& k) {
         k.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, kNan, 0, 0, 0, 0, 0, 0, 0});
       },
       true},
      {"tokenizer.ggml.tokens[3] is \"a\", but a byte", Code::format,
       [](GgufKeys& k) {
         k.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 3, 3, 6, 1, 1, 1, 1, 1, 6, 1});
       },
       true},
      {"remove_extra_whitespaces\" is true", Code::unsupported,
       [](GgufKeys& k) { k.set("tokenizer.ggml.remove_extra_whitespaces", true); }, true},
  };
  for (const Case& damaged : cases) {
    INFO(damaged.message);
    GgufKeys keys = damaged.by_score ? score_keys() : byte_level_keys();
    REQUIRE(read(keys).ok());
    damaged.damage(keys);
    auto result = read(keys);
    REQUIRE_FALSE(result.ok());
    const Status status = result.take_status();
    INFO(status.message());
    CHECK(status.code() == damaged.code);
    CHECK(status.message().find(damaged.message) != std::string_view::npos);
    CHECK(status.message().find("model.gguf") != std::string_view::npos);
  }
  auto too_few_rows = read(byte_level_keys(), 6);
  REQUIRE_FALSE(too_few_rows.ok());
  CHECK(std::string(too_few_rows.take_status().message()).find("has 7 tokens, expected at most 6") !=
        std::string::npos);
}

TEST_CASE("a long text and long tokens by score take bounded time", "[gguf]") {
  // Tokens of 1 to 2,000 "a": each merge makes a longer one, and finding it means hashing all of it.
  std::vector<std::string> tokens = {"<unk>"};
  std::vector<std::int32_t> types = {2};
  std::vector<float> scores = {0};
  for (std::size_t i = 1; i <= 2000; ++i) {
    tokens.emplace_back(i, 'a');
    types.push_back(1);
    scores.push_back(static_cast<float>(i));
  }
  GgufKeys keys = score_keys();
  keys.set("tokenizer.ggml.tokens", tokens);
  keys.set("tokenizer.ggml.token_type", types);
  keys.set("tokenizer.ggml.scores", scores);
  keys.set("tokenizer.ggml.add_bos_token", false);
  const GgufTokenizer loaded = load(keys);
  std::vector<TokenId> ids;
  const std::string text(1'000'000, 'a');
  const Status status = loaded.tokenizer->encode(text, {}, ids);
  if (!status.ok()) CHECK(status.code() == Code::unsupported);
  ids.clear();
  const Status stopped = loaded.tokenizer->encode(text, {.max_work = 1'000'000}, ids);
  CHECK(stopped.code() == Code::unsupported);
  CHECK(ids.empty());
}

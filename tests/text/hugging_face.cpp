// The tokenizer against Hugging Face's: what that does with many texts for real tokenizers, and small fixtures for what
// those do not use.
#include <algorithm>
#include <chrono>

#include "support/test_data.h"
#include "support/tokenizers.h"

using namespace qinfer;
using namespace qinfer::test;
namespace fs = std::filesystem;

namespace {

const fs::path kFixtures = QINFER_TEST_FIXTURES;

// Of the test data.
constexpr char kGpt2[] = "tokenizers/gpt2/tokenizer.json";
constexpr char kMistral[] = "tokenizers/mistral/tokenizer.json";
constexpr char kQwen3[] = "tokenizers/qwen3/tokenizer.json";
constexpr char kStories260k[] = "stories260k";
constexpr char kStories260kTokens[] = "golden-tokens/stories260k.jsonl";

std::string read_test_data(const char* path) { return read_text_file(find_test_data(path)); }

/// Calls `check` with each line of a .jsonl file.
template <typename Check>
std::size_t for_each_line(const fs::path& path, Check check) {
  std::ifstream file(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const Json parsed = Json::parse(line);
    INFO(path.filename().string() << " line " << lines + 1 << ": " << line.substr(0, 300));
    check(parsed);
  }
  return lines;
}

const fs::path kGoldenTokens = kFixtures / "golden_tokens";

/// Checks a tokenizer.json against a file that make_golden_tokens.py made.
void check_golden_tokens(std::string_view file, const fs::path& golden_tokens) {
  const auto tokenizer = load_tokenizer_text(file);
  std::vector<std::string> texts;
  for_each_line(kGoldenTokens / "texts.jsonl", [&](const Json& text) { texts.push_back(text.get<std::string>()); });
  REQUIRE(texts.size() > 1000);
  auto text = texts.begin();
  const std::size_t lines = for_each_line(golden_tokens, [&](const Json& golden) {
    REQUIRE(text != texts.end());
    const auto ids = golden["ids"].get<std::vector<TokenId>>();
    REQUIRE(encode(*tokenizer, *text) == ids);
    REQUIRE(decode(*tokenizer, ids) == (golden.contains("decoded") ? golden["decoded"].get<std::string>() : *text));
    ++text;
  });
  REQUIRE(lines == texts.size());
}

void check_pair(const Tokenizer& tokenizer, const Json& c) {
  std::vector<TokenId> ids;
  std::vector<text::TypeId> types;
  const Tokenizer::EncodeOptions options{.add_special = true, .parse_special = true};
  text::PairLimit limit{.most = c.value("most", SIZE_MAX)};
  REQUIRE(
      tokenizer
          .encode_pair(c["pair"][0].get<std::string>(), c["pair"][1].get<std::string>(), options, ids, types, &limit)
          .ok());
  REQUIRE(limit.first_cut + limit.second_cut == c.value("cut", 0u));
  REQUIRE(ids == c["ids"].get<std::vector<TokenId>>());
  REQUIRE(types == c["types"].get<std::vector<text::TypeId>>());
}

void check_megabytes(const std::string& json) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  // Ten times and more what an optimised build takes; a quadratic step would take hours.
  constexpr double kEncodeSeconds = 20, kLoadSeconds = 10;
  auto begin = Clock::now();
  const auto tokenizer = load_tokenizer_text(json);
  REQUIRE(seconds_since(begin) < kLoadSeconds);
  for (const std::string unit : {"a", "Hello", "\u4f60\u597d", "\u0316\u0301", " ", "\n", "<|im_"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    INFO("a megabyte of \"" << unit << "\"");
    begin = Clock::now();
    const auto ids = encode(*tokenizer, text);
    REQUIRE(seconds_since(begin) < kEncodeSeconds);
    // Normalisation reorders the marks. No failure prints a megabyte.
    if (unit != "\u0316\u0301") REQUIRE((decode(*tokenizer, ids) == text));
  }
}

}  // namespace

TEST_CASE("GPT-2's tokenizer encodes and decodes as in Hugging Face's library", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kGpt2);
  check_golden_tokens(read_test_data(kGpt2), kGoldenTokens / "gpt2.jsonl");
}

TEST_CASE("Mistral's tokenizer encodes and decodes as in Hugging Face's library", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kMistral);
  check_golden_tokens(read_test_data(kMistral), kGoldenTokens / "mistral.jsonl");
}

TEST_CASE("Mistral's tokenizer with tokens that strip does as in Hugging Face's library", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kMistral);
  Json file = Json::parse(read_test_data(kMistral));
  // Added as Phi-3 adds its own to Llama's vocabulary.
  const Json added = Json::parse(read_text_file(kGoldenTokens / "stripping_tokens.json"));
  file["added_tokens"].insert(file["added_tokens"].end(), added.begin(), added.end());
  check_golden_tokens(file.dump(), kGoldenTokens / "mistral_stripping.jsonl");
}

TEST_CASE("Qwen3's tokenizer encodes and decodes as in Hugging Face's library", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kQwen3);
  check_golden_tokens(read_test_data(kQwen3), kGoldenTokens / "qwen3.jsonl");
}

TEST_CASE("the tokenizer of stories260k encodes and decodes as in Hugging Face's library", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kStories260k);
  SKIP_UNLESS_TEST_DATA(kStories260kTokens);
  const fs::path file = find_test_data(kStories260k) / "tokenizer.json";
  check_golden_tokens(read_text_file(file), find_test_data(kStories260kTokens));
}

TEST_CASE("fixtures encode and decode as in Hugging Face's library", "[text]") {
  const fs::path folder = fs::path(QINFER_TEST_FIXTURES) / "tokenizers";
  std::size_t tokenizers = 0, cases = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const auto tokenizer = load_tokenizer_text(read_text_file(entry.path()));
    fs::path lines = entry.path();
    cases += for_each_line(lines.replace_extension(".cases.jsonl"), [&](const Json& c) {
      if (c.contains("pair")) return check_pair(*tokenizer, c);
      const auto text = c["text"].get<std::string>();
      const auto ids = c["ids"].get<std::vector<TokenId>>();
      REQUIRE(encode(*tokenizer, text) == ids);
      REQUIRE(encode(*tokenizer, text, true, true) ==
              (c.contains("added") ? c["added"].get<std::vector<TokenId>>() : ids));
      REQUIRE(encode(*tokenizer, text, false) == (c.contains("plain") ? c["plain"].get<std::vector<TokenId>>() : ids));
      if (c.contains("decoded")) REQUIRE(decode(*tokenizer, ids) == c["decoded"].get<std::string>());
    });
    ++tokenizers;
  }
  REQUIRE(tokenizers >= 70);
  REQUIRE(cases >= 3500);
}

TEST_CASE("a megabyte without a space, and loading, take no more than a generous bound", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kMistral);
  check_megabytes(read_test_data(kMistral));
}

TEST_CASE("a megabyte without a space takes no more than a generous bound with Qwen3's tokenizer", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kQwen3);
  check_megabytes(read_test_data(kQwen3));
}

TEST_CASE("a real tokenizer's tables are counted alike every time", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kGpt2);
  const std::string file = read_test_data(kGpt2);
  const auto first = load_tokenizer_text(file), second = load_tokenizer_text(file);
  REQUIRE(first->memory_bytes() == second->memory_bytes());
  REQUIRE(first->memory_bytes() > file.size() / 4);
  REQUIRE(first->memory_bytes() < file.size() * 4);
  REQUIRE(first->size() == 50257);
}

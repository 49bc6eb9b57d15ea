// The tokenizer against Hugging Face's: what that does with many texts for five real tokenizers, and small fixtures for
// what those do not use.
#include <algorithm>
#include <chrono>

#include "test_data.h"
#include "text_support.h"

using namespace qinfer;
using namespace qinfer::test;
namespace fs = std::filesystem;

namespace {

const fs::path kFixtures = QINFER_TEST_FIXTURES;

constexpr char kQwen3[] = "tokenizers/qwen3/tokenizer.json";  // 11 MB, therefore not a fixture

fs::path real_tokenizer(const std::string& name) { return kFixtures / "real_tokenizers" / name / "tokenizer.json"; }

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

/// `text` without the control tokens that occur in it.
std::string without_control(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, std::string text) {
  for (const TokenId id : ids) {
    if (!tokenizer.is_control(id)) continue;
    const std::size_t at = text.find(tokenizer.token_bytes(id));
    if (at != std::string::npos) text.erase(at, tokenizer.token_bytes(id).size());
  }
  return text;
}

}  // namespace

namespace {

void check_golden_tokens(const fs::path& file, const std::string& name) {
  const auto tokenizer = load_tokenizer_text(read_text_file(file));
  const fs::path folder = kFixtures / "golden_tokens";
  std::vector<std::string> texts;
  for_each_line(folder / "texts.jsonl", [&](const Json& text) { texts.push_back(text.get<std::string>()); });
  REQUIRE(texts.size() > 1000);
  auto text = texts.begin();
  const std::size_t lines = for_each_line(folder / (name + ".jsonl"), [&](const Json& golden) {
    REQUIRE(text != texts.end());
    const auto ids = golden["ids"].get<std::vector<TokenId>>();
    REQUIRE(encode(*tokenizer, *text) == ids);
    // The golden texts were decoded with special tokens kept.
    const std::string decoded = golden.contains("decoded") ? golden["decoded"].get<std::string>() : *text;
    REQUIRE(decode(*tokenizer, ids) == without_control(*tokenizer, ids, decoded));
    ++text;
  });
  REQUIRE(lines == texts.size());
}

void check_megabytes(const fs::path& file) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  // Ten times and more what an optimised build takes; a quadratic step would take hours.
  constexpr double kEncodeSeconds = 20, kLoadSeconds = 10;
  const std::string json = read_text_file(file);
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

TEST_CASE("real tokenizers encode and decode as in Hugging Face's library", "[text]") {
  const std::string name = GENERATE(as<std::string>(), "minimind", "mistral", "phi3");
  check_golden_tokens(real_tokenizer(name), name);
}

TEST_CASE("the tokenizer of stories260k encodes and decodes as in Hugging Face's library", "[text]") {
  check_golden_tokens(kFixtures / "stories260k" / "tokenizer.json", "stories260k");
}

TEST_CASE("Qwen3's tokenizer encodes and decodes as in Hugging Face's library", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kQwen3);
  check_golden_tokens(find_test_data(kQwen3), "qwen3");
}

TEST_CASE("fixtures encode and decode as in Hugging Face's library", "[text]") {
  const fs::path folder = fs::path(QINFER_TEST_FIXTURES) / "tokenizers";
  std::size_t tokenizers = 0, cases = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const auto tokenizer = load_tokenizer_text(read_text_file(entry.path()));
    fs::path lines = entry.path();
    cases += for_each_line(lines.replace_extension(".cases.jsonl"), [&](const Json& c) {
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
  REQUIRE(tokenizers >= 40);
  REQUIRE(cases >= 600);
}

TEST_CASE("a megabyte without a space, and loading, take no more than a generous bound", "[text]") {
  check_megabytes(real_tokenizer("mistral"));
}

TEST_CASE("a megabyte without a space takes no more than a generous bound with Qwen3's tokenizer", "[text][data]") {
  SKIP_UNLESS_TEST_DATA(kQwen3);
  check_megabytes(find_test_data(kQwen3));
}

TEST_CASE("a real tokenizer's tables are counted alike every time", "[text]") {
  const std::string file = read_text_file(real_tokenizer("minimind"));
  const auto first = load_tokenizer_text(file), second = load_tokenizer_text(file);
  REQUIRE(first->memory_bytes() == second->memory_bytes());
  REQUIRE(first->memory_bytes() > file.size() / 4);
  REQUIRE(first->memory_bytes() < file.size() * 4);
  REQUIRE(first->size() == 6400);
}

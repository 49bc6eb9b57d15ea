// The tokenizer against Hugging Face's: the golden files of five real tokenizers, and small fixtures for what those do
// not use.
#include <algorithm>
#include <chrono>

#include "text_support.h"

using namespace qinfer;
using namespace qinfer::test;
namespace fs = std::filesystem;

namespace {

std::string real_tokenizer(const fs::path& data, const std::string& name) {
  return read_text_file((name == "stories260k" ? data / name : data / "tokenizers" / name) / "tokenizer.json");
}

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

TEST_CASE("real tokenizers encode and decode as in Hugging Face's library", "[text][data]") {
  const fs::path data = test_data("golden-tokens");
  if (data.empty()) return;
  const std::string name = GENERATE(as<std::string>(), "minimind", "mistral", "phi3", "qwen3", "stories260k");
  const auto tokenizer = load_tokenizer_text(real_tokenizer(data, name));
  const std::size_t lines = for_each_line(data / "golden-tokens" / (name + ".jsonl"), [&](const Json& golden) {
    const auto text = golden["text"].get<std::string>();
    const auto ids = golden["ids"].get<std::vector<TokenId>>();
    REQUIRE(encode(*tokenizer, text) == ids);
    // The golden texts were decoded with special tokens kept.
    const std::string decoded = golden.contains("decoded") ? golden["decoded"].get<std::string>() : text;
    REQUIRE(decode(*tokenizer, ids) == without_control(*tokenizer, ids, decoded));
  });
  REQUIRE(lines > 1000);
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

TEST_CASE("a megabyte without a space, and loading, take no more than a generous bound", "[text][data]") {
  const fs::path data = test_data("tokenizers");
  if (data.empty()) return;
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  // Ten times and more what an optimised build takes; a quadratic step would take hours.
  constexpr double kEncodeSeconds = 20, kLoadSeconds = 10;
  const std::string name = GENERATE(as<std::string>(), "qwen3", "mistral");
  const std::string file = real_tokenizer(data, name);
  auto begin = Clock::now();
  const auto tokenizer = load_tokenizer_text(file);
  REQUIRE(seconds_since(begin) < kLoadSeconds);

  const std::string unit =
      GENERATE(as<std::string>(), "a", "Hello", "\u4f60\u597d", "\u0316\u0301", " ", "\n", "<|im_");
  std::string text;
  while (text.size() < 1'000'000) text += unit;
  begin = Clock::now();
  const auto ids = encode(*tokenizer, text);
  REQUIRE(seconds_since(begin) < kEncodeSeconds);
  if (unit != "\u0316\u0301") REQUIRE(decode(*tokenizer, ids) == text);  // normalisation reorders those marks
}

TEST_CASE("a real tokenizer's tables are counted alike every time", "[text][data]") {
  const fs::path data = test_data("tokenizers");
  if (data.empty()) return;
  const std::string file = real_tokenizer(data, "minimind");
  const auto first = load_tokenizer_text(file), second = load_tokenizer_text(file);
  REQUIRE(first->memory_bytes() == second->memory_bytes());
  REQUIRE(first->memory_bytes() > file.size() / 4);
  REQUIRE(first->memory_bytes() < file.size() * 4);
  REQUIRE(first->size() == 6400);
}

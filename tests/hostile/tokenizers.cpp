// Tokenizer files that ask for endless work, memory or stack: each ends within the steps that the length of the text
// allows, with the reason. And what patterns mean by characters: the sets that Hugging Face's library has.
#include <atomic>
#include <thread>

#include "support/tokenizers.h"
#include "text/char_class.h"
#include "text/regex.h"
#include "text/utf8.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

/// A tokenizer whose text is split by a pattern alone.
std::unique_ptr<Tokenizer> split_by(const std::string& regex) {
  Json file = small_tokenizer();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  return load_tokenizer_text(file.dump());
}

std::string repeated(std::string_view part, std::size_t n) {
  std::string text;
  while (text.size() < n) text.append(part);
  return text;
}

}  // namespace

TEST_CASE("patterns that take quadratic time are stopped, with the offset", "[text][bad]") {
  struct Hostile {
    std::string pattern, text;
  };
  // The first three are those of the report; a search without a match, a look behind a run, and nested repetitions.
  const Hostile cases[] = {{"a+x|a", "a"},      {"a(?=[^x]*x)|b", "a"},     {"a(?=(?:b|a)*x)|b", "ab"},
                           {"a+b", "a"},        {"(?=a*$)a|a", "a"},        {"(?:a|aa)+$", "a"},
                           {"(?:a*)*x|a", "a"}, {"(a+a+)+[b\\d]", "a"},     {"(?!.*x.*y)a", "a"},
                           {"(?>a*)x|a", "a"},  {"(?:a?){30}a{30}x|a", "a"}};
  for (const auto& [pattern, part] : cases) {
    INFO(pattern);
    const auto tokenizer = split_by(pattern);
    std::vector<TokenId> ids;
    const std::string text = repeated(part, 200'000) + (pattern == "(?:a|aa)+$" ? "b" : "");
    const Status status = tokenizer->encode(text, {}, ids);
    CHECK(status.code() == Code::unsupported);
    CHECK(std::string(status.message()).find("steps") != std::string::npos);
    CHECK(status.detail() >= 0);
    CHECK(status.detail() <= static_cast<std::int64_t>(text.size()));
    CHECK(ids.empty());
    CHECK(tokenizer->encode("ab ab", {}, ids).ok());
  }
}

TEST_CASE("the work of a text can be bounded, and its end is where it is said to be", "[text]") {
  const auto tokenizer = split_by("\\p{L}+|\\s+");
  const std::string text = repeated("ab ", 3000);
  std::vector<TokenId> all, ids;
  REQUIRE(tokenizer->encode(text, {}, all).ok());
  std::int64_t before = -1;
  for (const std::uint64_t work : {3000u, 4500u, 6000u}) {  // all of them end while the pattern is looked for
    const Status status = tokenizer->encode(text, {.max_work = work}, ids);
    REQUIRE(status.code() == Code::unsupported);
    CAPTURE(work, status.message());
    CHECK(status.detail() >= before);
    before = status.detail();
    CHECK(ids.empty());
  }
  CHECK(before > 0);
  REQUIRE(tokenizer->encode(text, {.max_work = 40 * text.size()}, ids).ok());
  CHECK(ids == all);
}

TEST_CASE("tokenizing can be cancelled, before and while it is at work", "[text][threads]") {
  const auto tokenizer = split_by("a+x|a");
  std::atomic<bool> cancelled{true};
  std::vector<TokenId> ids;
  const std::string text = repeated("a", 100'000);
  CHECK(tokenizer->encode(text, {.cancel = &cancelled}, ids).code() == Code::cancelled);
  cancelled = false;
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancelled = true;
  });
  // Without it, 5 billion steps.
  const Status status = tokenizer->encode(text, {.max_work = UINT64_MAX / 2, .cancel = &cancelled}, ids);
  host.join();
  CHECK(status.code() == Code::cancelled);
}

TEST_CASE("added tokens among white space take time in proportion to the text", "[text][bad]") {
  for (const bool left : {false, true}) {
    Json file = small_tokenizer();
    file["normalizer"] = nullptr;
    file["added_tokens"].push_back({{"id", 265},
                                    {"content", " "},
                                    {"single_word", false},
                                    {"lstrip", left},
                                    {"rstrip", !left},
                                    {"normalized", false},
                                    {"special", false}});
    const auto tokenizer = load_tokenizer_text(file.dump());
    std::vector<TokenId> ids;
    const std::size_t n = 400'000;
    // 16 steps for a byte; with a walk to the end from each space it would be 80 billion.
    REQUIRE(tokenizer->encode(std::string(n, ' '), {.max_work = 16 * n}, ids).ok());
    CHECK(ids == std::vector<TokenId>(n, 265));
  }
  // Contents that begin alike: the walk from every byte is paid for.
  Json file = small_tokenizer();
  file["normalizer"] = nullptr;
  file["added_tokens"].push_back({{"id", 265},
                                  {"content", std::string(4000, 'a') + "b"},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", false}});
  std::vector<TokenId> ids;
  const Status status = load_tokenizer_text(file.dump())->encode(std::string(300'000, 'a'), {}, ids);
  CHECK(status.code() == Code::unsupported);
}

TEST_CASE("a normaliser's output is bounded in proportion to the text", "[text][bad]") {
  Json file = small_tokenizer(), steps = Json::array();
  for (int i = 0; i < 6; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(20, 'a')}});
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const auto grows = load_tokenizer_text(file.dump());
  std::vector<TokenId> ids;
  const Status status = grows->encode("aaaaaaaaaaaaaaaaaaaa", {}, ids);  // 20 bytes; 1.3 GB without a bound
  CHECK(status.code() == Code::unsupported);
  CHECK(std::string(status.message()).find("grows beyond 4736 bytes") != std::string::npos);
  // What real ones do: three bytes for one, and NFC.
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers",
                         {{{"type", "Prepend"}, {"prepend", "\u2581"}},
                          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}},
                          {{"type", "NFC"}}}}};
  CHECK(load_tokenizer_text(file.dump())->encode(std::string(1'000'000, ' '), {}, ids).ok());
  // A chain that is too long is refused when it is loaded.
  for (int i = 0; i < 100; ++i) steps.push_back({{"type", "NFC"}});
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  CHECK(Tokenizer::from_json(file.dump(), "tokenizer.json", {}).take_status().code() == Code::unsupported);
}

TEST_CASE("patterns that would be endless programs are refused", "[text][bad]") {
  const std::string nested = repeated("(?:", 3 * 200) + "a" + repeated(")", 200);
  for (const std::string& pattern :
       {std::string("(?:(?:(?:a{1000}){1000}){1000}){1000}"),
        std::string("(?:(?:(?:){100000}){100000}){100000}a{99999}b?"), nested, std::string(17000, 'a'),
        std::string("(?<=a+)b"), std::string("(?:(?:a?){200}){200}")}) {
    INFO(pattern.substr(0, 60));
    auto regex = text::Regex::compile(pattern, "here");
    if (pattern.starts_with("(?:(?:(?:){")) continue;  // either way, but at once
    REQUIRE_FALSE(regex.ok());
    CHECK(regex.take_status().code() == Code::unsupported);
  }
}

TEST_CASE("what a small file makes of itself when it is loaded is bounded", "[text][bad]") {
  const auto refuse = [](const Json& file, const std::string& part) {
    auto loaded = Tokenizer::from_json(file.dump(), "tokenizer.json", {});
    INFO("expected an error about " << part);
    REQUIRE_FALSE(loaded.ok());
    const Status status = loaded.take_status();
    INFO(status.message());
    CHECK(status.message().find(part) != std::string_view::npos);
  };
  Json file = small_tokenizer();
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", std::string(4000, 'y')}};
  for (int i = 0; i < 400; ++i)  // 1.6 MB of forms out of 60 KB
    file["added_tokens"].push_back({{"id", 265 + i},
                                    {"content", std::to_string(i) + "x"},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", true},
                                    {"special", false}});
  refuse(file, "when they are normalised");
  file = small_tokenizer();
  file["decoder"] = {{"type", "Replace"}, {"pattern", {{"String", "0"}}}, {"content", std::string(10'000, 'z')}};
  refuse(file, "decode to more than");
  file = small_tokenizer();
  const Json piece = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
             text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  Json single = Json::array(), ids = Json::array();
  for (int i = 0; i < 100; ++i) single.push_back(piece);
  for (int i = 0; i < 100; ++i) ids.push_back(1);
  single.push_back(text);
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", single},
                            {"pair", Json::array()},
                            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", ids}, {"tokens", Json::array()}}}}}};
  refuse(file, "tokens around a text");
}

TEST_CASE("patterns that were slow to compile or to begin are not", "[text][bad]") {
  text::RegexScratch scratch;
  std::vector<text::Stretch> spans;
  // 22 s for four of the first, and 18 s for a megabyte of text with sixty of the second, before each was mended.
  for (const std::string& pattern :
       {std::string("(?i)") + repeated("[\\p{Lu}]", 14'000), std::string("(?:b(?:)*){3900}|.")}) {
    INFO(pattern.substr(0, 20));
    auto regex = text::Regex::compile(pattern, "here");
    REQUIRE(regex.ok());
    for (int i = 0; i < 20'000; ++i) {
      text::Work work(10'000, {});
      REQUIRE(regex.value().find_all("a", work, scratch, spans).ok());
    }
  }
  // As many ways to match as there are characters, and more: told apart from too many steps.
  auto regex = text::Regex::compile("(?:(?:(?:(?:(?:(?:(?:a|ab)?)?)?)?)?)?)*", "here");
  REQUIRE(regex.ok());
  text::Work work(1'000'000, {});
  const Status status = regex.value().find_all(repeated("a", 3000), work, scratch, spans);
  CHECK(status.code() == Code::unsupported);
  CHECK(status.message().find("too many ways") != std::string_view::npos);
}

TEST_CASE("sets of characters are those of Hugging Face's library", "[text]") {
  // tests/fixtures/make_tokenizer_fixtures.py writes the ranges that `tokenizers` splits by each pattern.
  const Json expected = Json::parse(read_text_file(QINFER_TEST_FIXTURES "/unicode_sets.json"));
  REQUIRE(expected.size() > 30);
  text::RegexScratch scratch;
  std::vector<text::Stretch> spans;
  for (const auto& [pattern, ranges] : expected.items()) {
    INFO(pattern);
    auto regex = text::Regex::compile(pattern, "here");
    REQUIRE(regex.ok());
    std::vector<bool> wanted(0x110000, false);
    for (const auto& range : ranges)
      for (std::uint32_t code = range[0]; code <= range[1]; ++code) wanted[code] = true;
    std::size_t wrong = 0;
    std::uint32_t first = 0;
    for (std::uint32_t begin = 0; begin < 0x110000; begin += 0x1000) {
      std::string text;
      std::vector<std::uint32_t> codes;
      for (std::uint32_t code = begin; code < begin + 0x1000; ++code) {
        if (code >= 0xD800 && code < 0xE000) continue;
        text::append_char(text, code);
        codes.push_back(code);
      }
      text::Work work(UINT64_MAX / 2, {});
      REQUIRE(regex.value().find_all(text, work, scratch, spans).ok());
      std::size_t at = 0, i = 0;
      for (const text::Stretch& span : spans)
        for (; at < span.end; at += text::char_at(text, at).size, ++i)
          if (span.is_match != wanted[codes[i]] && wrong++ == 0) first = codes[i];
    }
    INFO(wrong << " characters differ, the first is " << first);
    CHECK(wrong == 0);
  }
}

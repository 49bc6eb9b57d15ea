// Patterns made at random, of what tokenizers' patterns are made of, against std::regex on ASCII: which runs need not
// be tried shorter is decided when a pattern is compiled, and must change no match.
#include "text/regex.h"

#include <random>
#include <regex>

#include "support/catch.h"

using namespace qinfer;
using namespace qinfer::text;

namespace {

std::string random_pattern(std::mt19937& random) {
  const auto one_of = [&](const auto&... items) {
    const std::string all[] = {items...};
    return all[random() % sizeof...(items)];
  };
  std::string pattern;
  const std::size_t branches = 1 + random() % 3;
  for (std::size_t b = 0; b < branches; ++b) {
    if (b != 0) pattern += '|';
    const std::size_t parts = 1 + random() % 4;
    for (std::size_t p = 0; p < parts; ++p) {
      if (random() % 8 == 0) {
        pattern += one_of("(?!\\S)", "(?=b)", "(?:a|ab)", "(?:\\s|b)*");
        continue;
      }
      pattern += one_of("[ab]", "[^ab]", "\\s", "\\S", "\\d", "[^\\s\\d]", "[b1]", "a", " ", "[^a\\s]");
      pattern += one_of("", "", "?", "*", "+", "{1,2}", "+?");
    }
  }
  return pattern;
}

std::vector<std::pair<std::size_t, std::size_t>> expected_matches(const std::string& pattern, const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> matches;
  const std::regex regex(pattern);
  std::size_t from = 0;
  std::smatch match;
  while (from <= text.size()) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(from);
    const auto flags = from == 0 ? std::regex_constants::match_default : std::regex_constants::match_prev_avail;
    if (!std::regex_search(begin, text.end(), match, regex, flags)) break;
    const std::size_t at = from + static_cast<std::size_t>(match.position()),
                      end = at + static_cast<std::size_t>(match.length());
    if (at == end && !matches.empty() && matches.back().second == at) {
      ++from;
      continue;
    }
    matches.emplace_back(at, end);
    from = end;
  }
  return matches;
}

}  // namespace

TEST_CASE("random patterns match what std::regex matches", "[text]") {
  std::mt19937 random(7);
  for (int round = 0; round < 1500; ++round) {
    const std::string pattern = random_pattern(random);
    auto compiled = Regex::compile(pattern, "the test");
    CAPTURE(round, pattern);
    REQUIRE(compiled.ok());
    for (int i = 0; i < 12; ++i) {
      std::string text;
      for (std::size_t n = random() % 14; n > 0; --n) text += "ab 1\nc"[random() % 6];
      Work work(1'000'000, {});
      RegexScratch scratch;
      std::vector<Stretch> stretches;
      REQUIRE(compiled.value().find_all(text, work, scratch, stretches).ok());
      std::vector<std::pair<std::size_t, std::size_t>> found;
      for (const Stretch& stretch : stretches)
        if (stretch.is_match) found.emplace_back(stretch.begin, stretch.end);
      CAPTURE(text);
      REQUIRE(found == expected_matches(pattern, text));
    }
  }
}

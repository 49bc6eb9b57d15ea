// What makes words cheap changes no token: random models, whose merges may join anything, against merging as it is
// defined, pair by pair.
#include <map>
#include <random>

#include "support/tokenizers.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

using Pair = std::pair<std::string, std::string>;

/// A model whose merges are made of tokens that are there, in random order; some join a space to what is before it.
struct RandomModel {
  std::vector<std::string> tokens;  ///< by id
  std::vector<Pair> merges;         ///< by rank

  RandomModel(std::mt19937& random, const std::string& unknown, bool joins_at_spaces)
      : tokens{unknown, "\u2581", "a", "b", "c", "\u00E9"} {
    const auto pick = [&](std::size_t n) { return random() % n; };
    for (int tries = 0; tries < 60; ++tries) {
      const std::string left = tokens[pick(tokens.size())], right = tokens[pick(tokens.size())];
      if ((left + right).size() > 12) continue;
      if (!joins_at_spaces && right.starts_with("\u2581") && !left.ends_with("\u2581")) continue;
      if (std::find(merges.begin(), merges.end(), Pair(left, right)) != merges.end()) continue;
      merges.emplace_back(left, right);
      if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) tokens.push_back(left + right);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    tokens.emplace_back("cab");  // perhaps made by no merge
    if (std::find(tokens.begin(), tokens.end() - 1, "cab") != tokens.end() - 1) tokens.pop_back();
  }

  Json json(bool drops_unknown) const {
    Json tokenizer = small_tokenizer();
    Json vocab = Json::object(), list = Json::array();
    for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
    for (const auto& [left, right] : merges) list.push_back({left, right});
    tokenizer["added_tokens"] = Json::array();
    tokenizer["model"]["vocab"] = vocab;
    tokenizer["model"]["merges"] = list;
    tokenizer["model"]["byte_fallback"] = false;
    tokenizer["model"]["fuse_unk"] = false;
    tokenizer["model"]["unk_token"] = drops_unknown ? Json() : Json(tokens[0]);
    return tokenizer;
  }

  TokenId id(const std::string& token) const {
    const auto at = std::find(tokens.begin(), tokens.end(), token);
    return at == tokens.end() ? 0 : static_cast<TokenId>(at - tokens.begin());
  }

  /// The pair of lowest rank, the leftmost of those, until none is left.
  std::vector<TokenId> encode(const std::vector<std::string>& characters) const {
    std::vector<std::string> parts = characters;
    for (;;) {
      std::size_t best = merges.size(), at = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto rank = static_cast<std::size_t>(
            std::find(merges.begin(), merges.end(), Pair(parts[i], parts[i + 1])) - merges.begin());
        if (rank < best) best = rank, at = i;
      }
      if (best == merges.size()) break;
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    std::vector<TokenId> ids;
    for (const std::string& part : parts) ids.push_back(id(part));
    return ids;
  }
};

}  // namespace

TEST_CASE("words that are tokens, and cuts at spaces, give what merging pair by pair gives", "[text]") {
  std::mt19937 random(20261127);
  for (int round = 0; round < 120; ++round) {
    const bool joins = round % 2 == 0, drops = round % 3 == 0;  // what no token stands for
    // What stands for characters without a token may end with a space, and so meet the next one.
    const char* const unknown[] = {"<unk>", "\u2581\u2581", "a\u2581", "u"};
    const RandomModel model(random, unknown[random() % 4], joins);
    const auto tokenizer = load_tokenizer_text(model.json(drops).dump());
    for (int text = 0; text < 60; ++text) {
      std::vector<std::string> characters;
      std::string all;
      // Some are long enough for the table of known words.
      const std::size_t n = round % 10 < 2 && text == 0 ? 700 : random() % 70;
      for (std::size_t i = 0; i < n; ++i) {
        const char* const choices[] = {"\u2581", "\u2581", "a", "b", "c", "\u00E9", "a", "b", "x"};
        const char* const character = choices[random() % std::size(choices)];
        all += character;
        if (*character != 'x') characters.emplace_back(character);
        if (*character == 'x' && !drops) characters.push_back(model.tokens[0]);
      }
      CAPTURE(round, all);
      const std::vector<TokenId> expected = model.encode(characters);
      REQUIRE(encode(*tokenizer, all) == expected);
      REQUIRE(encode(*tokenizer, all) == expected);  // by what is remembered now
    }
  }
}

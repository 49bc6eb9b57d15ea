// The detokeniser: whole characters only, U+FFFD for what is not one, and what happens at the start of a text.
#include "support/tokenizers.h"

using namespace qinfer;
using namespace qinfer::test;

namespace {

const std::string kBad = "\uFFFD";

/// What each push gives, and last what finish gives.
std::vector<std::string> steps(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool at_start = true) {
  std::vector<char> buffer(3 * tokenizer.max_token_bytes() + 16);
  Detokenizer detokenizer(tokenizer, at_start);
  std::vector<std::string> out;
  for (const TokenId id : ids) out.emplace_back(buffer.data(), detokenizer.push(id, buffer));
  out.emplace_back(buffer.data(), detokenizer.finish(buffer));
  return out;
}

std::vector<TokenId> bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(small_byte(static_cast<unsigned char>(c)));
  return ids;
}

/// A byte-level tokenizer of single bytes: id = byte.
Json byte_level_tokenizer() {
  Json vocab = Json::object();
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const int code = printable ? byte : next++;
    std::string spelling;
    if (code < 0x80) {
      spelling += static_cast<char>(code);
    } else {
      spelling += static_cast<char>(0xC0 | code >> 6);
      spelling += static_cast<char>(0x80 | (code & 0x3F));
    }
    vocab[spelling] = byte;
  }
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json file = small_tokenizer();
  file["added_tokens"] = Json::array();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = level;
  file["decoder"] = level;
  file["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}};
  return file;
}

std::string decode_bytes(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return decode(tokenizer, ids);
}

}  // namespace

TEST_CASE("a character comes out when its last byte is there", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  REQUIRE(steps(*tokenizer, bytes("\u4f60\U0001F642")) ==
          std::vector<std::string>{"", "", "\u4f60", "", "", "", "\U0001F642", ""});
}

TEST_CASE("bytes that are no character become U+FFFD, one for each byte of a fallback run", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  REQUIRE(steps(*tokenizer, bytes("\xE4\xBD")) == std::vector<std::string>{"", "", kBad + kBad});
  auto ids = bytes("\xE4\xBD");
  ids.push_back(260);
  REQUIRE(steps(*tokenizer, ids) == std::vector<std::string>{"", "", kBad + kBad + "a", ""});
  // The character that was complete stays; the rest of the run is lost with the bad byte.
  REQUIRE(steps(*tokenizer, bytes("\u4f60\xFF"
                                  "a")) == std::vector<std::string>{"", "", "\u4f60", kBad, kBad, ""});
  REQUIRE(steps(*tokenizer, bytes("\xE4"
                                  "a")) == std::vector<std::string>{"", kBad + kBad, ""});
  // A run ends at any other token; the next one is judged by itself.
  ids = bytes("\xFF");
  ids.push_back(260);
  ids.push_back(small_byte('a'));
  REQUIRE(steps(*tokenizer, ids) == std::vector<std::string>{kBad, "a", "a", ""});
}

TEST_CASE("control tokens emit nothing but end a character", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  REQUIRE(steps(*tokenizer, {1, 264, 2, 264}) == std::vector<std::string>{"", "a", "", " a", ""});
  REQUIRE(steps(*tokenizer, {small_byte(0xC3), 2, 260}) == std::vector<std::string>{"", kBad, "a", ""});
  REQUIRE(steps(*tokenizer, {3, -1, 100'000, 260}) == std::vector<std::string>{"", "", "", "a", ""});
}

TEST_CASE("the first space is left out at the start of a text only", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  REQUIRE(decode(*tokenizer, {264, 264}) == "a a");
  REQUIRE(decode(*tokenizer, {264, 264}, false) == " a a");
  REQUIRE(decode(*tokenizer, {263, 264}) == " a");
  REQUIRE(decode(*tokenizer, {260, 264}) == "a a");
  REQUIRE(decode(*tokenizer, bytes("  ")) == " ");

  std::vector<char> buffer(64);
  Detokenizer detokenizer(*tokenizer, false);
  REQUIRE(detokenizer.push(264, buffer) == 2);
  REQUIRE(detokenizer.push(small_byte(0xE4), buffer) == 0);
  REQUIRE(detokenizer.finish(buffer) == 3);
  REQUIRE(detokenizer.push(264, buffer) == 1);  // starts over
  REQUIRE(detokenizer.push(small_byte(0xE4), buffer) == 0);
  detokenizer.reset(false);  // drops the byte
  REQUIRE(detokenizer.finish(buffer) == 0);
}

TEST_CASE("byte-level text has one U+FFFD for each maximal part of a character", "[text]") {
  const auto tokenizer = load_tokenizer_text(byte_level_tokenizer().dump());
  REQUIRE(tokenizer->is_byte(0x80));
  REQUIRE_FALSE(tokenizer->is_byte('a'));
  REQUIRE(decode_bytes(*tokenizer, "a\u4f60\U0001F642") == "a\u4f60\U0001F642");
  REQUIRE(decode_bytes(*tokenizer,
                       "\xE4\xBD"
                       "a") == kBad + "a");
  REQUIRE(decode_bytes(*tokenizer, "\xE4\xBD\xE4\xBD\xA0") == kBad + "\u4f60");
  REQUIRE(decode_bytes(*tokenizer, "\xF0\x9F\x99") == kBad);
  REQUIRE(decode_bytes(*tokenizer, "\x80\xBF") == kBad + kBad);
  REQUIRE(decode_bytes(*tokenizer, "\xC0\x80") == kBad + kBad);             // overlong: no part of a character
  REQUIRE(decode_bytes(*tokenizer, "\xED\xA0\x80") == kBad + kBad + kBad);  // a surrogate
  REQUIRE(decode_bytes(*tokenizer, "\xF4\x90\x80\x80") == kBad + kBad + kBad + kBad);
  REQUIRE(decode_bytes(*tokenizer, "\xF5") == kBad);
}

TEST_CASE("a buffer that is too small loses text and nothing else", "[text]") {
  const auto tokenizer = load_tokenizer_text(small_tokenizer().dump());
  Detokenizer detokenizer(*tokenizer);
  char one[1];
  REQUIRE(detokenizer.push(262, one) == 1);
  REQUIRE(detokenizer.push(262, {}) == 0);
  REQUIRE(detokenizer.finish({}) == 0);
}

TEST_CASE("without a decoder tokens are joined by spaces", "[text]") {
  Json file = small_tokenizer();
  file["decoder"] = nullptr;
  const auto tokenizer = load_tokenizer_text(file.dump());
  REQUIRE(decode(*tokenizer, {260, 1, 264, small_byte('a')}) == "a \u2581a <0x61>");
}

// See answer_tokens.h.
#include "openai/answer_tokens.h"

#include <algorithm>
#include <bit>

#include "text/utf8.h"

namespace qinfer::openai {
namespace {

bool is_text(std::string_view bytes) { return text::find_invalid_utf8(bytes) == bytes.size(); }

void write_token(const LikelyToken& token, formats::JsonWriter& writer) {
  writer.key("token").string(valid_text(token.bytes));
  writer.key("logprob").number(token.logprob);
  writer.key("bytes").begin_array();
  for (const char byte : token.bytes) writer.integer(static_cast<unsigned char>(byte));
  writer.end_array();
}

}  // namespace

void append_chat_logprobs(const LikelyToken& token, std::span<const LikelyToken> top, std::string& out) {
  formats::JsonWriter writer(out);
  writer.begin_object();
  write_token(token, writer);
  writer.key("top_logprobs").begin_array();
  for (const LikelyToken& other : top) {
    writer.begin_object();
    write_token(other, writer);
    writer.end_object();
  }
  writer.end_array();
  writer.end_object();
}

void append_top_logprobs(const LikelyToken& token, std::span<const LikelyToken> top, std::string& out) {
  formats::JsonWriter writer(out);
  writer.begin_object();
  const auto is_among = [&](const LikelyToken& one, std::size_t n) {
    return std::any_of(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(n),
                       [&](const LikelyToken& other) { return other.bytes == one.bytes; });
  };
  for (std::size_t i = 0; i < top.size(); ++i)
    if (!is_among(top[i], i)) writer.key(shown_text(top[i].bytes)).number(top[i].logprob);
  if (!is_among(token, top.size())) writer.key(shown_text(token.bytes)).number(token.logprob);
  writer.end_object();
}

std::string valid_text(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t good = text::find_invalid_utf8(bytes);
    out += bytes.substr(0, good);
    if (good == bytes.size()) break;
    out += "\xef\xbf\xbd";
    bytes.remove_prefix(good + 1);
  }
  return out;
}

std::string shown_text(std::string_view bytes) {
  if (is_text(bytes)) return std::string(bytes);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "bytes:";
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    out += "\\x";
    out += kDigits[value >> 4];
    out += kDigits[value & 15];
  }
  return out;
}

std::string base64_of(std::span<const float> values) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  bytes.reserve(values.size() * sizeof(float));
  for (const float value : values)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(std::bit_cast<std::uint32_t>(value) >> shift);
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t n = std::min<std::size_t>(bytes.size() - i, 3);
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < n ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out += j <= n ? kLetters[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace qinfer::openai

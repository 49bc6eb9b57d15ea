// See gguf_vocabulary.h.
#include "source/gguf_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "base/hash.h"
#include "source/chat_tokens.h"
#include "text/fields.h"
#include "text/utf8.h"

namespace qinfer::source {
namespace {

using formats::GgufMetadata;
using text::in_quotes;
using text::malformed;
using text::TokenId;

constexpr std::string_view kTypes = "tokenizer.ggml.token_type", kScores = "tokenizer.ggml.scores",
                           kMerges = "tokenizer.ggml.merges";
/// What a token takes in a file besides its bytes: its length, type and score.
constexpr std::size_t kBytesBeside = 16;

Status missing(const GgufMetadata& metadata, std::string_view key, std::string_view expected) {
  return malformed("{}: the key \"{}\" is missing, expected {}", metadata.file(), key, expected);
}

/// 0 without the key.
std::uint64_t count_of(const GgufMetadata& metadata, std::string_view key) {
  const formats::GgufValue* value = metadata.find(key);
  return value == nullptr ? 0 : value->count;
}

Status wrong_count(const GgufMetadata& metadata, std::string_view key, std::uint64_t count, std::uint64_t tokens) {
  return malformed("{}: key \"{}\" has {} values, expected {}, one for each of {}", metadata.file(), key, count, tokens,
                   kGgufTokens);
}

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); }

/// "<0xAB>"
bool is_byte_name(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && is_hex(token[3]) && is_hex(token[4]) && token[5] == '>';
}

/// Of a token whose type the file does not say.
GgufTokenType usual_type(std::string_view token, bool may_have_bytes, bool is_unknown) {
  if (may_have_bytes && is_byte_name(token)) return GgufTokenType::byte;
  if (is_end_name(token)) return GgufTokenType::control;
  return is_unknown ? GgufTokenType::unknown : GgufTokenType::normal;
}

Status check_token(const GgufMetadata& metadata, std::string_view token, GgufTokenType type, std::size_t i,
                   bool may_have_bytes) {
  const auto where = [&] { return format_text("{}: {}[{}]", metadata.file(), kGgufTokens, i); };
  if (const std::size_t bad = text::find_invalid_utf8(token); bad != token.size())
    return malformed("{} is not valid UTF-8 at byte {}", where(), bad);
  if (token.size() > text::kMaxTokenBytes)
    return malformed("{} has {} bytes, at most {} are supported", where(), token.size(), text::kMaxTokenBytes);
  if (type != GgufTokenType::byte) return Status();
  if (!may_have_bytes)
    return error(Code::unsupported, "{} is a byte ({} 6), which only the models \"llama\", \"t5\" and \"gemma4\" have",
                 where(), kTypes);
  if (!is_byte_name(token))
    return malformed("{} is {}, but a byte ({} 6), expected \"<0x00>\" to \"<0xFF>\"", where(), in_quotes(token),
                     kTypes);
  return Status();
}

}  // namespace

Result<GgufVocabulary> read_gguf_vocabulary(const GgufMetadata& metadata, const text::TokenizerLimits& limits,
                                            bool may_have_bytes, TokenId usual_unknown) {
  // Lengths first: a list takes several times the bytes that the file has for it.
  GgufVocabulary out;
  const std::uint32_t limit = limits.vocab_size == 0 ? text::kMaxIds : std::min(limits.vocab_size, text::kMaxIds);
  const std::uint64_t count = count_of(metadata, kGgufTokens);
  if (!metadata.has(kGgufTokens)) return missing(metadata, kGgufTokens, "the texts of all tokens");
  if (count == 0) return malformed("{}: key \"{}\" is empty", metadata.file(), kGgufTokens);
  if (count > limit)
    return malformed("{}: key \"{}\" has {} tokens, expected at most {}", metadata.file(), kGgufTokens, count, limit);
  if (metadata.has(kTypes) && count_of(metadata, kTypes) != count)
    return wrong_count(metadata, kTypes, count_of(metadata, kTypes), count);
  QINFER_ASSIGN(auto tokens, metadata.strings(kGgufTokens));
  if (tokens) out.tokens = std::move(*tokens);
  QINFER_ASSIGN(const auto types, metadata.integers(kTypes, 0, static_cast<std::int64_t>(GgufTokenType::byte)));
  if (!types && limits.notes != nullptr)
    limits.notes->add("the key \"{}\" is missing: all tokens are taken for ordinary ones", kTypes);
  QINFER_ASSIGN(const auto unknown, metadata.integer("tokenizer.ggml.unknown_token_id", -1, UINT32_MAX));
  const std::int64_t unknown_id = unknown.value_or(usual_unknown);
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    out.types.push_back(types ? static_cast<GgufTokenType>((*types)[i])
                              : usual_type(out.tokens[i], may_have_bytes, static_cast<std::int64_t>(i) == unknown_id));
    QINFER_TRY(check_token(metadata, out.tokens[i], out.types[i], i, may_have_bytes));
    out.bytes += out.tokens[i].size() + kBytesBeside;
  }
  if (out.bytes > std::size_t{512} << 20)
    return malformed("{}: key \"{}\" has more than 512 MiB of texts", metadata.file(), kGgufTokens);
  return out;
}

Status add_gguf_tokens(const GgufVocabulary& vocabulary, bool strip_after, CancelFlag cancel,
                       text::TableBuilder& builder, Notes* notes) {
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (i % text::kLookForCancel == 0) QINFER_TRY(cancel.check("loading a tokenizer"));
    const std::string_view token = vocabulary.tokens[i];
    const GgufTokenType type = vocabulary.types[i];
    if (token.empty() || type == GgufTokenType::unused) continue;
    const bool special = type == GgufTokenType::control || type == GgufTokenType::unknown;
    const auto id = static_cast<std::int64_t>(i);
    if (const auto first = builder.tables().vocabulary.find(token)) {
      if (notes != nullptr)
        notes->add("{}[{}] is {} as {}[{}] is, which is the token of that text", kGgufTokens, i, in_quotes(token),
                   kGgufTokens, *first);
      QINFER_TRY(builder.tables().vocabulary.add_again(
          token, id, special ? text::kTokenAdded | text::kTokenControl : text::kTokenInModel));
      continue;
    }
    if (!special) QINFER_TRY(builder.tables().vocabulary.add(token, id, text::kTokenInModel).with_prefix(kGgufTokens));
    if (!special && type != GgufTokenType::user_defined) continue;
    const bool strips = strip_after && token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
    QINFER_TRY(builder.add({.content = token, .id = id, .rstrip = strips, .special = special},
                           format_text("{}[{}]", kGgufTokens, i)));
  }
  builder.finish_added();
  return Status();
}

Status read_gguf_merges(const GgufMetadata& metadata, const text::Vocabulary& vocabulary, CancelFlag cancel,
                        text::MergeTable& table, std::uint64_t& hash) {
  QINFER_ASSIGN(const auto merges, metadata.strings(kMerges));
  if (!merges) return missing(metadata, kMerges, "texts \"a b\" of two tokens that merge");
  if (merges->size() >= text::MergeTable::kNoRank / 2)
    return malformed("{}: key \"{}\" has too many merges", metadata.file(), kMerges);
  table.reserve(merges->size());
  std::string both;
  for (std::size_t i = 0; i < merges->size(); ++i) {
    if (i % text::kLookForCancel == 0) QINFER_TRY(cancel.check("loading a tokenizer"));
    const std::string_view merge = (*merges)[i];
    const std::size_t space = merge.size() > 2 ? merge.find(' ', 1) : merge.npos;  // a token may begin with a space
    if (space == merge.npos || space + 1 == merge.size())
      return malformed("{}: {}[{}] is {}, expected two tokens and one space between them", metadata.file(), kMerges, i,
                       in_quotes(merge));
    if (text::find_invalid_utf8(merge) != merge.size())
      return malformed("{}: {}[{}] is not valid UTF-8", metadata.file(), kMerges, i);
    both.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    QINFER_TRY(text::add_merge({merge.substr(0, space), merge.substr(space + 1), both}, static_cast<std::uint32_t>(i),
                               vocabulary, kMerges, kGgufTokens, table)
                   .with_prefix(metadata.file()));
  }
  if (const formats::GgufValue* value = metadata.find(kMerges)) hash = hash_text(value->bytes);
  return table.check().with_prefix(kMerges);
}

Result<std::pmr::vector<std::uint32_t>> read_gguf_ranks(const GgufMetadata& metadata, const GgufVocabulary& vocabulary,
                                                        std::uint64_t& hash) {
  QINFER_ASSIGN(const auto scores, metadata.floats(kScores));
  if (!scores) return missing(metadata, kScores, "the score of each token");
  const std::size_t count = vocabulary.tokens.size();
  if (scores->size() != count) return wrong_count(metadata, kScores, scores->size(), count);
  const auto merges = [&](std::size_t i) {
    const GgufTokenType type = vocabulary.types[i];
    return type == GgufTokenType::normal || type == GgufTokenType::undefined || type == GgufTokenType::user_defined;
  };
  std::vector<float> order;
  for (std::size_t i = 0; i < count; ++i) {
    if (!std::isfinite((*scores)[i]))
      return malformed("{}: {}[{}] is {}, expected a finite number", metadata.file(), kScores, i, (*scores)[i]);
    if (merges(i)) order.push_back((*scores)[i]);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::pmr::vector<std::uint32_t> ranks(count, text::MergeTable::kNoRank, text::heap_memory());
  for (std::size_t i = 0; i < count; ++i) {
    if (!merges(i)) continue;
    const auto at = std::lower_bound(order.begin(), order.end(), (*scores)[i], std::greater<>());
    ranks[i] = static_cast<std::uint32_t>(at - order.begin());
  }
  hash = hash_bytes(std::as_bytes(std::span(*scores)));
  return ranks;
}

}  // namespace qinfer::source

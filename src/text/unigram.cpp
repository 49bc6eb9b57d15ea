// See unigram.h. One pass over the word finds the best way to each place that a token ends at; then the way to the end
// is read backwards.
#include "text/unigram.h"

#include <algorithm>
#include <cmath>

#include "text/fields.h"
#include "text/utf8.h"

namespace qinfer::text {
namespace {

/// How much less than the worst token a character without one scores.
constexpr double kUnknownPenalty = 10;

}  // namespace

Status Unigram::init(const UnigramOptions& options, std::pmr::vector<double> scores, double lowest,
                     const Vocabulary& vocabulary, CancelFlag cancel) {
  options_ = options;
  vocabulary_ = &vocabulary;
  scores_ = std::move(scores);
  unknown_score_ = lowest - kUnknownPenalty;
  std::vector<PrefixTrie::Entry> entries;
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if ((vocabulary.flags(id) & kTokenInModel) != 0 && !std::isnan(scores_[i]))
      entries.push_back({vocabulary.content(id), id});
  }
  for (std::size_t byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = vocabulary.find_in_model(format_text("<0x{:02X}>", byte)).value_or(-1);
  return trie_.build(std::move(entries), cancel);
}

Status Unigram::find_best(std::string_view word, Work& work, UnigramScratch& scratch) const {
  auto& places = scratch.places;
  places.assign(word.size() + 1, {});
  for (std::size_t begin = 0; begin < word.size();) {
    const double score_here = places[begin].score;
    const std::size_t character_end = begin + char_at(word, begin).size;
    const auto offer = [&](std::size_t end, double score, TokenId id) {
      UnigramScratch::Place& place = places[end];
      const double sum = score + score_here;
      if (place.begin != UnigramScratch::kUnreached && !(sum > place.score)) return false;
      place = {sum, static_cast<std::uint32_t>(begin), id};
      return true;
    };
    bool has_character = false;
    std::uint32_t node = PrefixTrie::kRoot;
    std::size_t at = begin;
    while (at < word.size()) {
      node = trie_.child(node, static_cast<std::uint8_t>(word[at++]));
      if (node == PrefixTrie::kNone) break;
      const TokenId id = trie_.token(node);
      if (id < 0) continue;
      offer(at, scores_[static_cast<std::size_t>(id)], id);
      has_character = has_character || at == character_end;
    }
    if (!work.spend(at - begin)) return work.stopped(begin);
    if (!has_character && offer(character_end, unknown_score_, options_.unknown) && options_.unknown < 0)
      return error_at(Code::unsupported, static_cast<std::int64_t>(begin),
                      "the tokenizer has no token for the character U+{:04X}, and none that stands for unknown ones",
                      static_cast<std::uint32_t>(char_at(word, begin).code));
    begin = character_end;
  }
  return Status();
}

/// Unknown characters side by side are one. (It may be spelled like a token that was not worth its score.)
void Unigram::append_unknown(std::string_view part, std::vector<TokenId>& out) const {
  if (const auto id = vocabulary_->find_in_model(part)) {
    out.push_back(*id);
    return;
  }
  const auto byte_id = [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)]; };
  if (options_.byte_fallback && std::all_of(part.begin(), part.end(), [&](char c) { return byte_id(c) >= 0; })) {
    for (const char c : part) out.push_back(byte_id(c));
    return;
  }
  out.push_back(options_.unknown);
}

Status Unigram::encode(std::string_view word, Work& work, UnigramScratch& scratch, std::vector<TokenId>& out) const {
  if (word.size() >= UnigramScratch::kUnreached || !work.spend(word.size())) return work.stopped(0);
  QINFER_TRY(find_best(word, work, scratch));
  auto& parts = scratch.parts;
  parts.clear();
  for (auto end = static_cast<std::uint32_t>(word.size()); end > 0;) {
    const UnigramScratch::Place& place = scratch.places[end];
    if (place.id == options_.unknown && !parts.empty() && parts.back().id == options_.unknown) {
      parts.back().begin = place.begin;
    } else {
      parts.push_back({place.begin, end, place.id});
    }
    end = place.begin;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->id == options_.unknown) {
      append_unknown(word.substr(part->begin, part->end - part->begin), out);
    } else {
      out.push_back(part->id);
    }
  }
  return Status();
}

}  // namespace qinfer::text

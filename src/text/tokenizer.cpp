// See tokenizer.h. encode() is the pipeline: cut at added tokens, normalise, cut at normalised added tokens, split into
// words, merge each word.
#include "text/tokenizer.h"

#include <algorithm>

#include "text/fields.h"
#include "text/loader.h"
#include "text/tables.h"
#include "text/utf8.h"
#include "text/work.h"

namespace qinfer::text {
namespace {

/// Keeps all sizes far below what the tables and the stages can count.
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

/// One call of encode(): its working space and its output.
class Encoding {
 public:
  Encoding(const TokenizerTables& tables, const EncodeOptions& options, std::size_t text_size,
           std::vector<TokenId>& out)
      : tables_(tables),
        rule_{!options.parse_special, options.plain_content, options.content},
        guards_normalized_(!options.content.empty() && !tables.added_normalized.empty() &&
                           (options.plain_content || tables.added_normalized.has_control(tables.vocabulary))),
        content_(options.content),
        out_(out),
        work_(options.max_work != 0 ? options.max_work : Work::default_limit(text_size), options.cancel),
        max_bytes_(max_expanded(text_size)),
        max_words_(max_expanded(text_size)) {
    bpe_scratch_.expect_text(text_size);
    // About as many words as a text of that size has; what more there are makes room as it comes.
    const std::size_t words = std::min<std::size_t>(text_size / 4, 4096) + 8;
    out_.reserve(out_.size() + words);
    words_.expect_words(words);
  }

  Status run(std::string_view text) {
    std::vector<Segment> segments;
    QINFER_TRY(tables_.added_raw.split(text, rule_, tables_.vocabulary, work_, segments));
    for (const Segment& segment : segments) {
      if (segment.id >= 0) {
        out_.push_back(segment.id);
        continue;
      }
      // How far it came is said of the whole text, as exactly as what became of the part lets it be.
      Status status = add_segment(text, segment);
      if (status.code() == Code::unsupported && work_.is_spent())
        return work_.stopped(segment.begin + position_in(segment, static_cast<std::size_t>(status.detail())));
      QINFER_TRY(std::move(status));
    }
    return Status();
  }

 private:
  std::size_t position_in(const Segment& segment, std::size_t at) const {
    return tables_.normalizer.is_identity() ? std::min(part_begin_ + at, segment.end - segment.begin) : 0;
  }

  Status add_segment(std::string_view text, const Segment& segment) {
    part_begin_ = 0;
    parts_.clear();
    const bool at_start = segment.begin == 0;
    std::string_view part = text.substr(segment.begin, segment.end - segment.begin);
    if (guards_normalized_) {
      QINFER_TRY(normalize_parts(text, segment));
      part = joined_;
    } else if (!tables_.normalizer.is_identity()) {
      QINFER_TRY(normalize(part, true));
      part = normalized_;
    }
    if (tables_.added_normalized.empty()) return add_normalized(part, at_start);
    const AddedTokenRule rule{rule_.skip_control, rule_.plain_content, parts_};
    QINFER_TRY(tables_.added_normalized.split(part, rule, tables_.vocabulary, work_, segments_));
    for (const Segment& inner : segments_) {
      part_begin_ = inner.begin;
      if (inner.id >= 0) {
        out_.push_back(inner.id);
      } else {
        QINFER_TRY(add_normalized(part.substr(inner.begin, inner.end - inner.begin), at_start && inner.begin == 0));
      }
    }
    return Status();
  }

  /// Sets `normalized_`. `begins`: nothing of the same segment is before it.
  Status normalize(std::string_view part, bool begins) {
    QINFER_TRY(tables_.normalizer.apply(part, begins, max_bytes_, work_, normalizer_scratch_, normalized_));
    max_bytes_ -= std::min(max_bytes_, normalized_.size());  // of all parts together
    return Status();
  }

  /// Sets `joined_` to a segment in normalised form, and `parts_` to the content in it. A normaliser does not say where
  /// its bytes came from; so where tokens that content must not take part in are looked for in its output, what came
  /// from different sides is normalised one after the other.
  Status normalize_parts(std::string_view text, const Segment& segment) {
    joined_.clear();
    std::size_t at = segment.begin;
    const auto add = [&](std::size_t end, bool is_content) -> Status {
      if (at >= end) return Status();
      QINFER_TRY(normalize(text.substr(at, end - at), at == segment.begin));
      if (is_content) parts_.push_back({joined_.size(), joined_.size() + normalized_.size()});
      joined_ += normalized_;
      at = end;
      return Status();
    };
    while (!content_.empty() && content_.front().begin < segment.end) {
      QINFER_TRY(add(std::min(content_.front().begin, segment.end), false));
      QINFER_TRY(add(std::min(content_.front().end, segment.end), true));
      if (content_.front().end > segment.end) break;
      content_ = content_.subspan(1);
    }
    return add(segment.end, false);
  }

  Status add_normalized(std::string_view text, bool at_start) {
    words_.text.assign(text);
    QINFER_TRY(tables_.pre_tokenizer.apply(at_start, max_words_, work_, words_));
    max_words_ -= std::min(max_words_, words_.text.size());
    for (const Piece& piece : words_.pieces) {
      const auto word = std::string_view(words_.text).substr(piece.begin, piece.end - piece.begin);
      const std::size_t before = out_.size();
      QINFER_TRY(add_word(word, piece.begin));
      if (!rule_.content.empty()) QINFER_TRY(check_plain(before));
    }
    return Status();
  }

  /// `begin`: where the word is in its part.
  Status add_word(std::string_view word, std::size_t begin) {
    switch (tables_.model) {
      case TokenizerTables::Model::bpe:
        if (!tables_.bpe.encode(word, work_, bpe_scratch_, out_)) break;
        return Status();
      case TokenizerTables::Model::word_piece:
        if (!tables_.word_piece.encode(word, work_, out_)) break;
        return Status();
      case TokenizerTables::Model::word_level: {
        Status status = tables_.word_level.encode(word, work_, out_);
        if (!status.ok() && work_.is_spent()) break;
        return status;
      }
      case TokenizerTables::Model::unigram:
        Status status = tables_.unigram.encode(word, work_, unigram_scratch_, out_);
        if (!status.ok() && work_.is_spent()) break;
        return status;
    }
    return work_.stopped(begin);
  }

  TokenId unknown() const {
    switch (tables_.model) {
      case TokenizerTables::Model::bpe: return tables_.bpe.unknown();
      case TokenizerTables::Model::word_level: return tables_.word_level.unknown();
      case TokenizerTables::Model::word_piece: return tables_.word_piece.unknown();
      case TokenizerTables::Model::unigram: return tables_.unigram.unknown();
    }
    return -1;
  }

  /// No tokenizer in use has merges that lead to an added control token. With one that had, content could take part in
  /// it. (What bos and eos name may be an ordinary entry, and the unknown token is what has no other.)
  Status check_plain(std::size_t first) const {
    for (std::size_t i = first; i < out_.size(); ++i) {
      constexpr std::uint8_t kBoth = kTokenControl | kTokenAdded;
      if ((tables_.vocabulary.flags(out_[i]) & kBoth) != kBoth || out_[i] == unknown()) continue;
      return error(Code::unsupported,
                   "the tokenizer makes the control token {} of ordinary text, which content must not become", out_[i]);
    }
    return Status();
  }

  const TokenizerTables& tables_;
  const AddedTokenRule rule_;
  const bool guards_normalized_;   // content must not take part in tokens of the normalised text
  std::span<const Span> content_;  // what does not end before the segment that is being read
  std::vector<TokenId>& out_;
  Work work_;
  std::size_t max_bytes_;       // that normalised text may still take
  std::size_t max_words_;       // the same for what it is split into
  std::size_t part_begin_ = 0;  // of what is being read, in the text between added tokens
  NormalizerScratch normalizer_scratch_;
  PreTokenizerScratch words_;
  BpeScratch bpe_scratch_;
  UnigramScratch unigram_scratch_;
  std::string normalized_, joined_;
  std::vector<Span> parts_;  // of the normalised segment: what is content
  std::vector<Segment> segments_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<TokenizerTables> tables) : tables_(std::move(tables)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_json(std::string_view text, std::string_view name,
                                                        const TokenizerLimits& limits, CancelFlag cancel) {
  QINFER_ASSIGN(auto tables, load_tokenizer(text, name, limits, cancel));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(tables)));
}

std::unique_ptr<Tokenizer> Tokenizer::from_tables(std::unique_ptr<TokenizerTables> tables) {
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(tables)));
}

Status Tokenizer::encode_text(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const {
  if (text.size() > kMaxTextBytes)
    return error(Code::invalid_argument, "the text has {} bytes, at most {} can be encoded", text.size(),
                 kMaxTextBytes);
  if (const std::size_t bad = find_invalid_utf8(text); bad != text.size()) {
    return error_at(Code::invalid_argument, static_cast<std::int64_t>(bad),
                    "the text is not valid UTF-8 at byte {} (0x{:02X})", bad, static_cast<std::uint8_t>(text[bad]));
  }
  for (const Span& part : options.content)
    for (const std::size_t at : {part.begin, part.end})
      if (at < text.size() && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80)
        return error_at(Code::invalid_argument, static_cast<std::int64_t>(at),
                        "content is [{}, {}), which cuts the character at byte {}", part.begin, part.end, at);
  return Encoding(*tables_, options, text.size(), out).run(text);
}

namespace {

/// Appends the tokens of a template, and their types if they are asked for; after an error both are as before.
/// `encode(is_second)` appends those of a text.
template <typename Encode>
Status append_template(const Template& pieces, bool add_special, std::vector<TokenId>& out, std::vector<TypeId>* types,
                       Encode encode) {
  const std::size_t ids_before = out.size(), types_before = types != nullptr ? types->size() : 0;
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == PieceKind::token) {
      if (add_special) out.push_back(piece.id);
    } else if (Status status = encode(piece.kind == PieceKind::second_text); !status.ok()) {
      out.resize(ids_before);
      if (types != nullptr) types->resize(types_before);
      return status;
    }
    if (types != nullptr) types->resize(types_before + out.size() - ids_before, piece.type);
  }
  return Status();
}

/// `n_around`: tokens that the template adds to the texts.
Status cut_pair(std::size_t n_around, std::vector<TokenId> (&texts)[2], PairLimit& limit) {
  const std::size_t n[] = {texts[0].size(), texts[1].size()}, n_all = n[0] + n[1] + n_around;
  if (n_around > limit.most)
    return error_at(Code::context_full, static_cast<std::int64_t>(n_all),
                    "the pair has {} tokens, at most {} are taken, and all but its texts has more", n_all, limit.most);
  if (n_all > limit.most) {
    const std::size_t room = limit.most - n_around;
    const bool longer = n[0] <= n[1];  // of texts of one length the second keeps one more where the room is odd
    const std::size_t kept = std::min(n[!longer], room / 2);
    texts[!longer].resize(kept);
    texts[longer].resize(room - kept);
  }
  limit.first_cut = n[0] - texts[0].size();
  limit.second_cut = n[1] - texts[1].size();
  return Status();
}

}  // namespace

Status Tokenizer::encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const {
  return append_template(tables_->templates.single, options.add_special, out, nullptr,
                         [&](bool) { return encode_text(text, options, out); });
}

Status Tokenizer::encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out,
                         std::vector<TypeId>& types) const {
  return append_template(tables_->templates.single, options.add_special, out, &types,
                         [&](bool) { return encode_text(text, options, out); });
}

Status Tokenizer::encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options,
                              std::vector<TokenId>& out, std::vector<TypeId>& types, PairLimit* limit) const {
  if (!options.content.empty())
    return error(Code::invalid_argument, "content is given for a pair of texts, which takes none");
  const Template& pieces = tables_->templates.pair;
  if (pieces.empty()) return error(Code::unsupported, "the tokenizer does not say how two texts are joined");
  std::vector<TokenId> texts[2];
  QINFER_TRY(encode_text(first, options, texts[0]).with_prefix("the first text"));
  QINFER_TRY(encode_text(second, options, texts[1]).with_prefix("the second text"));
  if (limit != nullptr) QINFER_TRY(cut_pair(options.add_special ? pieces.size() - 2 : 0, texts, *limit));
  return append_template(pieces, options.add_special, out, &types, [&](bool is_second) {
    out.insert(out.end(), texts[is_second].begin(), texts[is_second].end());
    return Status();
  });
}

std::string_view Tokenizer::token_bytes(TokenId id) const { return tables_->vocabulary.bytes(id); }
bool Tokenizer::is_control(TokenId id) const { return (tables_->vocabulary.flags(id) & kTokenControl) != 0; }
bool Tokenizer::is_byte(TokenId id) const { return (tables_->vocabulary.flags(id) & kTokenIsByte) != 0; }

void Tokenizer::mark_control(TokenId id) {
  if (tables_->vocabulary.flags(id) != 0) tables_->vocabulary.set_flags(id, kTokenControl);
}

Status Tokenizer::make_added(TokenId id) {
  Vocabulary& vocabulary = tables_->vocabulary;
  if (vocabulary.flags(id) == 0 || vocabulary.content(id).empty()) return Status();
  if ((vocabulary.flags(id) & kTokenAdded) == 0) {
    QINFER_TRY(tables_->added_raw.add_later({.id = id}, vocabulary));
    vocabulary.set_flags(id, kTokenAdded);
    tables_->bpe.forbid(id);
    vocabulary.clear_flags(kTokenWhole | kTokenParts);
  }
  vocabulary.set_flags(id, kTokenControl);
  return Status();
}

std::string_view Tokenizer::content(TokenId id) const { return tables_->vocabulary.content(id); }
std::uint32_t Tokenizer::max_length() const { return tables_->max_length; }
std::uint32_t Tokenizer::size() const { return tables_->vocabulary.size(); }
std::uint64_t Tokenizer::fingerprint() const { return tables_->fingerprint; }

std::uint32_t Tokenizer::max_token_bytes() const { return tables_->vocabulary.max_bytes(); }
std::optional<TokenId> Tokenizer::find(std::string_view content) const { return tables_->vocabulary.find(content); }

std::uint64_t Tokenizer::memory_bytes() const {
  const TokenizerTables& t = *tables_;
  return t.vocabulary.memory_bytes() + t.bpe.memory_bytes() + t.word_piece.memory_bytes() + t.unigram.memory_bytes() +
         t.normalizer.memory_bytes() + t.added_raw.memory_bytes() + t.added_normalized.memory_bytes();
}

Status Tokenizer::move_to(const platform::Allocator& allocator) {
  if (allocator.is_mapping()) return Status();
  const std::uint64_t bytes = memory_bytes();
  TokenizerTables& t = *tables_;
  t.memory = std::make_unique<HostMemory>(allocator);
  try {
    t.vocabulary.move_to(t.memory.get());
    t.bpe.move_to(t.memory.get());
    t.word_piece.move_to(t.memory.get());
    t.unigram.move_to(t.memory.get());
    t.normalizer.move_to(t.memory.get());
    t.added_raw.move_to(t.memory.get());
    t.added_normalized.move_to(t.memory.get());
  } catch (const std::bad_alloc&) {
    return error_at(Code::no_memory, static_cast<std::int64_t>(bytes),
                    "no memory for the tokenizer's tables ({} bytes)", bytes);
  }
  return Status();
}

}  // namespace qinfer::text

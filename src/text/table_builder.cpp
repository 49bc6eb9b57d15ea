// See table_builder.h.
#include "text/table_builder.h"

#include <algorithm>

#include "text/fields.h"

namespace qinfer::text {
namespace {

/// The most bytes that the texts of a file may become, for each kind of text: a multiple of the file's size.
constexpr std::size_t most_bytes_of(std::size_t file_size) {
  return std::min(std::size_t{512} << 20, 16 * file_size + (std::size_t{1} << 16));
}

/// A text of the file that cannot be processed is the file's fault.
Status of_file(Status status, std::string_view where) {
  if (status.code() == Code::unsupported) return malformed("{}: {}", where, status.message());
  return std::move(status).with_prefix(where);
}

}  // namespace

Status add_merge(const MergeRow& merge, std::uint32_t rank, const Vocabulary& vocabulary, std::string_view list,
                 std::string_view vocabulary_name, MergeTable& table) {
  TokenId ids[3];
  const std::string_view contents[3] = {merge.left, merge.right, merge.both};
  for (int k = 0; k < 3; ++k) {
    const auto id = vocabulary.find_in_model(contents[k]);
    if (!id)
      return malformed("{}: merge {} ({} and {}) needs the token {}, which is not in {}", list, rank,
                       in_quotes(contents[0]), in_quotes(contents[1]), in_quotes(contents[k]), vocabulary_name);
    ids[k] = *id;
  }
  if (merge.right.starts_with(kMetaspace) && !merge.left.ends_with(kMetaspace)) table.note_join_at_space();
  return table.add(ids[0], ids[1], rank, ids[2]).with_prefix(list);
}

TableBuilder::TableBuilder(std::size_t source_bytes, CancelFlag cancel, Notes* notes)
    : cancel_(cancel),
      notes_(notes),
      most_bytes_(most_bytes_of(source_bytes)),
      work_(Work::default_limit(source_bytes), cancel),
      tables_(std::make_unique<TokenizerTables>()) {}

Status TableBuilder::add(const AddedTokenRow& row, std::string_view where) {
  if (row.content.empty()) return malformed("{}: \"content\" is empty", where);
  Vocabulary& vocabulary = tables_->vocabulary;
  const std::uint8_t flags = row.special ? kTokenAdded | kTokenControl : kTokenAdded;
  const auto known = vocabulary.find(row.content);
  if (!known) QINFER_TRY(vocabulary.add(row.content, row.id, flags).with_prefix(where));
  const TokenId id = known.value_or(static_cast<TokenId>(row.id));
  if (known && *known != row.id && notes_ != nullptr)
    notes_->add("{}: the token {} has the id {} already, {} is passed over", where, in_quotes(row.content), *known,
                row.id);
  if (known && (vocabulary.flags(id) & kTokenAdded) != 0) return Status();
  vocabulary.set_flags(id, flags);
  const AddedToken token{id, row.lstrip, row.rstrip, row.single_word};
  if (row.normalized) return add_normalized(row, token, where);
  return tables_->added_raw.add(row.content, token).with_prefix(where);
}

Status TableBuilder::add_normalized(const AddedTokenRow& row, const AddedToken& token, std::string_view where) {
  std::string form;
  QINFER_TRY(of_file(tables_->normalizer.apply(row.content, true, kMaxTokenBytes, work_, scratch_, form), where));
  forms_ += form.size();
  if (forms_ > most_bytes_)
    return malformed("{}: the added tokens have more than {} bytes when they are normalised", where, most_bytes_);
  if (form.empty()) return malformed("{}: nothing is left of {} when it is normalised", where, in_quotes(row.content));
  QINFER_TRY(tables_->added_normalized.add(form, token).with_prefix(where));
  if (form != row.content) decoded_as_.emplace_back(token.id, std::move(form));
  return Status();
}

void TableBuilder::finish_added() {
  tables_->added_raw.finish();
  tables_->added_normalized.finish();
}

/// A special token is a control token here even where it is matched in another, normalised form. (Hugging Face's
/// library looks for that form among the special contents, does not find it and keeps it in decoded text.)
Status TableBuilder::finish(const Decoder& decoder, bool added_as_written) {
  tables_->decoder_rules = decoder.rules();
  std::sort(decoded_as_.begin(), decoded_as_.end());
  auto next_form = decoded_as_.begin();
  Vocabulary& vocabulary = tables_->vocabulary;
  Decoder::Token token;
  std::size_t total = 0;
  for (std::uint32_t i = 0; i < vocabulary.size(); ++i) {
    if (i % kLookForCancel == 0) QINFER_TRY(cancel_.check("loading a tokenizer"));
    const auto id = static_cast<TokenId>(i);
    std::string_view content = vocabulary.content(id);
    // An added token that is matched in normalised form is decoded from that form.
    if (next_form != decoded_as_.end() && next_form->first == id) {
      content = (next_form++)->second;
      vocabulary.set_flags(id, kTokenForm);
    }
    const std::uint8_t flags = vocabulary.flags(id);
    if ((flags & kTokenControl) != 0 || (added_as_written && (flags & kTokenAdded) != 0)) {
      vocabulary.append_bytes(content);  // a control token is never part of a text: what it is called
      continue;
    }
    if (content.size() > kMaxTokenBytes)
      return malformed("the token {} (id {}) has {} bytes, at most {} are supported", in_quotes(content), id,
                       content.size(), kMaxTokenBytes);
    if (Status status = decoder.decode_token(content, work_, scratch_, token); !status.ok())
      return of_file(std::move(status), format_text("decoder: token {}", id));
    total += token.bytes.size();
    if (total > most_bytes_) return malformed("decoder: the tokens decode to more than {} bytes", most_bytes_);
    vocabulary.append_bytes(token.bytes);
    if (token.is_byte) vocabulary.set_flags(id, kTokenIsByte);
  }
  return vocabulary.finish();
}

}  // namespace qinfer::text

// See text_tokens.h.
#include "engine/text_tokens.h"

#include <algorithm>

namespace qinfer::engine {
namespace {

using Ids = std::vector<text::TokenId>;

/// Cuts the text in `all`, its tokens with `around` in two parts before and after them, down to `most` in all.
void cut(const Ids& around, std::size_t most, Ids& all) {
  const std::size_t n = all.size() - around.size();
  std::size_t before = 0;  // how many of `around` are before the text: as many as agree
  while (before < around.size() && all[before] == around[before]) ++before;
  // Those after the text must agree, too; a text may begin with a token that comes after it.
  const auto agrees = [&] {
    return std::equal(around.begin() + static_cast<std::ptrdiff_t>(before), around.end(),
                      all.begin() + static_cast<std::ptrdiff_t>(before + n));
  };
  while (before > 0 && !agrees()) --before;
  const std::size_t kept = most - around.size();
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(before + kept),
            all.begin() + static_cast<std::ptrdiff_t>(before + n));
}

}  // namespace

Result<TextTokens> text_tokens(const Model& model, std::string_view text, const TextOptions& options) {
  if (model.tokenizer() == nullptr) return error(Code::not_found, "the model has no tokenizer");
  if (!options.prompt.empty() && model.spec().embedding.without_prompt)
    return error(Code::unsupported,
                 "\"include_prompt\" is false: the model's pooling leaves out the tokens of a prompt, which is not "
                 "supported: pool without a prompt");
  text::EncodeOptions encode;
  encode.add_special = true;
  encode.parse_special = options.parse_special;
  encode.cancel = options.cancel;
  TextTokens out;
  std::string joined;
  if (!options.prompt.empty()) text = joined.append(options.prompt).append(text);
  QINFER_TRY(model.tokenizer()->encode(text, encode, out.tokens));
  const std::uint32_t limit = model.spec().embedding_tokens();
  const std::size_t most = options.max_tokens == 0 ? limit : std::min(options.max_tokens, limit);
  if (out.tokens.size() <= most) return out;
  if (!options.truncate)
    return error_at(Code::context_full, static_cast<std::int64_t>(out.tokens.size()),
                    "the text has {} tokens, at most {} are taken: shorten it, or ask for it to be cut",
                    out.tokens.size(), most);
  Ids around;
  QINFER_TRY(model.tokenizer()->encode("", encode, around));
  if (around.size() > most || around.size() > out.tokens.size())
    return error(Code::invalid_argument, "max_tokens is {}, the tokenizer puts {} tokens around a text alone", most,
                 around.size());
  out.n_cut = out.tokens.size() - most;
  cut(around, most, out.tokens);
  return out;
}

}  // namespace qinfer::engine

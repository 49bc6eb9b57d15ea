// See score.h.
#include "engine/score.h"

#include <algorithm>
#include <cmath>

#include "engine/chat_prompt.h"
#include "platform/thread.h"

namespace qinfer::engine {
namespace {

using model::ScoreKind;

// As the card of Qwen3-Reranker has it, byte for byte: what the model was trained with.
constexpr std::string_view kQwenTemplate =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. "
    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: {instruction}\n"
    "<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
constexpr std::string_view kQwenInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";
/// What GGUF files call the template of a pair.
constexpr std::string_view kRankTemplate = "rerank";

/// A text of a pair, and which parts of it others wrote: the last one ends with the document.
struct PairText {
  std::string text;
  std::vector<Span> content;
};

/// Puts texts in the places of a template. The document comes last.
Result<PairText> fill(std::string_view from, std::string_view instruction, std::string_view query,
                      std::string_view document) {
  const std::pair<std::string_view, std::string_view> places[] = {
      {"{instruction}", instruction}, {"{query}", query}, {"{document}", document}};
  PairText out;
  bool has_query = false, has_document = false;
  while (!from.empty()) {
    const std::size_t brace = std::min(from.find('{'), from.size());
    out.text.append(from.substr(0, brace));
    from.remove_prefix(brace);
    const auto* place = std::find_if(std::begin(places), std::end(places),
                                     [&](const auto& known) { return from.starts_with(known.first); });
    if (place == std::end(places)) {
      out.text.append(from.substr(0, 1));
      from.remove_prefix(std::min<std::size_t>(1, from.size()));
      continue;
    }
    if (has_document)
      return error(Code::unsupported, "the template has {} after {{document}}, which must come last", place->first);
    has_query = has_query || place == places + 1;
    has_document = place == places + 2;
    out.content.push_back({out.text.size(), out.text.size() + place->second.size()});
    out.text.append(place->second);
    from.remove_prefix(place->first.size());
  }
  if (has_query && has_document) return out;
  return error(Code::invalid_argument, "the template has no {}, which stands for the text",
               has_query ? "{document}" : "{query}");
}

/// {"messages": [{"role": "system", ...}, {"role": "query", ...}, {"role": "document", ...}]}, contents as texts or as
/// lists of parts.
std::string pair_conversation(std::string_view instruction, std::string_view query, std::string_view document,
                              bool in_parts) {
  std::string out = "{\"messages\":[";
  const auto add = [&](std::string_view role, std::string_view text) {
    if (out.back() != '[') out += ',';
    out.append("{\"role\":\"").append(role).append("\",\"content\":");
    if (in_parts) out += "[{\"type\":\"text\",\"text\":";
    formats::append_json_string(text, out);
    out += in_parts ? "}]}" : "}";
  };
  if (!instruction.empty()) add("system", instruction);
  add("query", query);
  add("document", document);
  return out + "]}";
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// With the model's chat template, which knows the roles query and document, as sentence-transformers has it.
Result<PairText> render_pair(const Model& model, std::string_view query, std::string_view document,
                             const ScoreOptions& options) {
  const source::Prompt* usual = model.prompts().find(model.prompts().default_name);
  const std::string_view stated = usual != nullptr ? std::string_view(usual->text) : std::string_view();
  const std::string_view instruction = options.instruction.value_or(stated);
  ChatOptions chat;
  chat.generation_prompt = true;
  chat.cancel = options.cancel;
  Status status;
  for (const bool in_parts : {false, true}) {
    auto rendered = render_chat(model, pair_conversation(instruction, query, document, in_parts), chat);
    if (!rendered.ok()) {
      status = rendered.take_status();
      if (status.code() != Code::invalid_argument) return status;
      continue;
    }
    jinja::Rendered& pair = rendered.value();
    const std::size_t at = pair.text.rfind(trimmed(document));
    if (at != pair.text.npos && pair.text.find(trimmed(query)) < at + 1 && !pair.content.empty())
      return PairText{std::move(pair.text), std::move(pair.content)};
  }
  if (!status.ok()) return status;
  return error(Code::unsupported,
               "the model's chat template does not write a query and a document after it: give template_text");
}

Result<PairText> pair_text(const Model& model, std::string_view query, std::string_view document,
                           const ScoreOptions& options) {
  if (options.template_text)
    return fill(*options.template_text, options.instruction.value_or(kQwenInstruction), query, document);
  if (options.template_name) {
    if (*options.template_name == kQwenReranker)
      return fill(kQwenTemplate, options.instruction.value_or(kQwenInstruction), query, document);
    return error(Code::not_found, "template_name is \"{}\", known is \"{}\"", *options.template_name, kQwenReranker);
  }
  for (const source::ChatTemplate& known : model.chat_templates())
    if (known.name == kRankTemplate)
      return fill(known.text, options.instruction.value_or(kQwenInstruction), query, document);
  if (model.spec().score.kind == ScoreKind::tokens) return render_pair(model, query, document, options);
  if (model.spec().classifier.n_labels > 1)
    return error(Code::unsupported, "the model's classifier has {} labels, a score needs one",
                 model.spec().classifier.n_labels);
  return error(
      Code::unsupported,
      "the model's files do not say how it scores a pair of texts: give template_name \"{}\", or template_text "
      "and the tokens yes and no",
      kQwenReranker);
}

struct PairTokens {
  std::vector<text::TokenId> ids;
  std::uint64_t n_cut = 0;
};

Result<PairTokens> encode_pair(const Model& model, const PairText& pair, std::size_t most,
                               const ScoreOptions& options) {
  text::EncodeOptions encode;
  encode.parse_special = true;
  encode.content = pair.content;
  encode.cancel = options.cancel;
  PairTokens out;
  QINFER_TRY(model.tokenizer()->encode(pair.text, encode, out.ids));
  if (out.ids.size() <= most) return out;
  const auto too_long = [&](std::string_view what) {
    return error_at(Code::context_full, static_cast<std::int64_t>(out.ids.size()),
                    "the pair has {} tokens, at most {} are taken{}", out.ids.size(), most, what);
  };
  if (!options.truncate) return too_long(": shorten the document, or ask for it to be cut");
  // What comes after the document stays, and so does what comes before it.
  const Span document = pair.content.back();
  std::vector<text::TokenId> before, head, after;
  encode.content = std::span(pair.content).first(pair.content.size() - 1);
  QINFER_TRY(model.tokenizer()->encode(std::string_view(pair.text).substr(0, document.begin), encode, before));
  encode.content = pair.content;
  QINFER_TRY(model.tokenizer()->encode(std::string_view(pair.text).substr(0, document.end), encode, head));
  encode.content = {};
  QINFER_TRY(model.tokenizer()->encode(std::string_view(pair.text).substr(document.end), encode, after));
  if (before.size() + after.size() > most) return too_long(", and all but its document has more");
  const std::size_t kept = std::min(most - after.size(), head.size());
  out.n_cut = head.size() - kept;
  head.resize(kept);
  head.insert(head.end(), after.begin(), after.end());
  out.ids = std::move(head);
  return out;
}

bool has_template(const ScoreOptions& options) { return options.template_name || options.template_text; }

/// Whether the model's classifier makes the score, however the pair is written.
bool uses_classifier(const Model& model, const ScoreOptions& options) {
  if (model.spec().score.kind != ScoreKind::classifier) return false;
  return model.spec().causal ? options.yes.empty() : !has_template(options);
}

/// Two texts as one input of an encoder, and the type of each token.
struct JoinedTexts {
  std::vector<text::TokenId> ids;
  std::vector<text::TypeId> types;
  std::uint64_t n_cut = 0;
};

Result<JoinedTexts> join_pair(const Model& model, std::string_view query, std::string_view document, std::size_t most,
                              const ScoreOptions& options) {
  text::EncodeOptions encode;
  encode.add_special = true;
  encode.cancel = options.cancel;
  text::PairLimit limit;
  if (options.truncate) limit.most = most;
  JoinedTexts out;
  QINFER_TRY(model.tokenizer()->encode_pair(query, document, encode, out.ids, out.types, &limit));
  if (out.ids.size() > most)
    return error_at(Code::context_full, static_cast<std::int64_t>(out.ids.size()),
                    "the pair has {} tokens, at most {} are taken: shorten the longer text, or ask for it to be cut",
                    out.ids.size(), most);
  out.n_cut = limit.first_cut + limit.second_cut;
  return out;
}

/// Models without types of tokens take them all as one.
Status set_joined(Session& session, const JoinedTexts& texts) {
  const auto second = std::find(texts.types.begin(), texts.types.end(), 1) - texts.types.begin();
  const std::size_t n = session.model().spec().n_types > 1 ? static_cast<std::size_t>(second) : texts.ids.size();
  QINFER_TRY(session.truncate(0));
  QINFER_TRY(session.append(std::span(texts.ids).first(n)));
  if (n == texts.ids.size()) return Status();
  return session.append(std::span(texts.ids).subspan(n), 1);
}

Result<std::uint64_t> set_text(Session& session, const PairText& pair, std::size_t most, const ScoreOptions& options) {
  QINFER_ASSIGN(const PairTokens tokens, encode_pair(session.model(), pair, most, options));
  QINFER_TRY(session.set_tokens(tokens.ids).take_status());
  return tokens.n_cut;
}

Result<std::int32_t> find_token(const Model& model, std::string_view text) {
  if (model.tokenizer() == nullptr) return error(Code::not_found, "the model has no tokenizer");
  if (const auto id = model.tokenizer()->find(text)) return *id;
  return error(Code::not_found, "the tokenizer has no entry \"{}\", whose logit would make the score", text);
}

/// The tokens whose logits make the score; the second may be -1.
Result<std::pair<std::int32_t, std::int32_t>> score_tokens(const Model& model, const ScoreOptions& options) {
  const model::ScoreSpec& score = model.spec().score;
  const bool by_name = options.template_name.has_value() || !options.yes.empty();
  if (!by_name && score.kind == ScoreKind::tokens) return std::pair(score.yes, score.no);
  if (!by_name)
    return error(Code::unsupported,
                 "the model's files do not say which tokens make a score: give yes and no, or template_name \"{}\"",
                 kQwenReranker);
  QINFER_ASSIGN(const std::int32_t yes, find_token(model, options.yes.empty() ? "yes" : options.yes));
  if (!options.yes.empty() && options.no.empty()) return std::pair(yes, -1);
  QINFER_ASSIGN(const std::int32_t no, find_token(model, options.no.empty() ? "no" : options.no));
  return std::pair(yes, no);
}

/// Before the sigmoid.
Result<double> raw_score(const Session& session, const ScoreOptions& options) {
  const Model& model = session.model();
  if (uses_classifier(model, options)) {
    float value = 0;
    QINFER_TRY(session.classify({&value, 1}));
    return static_cast<double>(value);
  }
  if (model.spec().score.kind == ScoreKind::dense && options.yes.empty()) {
    float values[2];
    QINFER_TRY(session.label_values(values));
    return static_cast<double>(values[0]) - values[1];
  }
  QINFER_ASSIGN(const auto tokens, score_tokens(model, options));
  QINFER_TRY(model.spec().check_gives_logits());
  if (session.pending() != 0)
    return error(Code::state, "{} tokens are pending: evaluate them before the score", session.pending());
  const std::span<const float> logits = session.logits(0);
  if (logits.empty()) return session.no_logits(0);
  const double yes = logits[static_cast<std::size_t>(tokens.first)];
  return tokens.second < 0 ? yes : yes - logits[static_cast<std::size_t>(tokens.second)];
}

}  // namespace

Result<std::uint64_t> set_pair(Session& session, std::string_view query, std::string_view document,
                               const ScoreOptions& options) {
  const Model& model = session.model();
  if (model.tokenizer() == nullptr) return error(Code::not_found, "the model has no tokenizer");
  std::size_t most = std::min(model.spec().embedding_tokens(), session.max_tokens());
  if (options.max_tokens != 0) most = std::min<std::size_t>(most, options.max_tokens);
  const bool by_classifier = model.spec().score.kind == ScoreKind::classifier && !has_template(options);
  if (by_classifier && model.spec().causal && !model.chat_templates().empty()) {
    auto rendered = render_pair(model, query, document, options);
    if (rendered.ok()) return set_text(session, rendered.value(), most, options);
    Status status = rendered.take_status();
    // A template for conversations alone is none for pairs.
    if (status.code() != Code::unsupported && status.code() != Code::invalid_argument) return status;
  }
  if (by_classifier) {
    QINFER_ASSIGN(const JoinedTexts texts, join_pair(model, query, document, most, options));
    QINFER_TRY(set_joined(session, texts));
    return texts.n_cut;
  }
  QINFER_ASSIGN(const PairText pair, pair_text(model, query, document, options));
  return set_text(session, pair, most, options);
}

Result<float> score_of(const Session& session, const ScoreOptions& options) {
  const platform::ScopedFloatEnvironment environment;
  QINFER_ASSIGN(const double raw, raw_score(session, options));
  if (!std::isfinite(raw)) return error(Code::numeric, "the logits are not finite: there is no score");
  const bool is_raw = options.raw || session.model().spec().score.raw;
  return static_cast<float>(is_raw ? raw : 1 / (1 + std::exp(-raw)));
}

}  // namespace qinfer::engine

// See openai.h: requests.
#include <algorithm>

#include "engine/openai.h"
#include "openai/forced_call.h"

namespace qinfer::engine {
namespace {

/// In the interface's terms 1 turns a filter off, and top_p 0 leaves the likeliest token; here 0 is off.
sampling::SamplerOptions sampler_of(const openai::Sampling& from, std::uint64_t seed) {
  sampling::SamplerOptions out;
  out.temperature = static_cast<float>(from.temperature);
  out.top_p = from.top_p >= 1 ? 0 : static_cast<float>(from.top_p);
  out.top_k = from.top_p < 1 && out.top_p == 0 ? 1 : from.top_k;
  out.min_p = static_cast<float>(from.min_p);
  out.repeat_penalty = static_cast<float>(from.repetition_penalty);
  out.presence_penalty = static_cast<float>(from.presence_penalty);
  out.frequency_penalty = static_cast<float>(from.frequency_penalty);
  out.seed = seed;
  out.typical_p = static_cast<float>(from.typical_p);
  out.top_n_sigma = static_cast<float>(from.top_n_sigma);
  out.dynatemp_range = static_cast<float>(from.dynatemp_range);
  out.dynatemp_exponent = static_cast<float>(from.dynatemp_exponent);
  out.xtc_probability = static_cast<float>(from.xtc_probability);
  out.xtc_threshold = static_cast<float>(from.xtc_threshold);
  out.dry_multiplier = static_cast<float>(from.dry_multiplier);
  out.dry_base = static_cast<float>(from.dry_base);
  out.dry_allowed_length = from.dry_allowed_length;
  out.dry_penalty_tokens = from.dry_penalty_tokens;
  out.mirostat = from.mirostat;
  out.mirostat_tau = static_cast<float>(from.mirostat_tau);
  out.mirostat_eta = static_cast<float>(from.mirostat_eta);
  std::copy(from.steps.begin(), from.steps.end(), out.steps.begin());  // at most one of each letter
  return out;
}

}  // namespace

Result<std::shared_ptr<const OpenAiRequest>> OpenAiRequest::create(std::shared_ptr<const Model> model,
                                                                   openai::Kind kind, std::string_view json,
                                                                   OpenAiOptions options) {
  if (model->tokenizer() == nullptr) return error(Code::not_found, "the model has no tokenizer");
  if (kind != openai::Kind::embeddings) QINFER_TRY(model->spec().check_gives_logits());
  QINFER_ASSIGN(openai::Request request, openai::read_request(kind, json, options.chat.cancel));
  options.chat.generation_prompt = true;
  options.chat.openai_forms = true;
  const std::uint32_t dims = model->spec().embedding_dims();
  if (request.dimensions && *request.dimensions > dims)
    return error(Code::unsupported, "request: \"dimensions\" is {}, the model's embeddings have {}",
                 *request.dimensions, dims);
  for (const auto& [token, value] : request.sampling.bias)
    if (static_cast<std::uint32_t>(token) >= model->spec().n_vocab)
      return error(Code::format, "request: \"logit_bias\" has the token {}, the vocabulary has {}", token,
                   model->spec().n_vocab);
  std::shared_ptr<OpenAiRequest> out(new OpenAiRequest(std::move(model), std::move(request), std::move(options)));
  QINFER_TRY(out->make_chat());
  QINFER_TRY(out->make_prompts());
  out->options_.chat.cancel = {};  // the caller's, of this call alone
  return std::shared_ptr<const OpenAiRequest>(std::move(out));
}

Status OpenAiRequest::make_chat() {
  if (request_.kind != openai::Kind::chat) return Status();
  const ChatOptions& options = options_.chat;
  QINFER_ASSIGN(const formats::JsonDocument given, parse_conversation(request_.conversation, options));
  QINFER_ASSIGN(const jinja::Rendered prompt, render_chat(*model_, given.root(), options));
  QINFER_ASSIGN(const std::string_view source, chat_template_for(*model_, given.root(), options));
  QINFER_ASSIGN(std::vector<text::TokenId> tokens, tokenize_rendered(*model_, prompt, options));
  prompts_.push_back(std::move(tokens));
  // Where no tools are offered, what looks like a call is content.
  const reply::Format format = reply::find_format(source);
  if (request_.forces_call)
    request_.schema = openai::forced_call_schema(*given.root().find("tools"), request_.forced_name,
                                                 format == reply::Format::llama3 ? "parameters" : "arguments");
  QINFER_ASSIGN(reply_, ChatReply::create(model_, given.root(), prompt,
                                          {format, request_.reasons, request_.offers_tools, request_.forces_call}));
  return Status();
}

Status OpenAiRequest::make_prompts() {
  text::EncodeOptions encode;
  encode.add_special = true;
  encode.cancel = options_.chat.cancel;
  for (const openai::Prompt& prompt : request_.prompts) {
    std::vector<text::TokenId> tokens(prompt.tokens.begin(), prompt.tokens.end());
    if (!prompt.is_tokens) QINFER_TRY(model_->tokenizer()->encode(prompt.text, encode, tokens));
    for (const text::TokenId token : tokens)
      if (static_cast<std::uint32_t>(token) >= model_->spec().n_vocab)
        return error(Code::format, "request: the prompt has the token {}, the vocabulary has {}", token,
                     model_->spec().n_vocab);
    prompts_.push_back(std::move(tokens));
  }
  for (std::size_t i = 0; i < prompts_.size(); ++i)
    if (prompts_[i].empty()) return error(Code::format, "request: prompt {} has no tokens, expected some", i);
  return Status();
}

std::size_t OpenAiRequest::longest_prompt() const {
  std::size_t longest = 0;
  for (const auto& prompt : prompts_) longest = std::max(longest, prompt.size());
  return longest;
}

Status OpenAiRequest::check_choice(std::size_t choice) const {
  if (choice < n_choices()) return Status();
  return error(Code::invalid_argument, "choice is {}, the request has {}", choice, n_choices());
}

Status OpenAiRequest::check_set_up(std::size_t choice, const Session& session) const {
  QINFER_TRY(check_choice(choice));
  if (request_.kind == openai::Kind::embeddings)
    return error(Code::invalid_argument, "a request for embeddings has no choices that are drawn");
  if (&session.model() != model_.get())
    return error(Code::invalid_argument, "the request is for another model than the session");
  const std::span<const text::TokenId> tokens = prompt(choice / request_.n);
  const std::uint64_t new_tokens = request_.max_tokens.value_or(1);
  if (tokens.size() + new_tokens > session.max_tokens())
    return error_at(Code::context_full, static_cast<std::int64_t>(session.max_tokens()),
                    "the prompt has {} tokens and {} more are asked for, the session holds {}", tokens.size(),
                    new_tokens, session.max_tokens());
  return Status();
}

Status OpenAiRequest::set_up(std::size_t choice, Session& session) const {
  QINFER_TRY(check_set_up(choice, session));
  QINFER_TRY(session.set_tokens(prompt(choice / request_.n)).take_status());
  return set_sampler(choice, session);
}

Result<std::size_t> OpenAiRequest::set_up_again(std::size_t choice, Session& session) const {
  QINFER_TRY(check_set_up(choice, session));
  if (request_.logprobs)
    return error(Code::unsupported, "request: log probabilities of tokens that were drawn before are not known");
  if (request_.sampling.mirostat != 0)
    return error(Code::unsupported, "request: mirostat's mu after tokens that were drawn before is not known");
  const std::span<const text::TokenId> tokens = prompt(choice / request_.n), there = session.tokens();
  if (there.size() < tokens.size() || !std::equal(tokens.begin(), tokens.end(), there.begin()))
    return error(Code::invalid_argument, "the session's {} tokens do not begin with the prompt's {}", there.size(),
                 tokens.size());
  const std::size_t n_drawn = there.size() - tokens.size();
  if (request_.max_tokens && n_drawn > *request_.max_tokens)
    return error(Code::invalid_argument, "the session has {} tokens after the prompt, and {} are asked for", n_drawn,
                 *request_.max_tokens);
  QINFER_TRY(set_sampler(choice, session));
  return n_drawn;
}

Status OpenAiRequest::set_sampler(std::size_t choice, Session& session) const {
  const std::uint64_t seed = request_.sampling.seed.value_or(options_.seed) + choice % request_.n;
  if (request_.sampling.dry_multiplier != 0) QINFER_TRY(session.set_dry_breakers(request_.sampling.dry_breakers));
  QINFER_TRY(session.set_sampler(sampler_of(request_.sampling, seed)));
  std::vector<std::int32_t> biased;
  std::vector<float> values;
  for (const auto& [token, value] : request_.sampling.bias) {
    biased.push_back(token);
    values.push_back(value);
  }
  return session.sampling().set_bias(biased, values);
}

GenerationOptions OpenAiRequest::generation_options(std::vector<std::string_view>& stops) const {
  stops.assign(request_.stop.begin(), request_.stop.end());
  GenerationOptions options;
  options.max_tokens = request_.max_tokens.value_or(0);
  options.stop = stops;
  options.logprobs = request_.logprobs.has_value();
  options.n_top = std::min(request_.logprobs.value_or(0), model_->spec().n_vocab);
  if (request_.kind == openai::Kind::chat) options.max_reasoning_tokens = request_.max_reasoning_tokens;
  return options;
}

}  // namespace qinfer::engine

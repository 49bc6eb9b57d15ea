// See request.h: what requests of all kinds have, and sampling.
#include "openai/request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "openai/request_fields.h"

namespace qinfer::openai {

using formats::Json;

std::string_view beginning_of(std::string_view text) {
  std::size_t n = std::min<std::size_t>(text.size(), 40);
  while (n != 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  return text.substr(0, n);
}

Status wrong_value(std::string_view field, const Json& value, std::string_view expected) {
  std::string text = value.is_object() || value.is_array() ? std::string(type_name(value.type())) : json_text(value);
  if (text.size() > 60) text = std::string(type_name(value.type()));
  return error_at(Code::format, -1, "request: \"{}\" is {}, expected {}", field, text, expected);
}

Result<std::optional<double>> Fields::number(std::string_view key, double min, double max) {
  known_.push_back(key);
  QINFER_ASSIGN(const std::optional<double> value, reader_.number(key));
  if (value && !(*value >= min && *value <= max))
    return error_at(Code::format, -1, "request: \"{}\" is {}, expected {} to {}", key, *value, min, max);
  return value;
}

Result<std::optional<std::int64_t>> Fields::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  known_.push_back(key);
  return reader_.integer(key, min, max);
}

Result<std::optional<bool>> Fields::boolean(std::string_view key) {
  known_.push_back(key);
  return reader_.boolean(key);
}

Result<std::optional<std::string>> Fields::text(std::string_view key) {
  known_.push_back(key);
  return reader_.string(key);
}

void Fields::pass_over(std::initializer_list<std::string_view> keys, std::vector<std::string>& unused) {
  for (const std::string_view key : keys)
    if (find(key) != nullptr) unused.emplace_back(key);
}

Status Fields::refuse(std::string_view key, std::string_view reason) {
  if (find(key) == nullptr) return Status();
  return error(Code::unsupported, "request: \"{}\" is not supported: {}", key, reason);
}

Status Fields::check_all_known() const {
  for (const Json& member : object_)
    if (!member.is_null() && std::find(known_.begin(), known_.end(), member.key()) == known_.end())
      return error(Code::unsupported, "request: \"{}\" is not a field that is known here", member.key());
  return Status();
}

namespace {

/// The whole text as a number that the type holds.
template <typename Integer>
bool parse_whole(std::string_view text, Integer& out) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// Any integer of 64 bits, signed or not.
Status read_seed(Fields& fields, Sampling& sampling) {
  const Json* seed = fields.find("seed");
  if (seed == nullptr) return Status();
  std::uint64_t value = 0;
  if (seed->is_integer()) {
    value = static_cast<std::uint64_t>(seed->integer());
  } else if (!parse_whole(seed->spelling(), value)) {
    return wrong_value("seed", *seed, "an integer of 64 bits");
  }
  sampling.seed = value;
  return Status();
}

/// {"token": bias}; -100 bans the token, as in the service.
Status read_bias(Fields& fields, Sampling& sampling) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return Status();
  if (!bias->is_object()) return wrong_value("logit_bias", *bias, "an object of tokens and numbers");
  for (const Json& member : *bias) {
    const std::string_view key = member.key();
    std::int32_t token = 0;
    if (!parse_whole(key, token) || token < 0)
      return error_at(Code::format, -1, "request: \"logit_bias\" has the key \"{}\", expected the number of a token",
                      beginning_of(key));
    if (!member.is_number() || !(std::abs(member.number()) <= 100))
      return wrong_value(format_text("logit_bias.{}", token), member, "a number from -100 to 100");
    const float value = static_cast<float>(member.number());
    sampling.bias.emplace_back(token, value == -100.0F ? -std::numeric_limits<float>::infinity() : value);
  }
  return Status();
}

Status read_sampling(Fields& fields, Sampling& sampling) {
  const auto take = [&](std::string_view key, double min, double max, double& into) -> Status {
    QINFER_ASSIGN(const std::optional<double> value, fields.number(key, min, max));
    into = value.value_or(into);
    return Status();
  };
  QINFER_TRY(take("temperature", 0, 100, sampling.temperature));
  QINFER_TRY(take("top_p", 0, 1, sampling.top_p));
  QINFER_TRY(take("min_p", 0, 1, sampling.min_p));
  QINFER_TRY(take("repetition_penalty", 1e-3, 1e3, sampling.repetition_penalty));
  QINFER_TRY(take("presence_penalty", -2, 2, sampling.presence_penalty));
  QINFER_TRY(take("frequency_penalty", -2, 2, sampling.frequency_penalty));
  QINFER_ASSIGN(const auto top_k, fields.integer("top_k", -1, std::numeric_limits<std::int32_t>::max()));
  sampling.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(top_k.value_or(0), 0));
  QINFER_TRY(read_seed(fields, sampling));
  QINFER_TRY(read_bias(fields, sampling));
  return read_more_sampling(fields, sampling);
}

Status add_stop(const Json& text, std::vector<std::string>& stop) {
  if (!text.is_string() || text.text().empty() || text.text().size() > kMaxStopBytes)
    return wrong_value("stop", text, format_text("texts of 1 to {} bytes", kMaxStopBytes));
  stop.emplace_back(text.text());
  return Status();
}

Status read_stop(Fields& fields, std::vector<std::string>& stop) {
  const Json* given = fields.find("stop");
  if (given == nullptr) return Status();
  if (!given->is_array()) return add_stop(*given, stop);
  if (given->size() > kMaxStops)
    return error_at(Code::format, -1, "request: \"stop\" has {} texts, expected at most {}", given->size(), kMaxStops);
  for (const Json& text : *given) QINFER_TRY(add_stop(text, stop));
  return Status();
}

Status read_stream(Fields& fields, Request& request) {
  QINFER_ASSIGN(const auto stream, fields.boolean("stream"));
  request.stream = stream.value_or(false);
  const Json* options = fields.find("stream_options");
  if (options == nullptr) return Status();
  if (!options->is_object()) return wrong_value("stream_options", *options, "an object");
  for (const Json& member : *options) {
    if (member.is_null()) continue;
    const std::string name = format_text("stream_options.{}", member.key());
    if (!member.is_boolean()) return wrong_value(name, member, "true or false");
    if (member.key() == "include_usage") {
      request.stream_usage = request.stream && member.boolean();
    } else if (member.key() == "include_obfuscation") {
      if (member.boolean()) request.unused.push_back(name);
    } else {
      return error(Code::unsupported, "request: \"{}\" is not a field that is known here", name);
    }
  }
  return Status();
}

/// What both kinds that generate have.
Status read_generation(Fields& fields, Request& request) {
  QINFER_TRY(read_sampling(fields, request.sampling));
  QINFER_TRY(read_stop(fields, request.stop));
  QINFER_TRY(read_stream(fields, request));
  QINFER_ASSIGN(const auto n, fields.integer("n", 1, kMaxChoices));
  request.n = static_cast<std::uint32_t>(n.value_or(1));
  return Status();
}

}  // namespace

Result<Request> read_request(Kind kind, std::string_view json, CancelFlag cancel) {
  if (json.size() > kMaxRequestBytes)
    return error(Code::format, "the request has {} bytes, at most {} are read", json.size(), kMaxRequestBytes);
  QINFER_ASSIGN(const formats::JsonDocument document, formats::parse_json(json, "request", cancel));
  if (!document.root().is_object()) return error(Code::format, "request: expected an object");
  Fields fields(document.root());
  Request request;
  request.kind = kind;
  QINFER_ASSIGN(auto model, fields.text("model"));
  request.model = std::move(model).value_or("");
  for (const std::string_view key : {"user", "safety_identifier"}) QINFER_TRY(fields.text(key).take_status());
  fields.pass_over({"user", "safety_identifier", "metadata"}, request.unused);
  switch (kind) {
    case Kind::chat:
      QINFER_TRY(read_generation(fields, request));
      QINFER_TRY(read_chat(fields, request));
      break;
    case Kind::completion:
      QINFER_TRY(read_generation(fields, request));
      QINFER_TRY(read_completion(fields, request));
      break;
    case Kind::embeddings: QINFER_TRY(read_embeddings(fields, request)); break;
  }
  QINFER_TRY(fields.check_all_known());
  return request;
}

}  // namespace qinfer::openai

// See answer.h.
#include "openai/answer.h"

#include "base/hash.h"
#include "openai/answer_tokens.h"

namespace qinfer::openai {

using formats::JsonWriter;

namespace {

/// Of a call, where the answer has an id, which tells its calls from those of other answers: 9 letters and digits, as
/// the strictest chat templates want them.
std::string call_id(std::string_view answer_id, std::size_t choice, std::uint32_t call) {
  static constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const std::string name = format_text("{} {} {}", answer_id, choice, call);
  std::uint64_t hash = hash_text(name);
  std::string id(9, '0');
  for (char& digit : id) {
    digit = kDigits[hash % kDigits.size()];
    hash /= kDigits.size();
  }
  return id;
}

}  // namespace

Answer::Answer(const Request& request, AnswerHead head)
    : kind_(request.kind),
      stream_(request.stream),
      stream_usage_(request.stream_usage),
      logprobs_(request.logprobs.has_value()),
      base64_(request.base64),
      n_(request.n),
      head_(std::move(head)),
      choices_(is_chat() ? request.n : request.n * request.prompts.size()) {}

// ---- What is told

void Answer::add_content(std::size_t index, std::string_view text) {
  if (has_ended(index)) return;
  begin(index);
  Choice& choice = choices_[index];
  if (text.empty()) return;
  if (!stream_) {
    choice.content += text;
    return;
  }
  write_chunk(index, false, [&](JsonWriter& writer) {
    if (is_chat()) writer.key("content");
    writer.string(text);
  });
}

void Answer::add_reasoning(std::size_t index, std::string_view text) {
  if (has_ended(index)) return;
  begin(index);
  if (!stream_) {
    choices_[index].reasoning += text;
    return;
  }
  write_chunk(index, false, [&](JsonWriter& writer) { writer.key("reasoning_content").string(text); });
}

void Answer::add_call(std::size_t index, const CallText& call) {
  if (has_ended(index)) return;
  begin(index);
  Choice& choice = choices_[index];
  const auto write = [&](JsonWriter& writer) {
    writer.begin_object();
    if (stream_) writer.key("index").integer(choice.n_calls);
    writer.key("id").string(head_.id.empty() ? std::string(call.id) : call_id(head_.id, index, choice.n_calls));
    writer.key("type").string("function");
    writer.key("function").begin_object();
    writer.key("name").string(call.name);
    writer.key("arguments").string(call.arguments);
    writer.end_object();
    writer.end_object();
  };
  if (stream_) {
    write_chunk(index, false, [&](JsonWriter& writer) {
      writer.key("tool_calls").begin_array();
      write(writer);
      writer.end_array();
    });
  } else {
    if (choice.n_calls != 0) choice.calls += ',';
    JsonWriter writer(choice.calls);
    write(writer);
  }
  ++choice.n_calls;
}

void Answer::add_logprobs(std::size_t index, const LikelyToken& token, std::span<const LikelyToken> top,
                          std::uint64_t text_offset, bool known) {
  if (!logprobs_ || has_ended(index)) return;
  Logprobs& to = choices_[index].logprobs;
  if (is_chat()) {
    if (!to.entries.empty()) to.entries += ',';
    append_chat_logprobs(token, top, to.entries);
    return;
  }
  for (std::string* list : {&to.tokens, &to.values, &to.tops, &to.offsets})
    if (!list->empty()) *list += ',';
  formats::append_json_string(shown_text(token.bytes), to.tokens);
  JsonWriter values(to.values);
  if (known) {
    values.number(token.logprob);
    append_top_logprobs(token, top, to.tops);
  } else {
    values.null();
    to.tops += "null";
  }
  to.offsets += std::to_string(text_offset);
}

void Answer::end(std::size_t index, Ending ending, const ChoiceCounts& counts) {
  if (has_ended(index)) return;
  Choice& choice = choices_[index];
  begin(index);
  choice.ended = true;
  choice.ending = ending;
  ++n_ended_;
  if (index % n_ == 0) {  // the others have the same prompt
    counts_.prompt_tokens += counts.prompt_tokens;
    counts_.cached_tokens += counts.cached_tokens;
  }
  counts_.new_tokens += counts.new_tokens;
  counts_.reasoning_tokens += counts.reasoning_tokens;
  if (stream_) {
    write_chunk(index, true, [&](JsonWriter& writer) {
      if (!is_chat()) writer.string("");
    });
    if (is_complete()) end_stream();
  } else if (is_complete()) {
    write_whole();
  }
}

void Answer::add_embedding(std::span<const float> values, std::uint64_t n_tokens) {
  if (is_complete()) return;
  if (n_embeddings_ != 0) embeddings_ += ',';
  JsonWriter writer(embeddings_);
  writer.begin_object();
  writer.key("object").string("embedding");
  writer.key("index").integer(static_cast<std::int64_t>(n_embeddings_));
  writer.key("embedding");
  if (base64_) {
    writer.string(base64_of(values));
  } else {
    writer.begin_array();
    for (const float value : values) writer.number(value);
    writer.end_array();
  }
  writer.end_object();
  counts_.prompt_tokens += n_tokens;
  ++n_embeddings_;
  ++n_ended_;
  if (is_complete()) write_whole();
}

void Answer::fail(const Status& status) {
  if (is_complete()) return;
  n_ended_ = choices_.size();
  const std::string json = error_json(status);
  if (stream_) {
    out_ += "data: " + json + "\n\ndata: [DONE]\n\n";
  } else {
    out_ = json;
  }
}

// ---- Chunks

void Answer::write_head(JsonWriter& writer, std::string_view object) const {
  writer.key("id").string(head_.id);
  writer.key("object").string(object);
  writer.key("created").integer(head_.created);
  writer.key("model").string(head_.model);
}

/// The first chunk of a choice of chat has its role.
void Answer::begin(std::size_t index) {
  if (choices_[index].begun) return;
  choices_[index].begun = true;
  if (!stream_ || !is_chat()) return;
  Logprobs kept = std::exchange(choices_[index].logprobs, {});  // they come with text
  write_chunk(index, false, [](JsonWriter& writer) {
    writer.key("role").string("assistant");
    writer.key("content").string("");
  });
  choices_[index].logprobs = std::move(kept);
}

template <typename WriteDelta>
void Answer::write_chunk(std::size_t index, bool ends, WriteDelta&& write_delta) {
  Choice& choice = choices_[index];
  out_ += "data: ";
  JsonWriter writer(out_);
  writer.begin_object();
  write_head(writer, is_chat() ? "chat.completion.chunk" : "text_completion");
  writer.key("choices").begin_array();
  writer.begin_object();
  writer.key("index").integer(static_cast<std::int64_t>(index));
  writer.key(is_chat() ? "delta" : "text");
  if (is_chat()) writer.begin_object();
  write_delta(writer);
  if (is_chat()) writer.end_object();
  write_logprobs(writer, choice);
  writer.key("finish_reason");
  if (ends) {
    write_finish(writer, choice);
  } else {
    writer.null();
  }
  writer.end_object();
  writer.end_array();
  if (stream_usage_) writer.key("usage").null();
  writer.end_object();
  out_ += "\n\n";
}

void Answer::end_stream() {
  if (stream_usage_) {
    out_ += "data: ";
    JsonWriter writer(out_);
    writer.begin_object();
    write_head(writer, is_chat() ? "chat.completion.chunk" : "text_completion");
    writer.key("choices").begin_array();
    writer.end_array();
    write_usage(writer);
    writer.end_object();
    out_ += "\n\n";
  }
  out_ += "data: [DONE]\n\n";
}

/// Those that no chunk has had.
void Answer::write_logprobs(JsonWriter& writer, Choice& choice) const {
  writer.key("logprobs");
  if (!logprobs_) return writer.null();
  writer.begin_object();
  const auto list = [&](std::string_view name, std::string& elements) {
    writer.key(name).raw("[" + elements + "]");
    elements.clear();
  };
  if (is_chat()) {
    list("content", choice.logprobs.entries);
    writer.key("refusal").null();
  } else {
    list("tokens", choice.logprobs.tokens);
    list("token_logprobs", choice.logprobs.values);
    list("top_logprobs", choice.logprobs.tops);
    list("text_offset", choice.logprobs.offsets);
  }
  writer.end_object();
}

void Answer::write_finish(JsonWriter& writer, const Choice& choice) const {
  if (choice.ending == Ending::length) {
    writer.string("length");
  } else {
    writer.string(choice.n_calls != 0 ? "tool_calls" : "stop");
  }
}

// ---- The whole

void Answer::write_message(JsonWriter& writer, const Choice& choice) const {
  writer.begin_object();
  writer.key("role").string("assistant");
  writer.key("content");
  if (choice.content.empty() && choice.n_calls != 0) {
    writer.null();
  } else {
    writer.string(choice.content);
  }
  writer.key("refusal").null();
  if (!choice.reasoning.empty()) writer.key("reasoning_content").string(choice.reasoning);
  if (choice.n_calls != 0) writer.key("tool_calls").raw("[" + choice.calls + "]");
  writer.end_object();
}

void Answer::write_usage(JsonWriter& writer) const {
  const auto count = [&](std::string_view name, std::uint64_t n) {
    writer.key(name).integer(static_cast<std::int64_t>(n));
  };
  writer.key("usage").begin_object();
  count("prompt_tokens", counts_.prompt_tokens);
  if (kind_ != Kind::embeddings) count("completion_tokens", counts_.new_tokens);
  count("total_tokens", counts_.prompt_tokens + counts_.new_tokens);
  if (kind_ != Kind::embeddings) {
    writer.key("prompt_tokens_details").begin_object();
    count("cached_tokens", counts_.cached_tokens);
    writer.end_object();
    writer.key("completion_tokens_details").begin_object();
    count("reasoning_tokens", counts_.reasoning_tokens);
    writer.end_object();
  }
  writer.end_object();
}

void Answer::write_whole() {
  JsonWriter writer(out_);
  writer.begin_object();
  if (kind_ == Kind::embeddings) {
    writer.key("object").string("list");
    writer.key("model").string(head_.model);
    writer.key("data").raw("[" + embeddings_ + "]");
  } else {
    write_head(writer, is_chat() ? "chat.completion" : "text_completion");
    writer.key("choices").begin_array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      writer.begin_object();
      writer.key("index").integer(static_cast<std::int64_t>(i));
      writer.key(is_chat() ? "message" : "text");
      if (is_chat()) {
        write_message(writer, choices_[i]);
      } else {
        writer.string(choices_[i].content);
      }
      write_logprobs(writer, choices_[i]);
      writer.key("finish_reason");
      write_finish(writer, choices_[i]);
      writer.end_object();
    }
    writer.end_array();
  }
  write_usage(writer);
  writer.end_object();
}

std::string error_json(const Status& status) {
  std::string_view type = "server_error";
  switch (status.code()) {
    case Code::invalid_argument:
    case Code::unsupported:
    case Code::format:
    case Code::context_full: type = "invalid_request_error"; break;
    case Code::not_found: type = "not_found_error"; break;
    case Code::kv_full:
    case Code::no_memory: type = "overloaded_error"; break;
    case Code::ok:
    case Code::internal:
    case Code::state:
    case Code::io:
    case Code::buffer_too_small:
    case Code::cancelled:
    case Code::numeric: break;
  }
  std::string out;
  JsonWriter writer(out);
  writer.begin_object();
  writer.key("error").begin_object();
  writer.key("message").string(valid_text(status.message()));
  writer.key("type").string(type);
  writer.key("param").null();
  writer.key("code").null();
  writer.end_object();
  writer.end_object();
  return out;
}

}  // namespace qinfer::openai

// The answer to a request, written while it is computed: one JSON text, or server-sent events of chunks.
//
// What happens is told in the order in which it happens: parts of replies, or text; log probabilities of tokens; that a
// choice ends. A stream's bytes can be taken at any time, those of one JSON text when all choices have ended. What is
// kept is the text of the answer, as JSON, and nothing of a stream that was taken.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json_writer.h"
#include "openai/request.h"

namespace qinfer::openai {

struct AnswerHead {
  std::string id, model;
  std::int64_t created = 0;  ///< seconds since 1970
};

/// A token as its bytes, and how likely it was.
struct LikelyToken {
  std::string_view bytes;
  double logprob = 0;
};

/// What a call of a tool is.
struct CallText {
  std::string_view id, name, arguments;
};

enum class Ending : std::uint8_t { stop, length };

struct ChoiceCounts {
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, new_tokens = 0, reasoning_tokens = 0;
};

class Answer {
 public:
  /// `n_choices`: of all prompts together; those of one prompt follow each other.
  Answer(const Request& request, AnswerHead head);

  void add_content(std::size_t choice, std::string_view text);
  void add_reasoning(std::size_t choice, std::string_view text);
  void add_call(std::size_t choice, const CallText& call);
  /// Of a token of this choice, with the most likely ones. They come with the next piece of text, which begins at that
  /// character. `known` false: of the first token of a prompt, before which there is nothing.
  void add_logprobs(std::size_t choice, const LikelyToken& token, std::span<const LikelyToken> top,
                    std::uint64_t text_offset, bool known = true);
  void end(std::size_t choice, Ending ending, const ChoiceCounts& counts);
  /// Of an embeddings request; prompt by prompt.
  void add_embedding(std::span<const float> values, std::uint64_t n_tokens);
  /// It ends with an error, whatever was told before, and whatever is told afterwards.
  void fail(const Status& status);

  bool is_complete() const { return n_ended_ >= choices_.size(); }
  bool has_ended(std::size_t choice) const { return is_complete() || choices_[choice].ended; }
  /// Bytes that are ready, and not taken yet.
  const std::string& bytes() const { return out_; }
  void drop_bytes() { out_.clear(); }

  std::size_t n_calls(std::size_t choice) const { return choices_[choice].n_calls; }

 private:
  /// Lists in JSON: of chat the elements of one, else of four.
  struct Logprobs {
    std::string entries, tokens, values, tops, offsets;
  };
  struct Choice {
    bool begun = false, ended = false;
    std::string content, reasoning, calls;  ///< of one JSON text; calls: JSON, elements of a list
    std::uint32_t n_calls = 0;
    Logprobs logprobs;  ///< that no chunk has had
    Ending ending = Ending::stop;
  };

  bool is_chat() const { return kind_ == Kind::chat; }
  void begin(std::size_t choice);
  void write_head(formats::JsonWriter& writer, std::string_view object) const;
  template <typename WriteDelta>
  void write_chunk(std::size_t choice, bool ends, WriteDelta&& write_delta);
  void write_logprobs(formats::JsonWriter& writer, Choice& choice) const;
  void write_finish(formats::JsonWriter& writer, const Choice& choice) const;
  void write_message(formats::JsonWriter& writer, const Choice& choice) const;
  void write_usage(formats::JsonWriter& writer) const;
  void write_whole();
  void end_stream();

  Kind kind_;
  bool stream_, stream_usage_, logprobs_, base64_;
  std::uint32_t n_;
  AnswerHead head_;
  std::vector<Choice> choices_;
  std::string embeddings_;  ///< elements of a list
  std::size_t n_embeddings_ = 0, n_ended_ = 0;
  ChoiceCounts counts_;
  std::string out_;
};

/// {"error": {...}} for a failure.
std::string error_json(const Status& status);

}  // namespace qinfer::openai

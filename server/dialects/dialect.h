// dialect.h: another interface than OpenAI's chat completions, over chat completions: a request is translated before it
// is prepared, and what it gives while it comes. A dialect is of one request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/http.h"
#include "server/refusal.h"

namespace server {

class Dialect {
 public:
  /// What is known besides the bytes of the chat completion.
  struct Facts {
    std::uint32_t prompt_tokens = 0;
    bool is_stopped = false;  ///< a stop text has ended it
  };

  Dialect() = default;
  virtual ~Dialect() = default;
  Dialect(const Dialect&) = delete;
  Dialect& operator=(const Dialect&) = delete;

  /// The JSON of a chat completion that streams, whether the client's request does or not. Throws Refusal. Called once,
  /// first, on a thread that may take its time.
  virtual std::string request(const std::string& body) = 0;
  /// Whether the client wants events; otherwise its answer is given with the last bytes. Both, as what follows, after
  /// request().
  virtual bool is_stream() const = 0;
  /// Whether only the tokens of the prompt are asked for: see counted().
  virtual bool counts() const { return false; }
  virtual std::string counted(std::uint32_t n_tokens) const;
  /// The next bytes of the chat completion, cut anywhere, to bytes of the dialect. Throws Refusal where the completion
  /// fails and nothing was given before.
  virtual std::string add(std::string_view bytes, bool is_last, const Facts& facts) = 0;
  /// A refusal in the dialect's form; at any time, also without a request.
  virtual Response refusal(const Refusal& refused) const = 0;
};

/// The dialect that a path is of, or null.
std::shared_ptr<Dialect> dialect_of(std::string_view path);

}  // namespace server

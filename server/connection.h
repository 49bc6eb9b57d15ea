// connection.h: one connection of HTTP/1.1, on the thread of the server's sockets. It reads a request, gives it to the
// routes, and writes what they answer: a whole response, or a stream of pieces; then the next request is read. While an
// answer is made the connection is read on, so that a client that leaves is noticed at once.
//
// Limits: a head within `head_s`, a body within `body_s`, no more than the sizes of HeadLimits, and what is written
// must be taken within `write_s`. Where a client does not take a stream its request is told to pause.
#pragma once

#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bodies.h"
#include "framing.h"
#include "http.h"
#include "transport.h"

namespace server {

struct ConnectionLimits {
  HeadLimits head;
  std::function<void(const Record&)> on_answered;  ///< of each answer, once; may be null
  bool has_contents = false;                       ///< records have them
  BodyBudget* bodies = nullptr;                    ///< null: there is no bound
  std::uint32_t head_s = 10, body_s = 60, idle_s = 75, write_s = 60;
};

class Connection;
using Handler = std::function<void(const std::shared_ptr<Connection>&, Request)>;
/// What is known of a request when only its head has come.
struct Screened {
  std::optional<Response> answer;  ///< in place of reading a body, and of the handler's
  std::string fields;              ///< lines of the head of whatever is answered, each with its end
};
/// The body will have `part`, which is empty.
using Screen = std::function<Screened(const Request& head, BodyBudget::Part& part)>;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// `is_draining`: no further request is read, and answers say so.
  Connection(std::shared_ptr<Transport> transport, const ConnectionLimits& limits, Handler handler, Screen screen,
             std::function<bool()> is_draining, std::function<void()> on_end);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  void start();
  /// Instead of start(): answers without a request, and ends.
  void turn_away(int status, const std::string& message);
  /// Reads nothing more; what is being answered is.
  void drain();
  /// As if the client had left.
  void close();

  // ---- For routes. After the client has left, and after the answer has ended, they do nothing.

  void respond(const Response& response);
  /// A stream of events: its head, pieces of any size, its end.
  void begin_stream(const std::string& type);
  void stream(std::string_view bytes);
  void end_stream();
  /// Called while a stream is given, with true when the client does not take what is there, and with false when it
  /// has.
  void set_on_slow(std::function<void(bool is_slow)> on_slow) { on_slow_ = std::move(on_slow); }
  /// Called once when the client leaves before the answer has ended.
  void set_on_leave(std::function<void()> on_leave) { on_leave_ = std::move(on_leave); }
  bool is_closed() const { return is_closed_; }

 private:
  using Parser = boost::beast::http::request_parser<BoundedBody>;
  using Code = boost::system::error_code;
  /// Of one request: its head and its body are read, its answer is made, what is left of that is written. `end`: all is
  /// written, and nothing else will be.
  enum class State { head, body, answer, flush, end };

  void watch_time();
  void read();
  void take_bytes(std::size_t n);
  void take_end(Code error);
  void await_head();
  void read_head();
  void take_head(std::size_t end);
  void note_request();
  void take_expectation();
  void read_body();
  void refuse_body(Code error);
  void begin_answer();
  void take_request();
  bool has_too_much() const;
  void write(std::string bytes);
  void write_next();
  void take_written();
  void go_on();
  void note_slowness();
  void write_response(const Response& response);
  void finish_answer();
  Record& record();
  void end_record();
  void refuse(int status, const std::string& message);
  void end_with(const Response& response);
  void linger();
  std::chrono::seconds write_time() const;

  /// Of further requests, that are taken while one is answered; and of what is read at once.
  static constexpr std::size_t kMostAhead = 16 << 10;

  const std::shared_ptr<Transport> transport_;
  const ConnectionLimits& limits_;
  Handler handler_;
  Screen screen_;
  std::function<bool()> is_draining_;
  std::function<void()> on_end_, on_leave_;
  std::function<void(bool)> on_slow_;
  std::array<char, kMostAhead> input_;  ///< what is being read, until it is part of buffer_
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::shared_ptr<Record> record_;  ///< of the request that was not answered yet
  std::string fields_;              ///< of the answer
  Request request_;                 ///< as its head says: trailers change nothing of it
  std::deque<std::string> outbox_;
  std::size_t outbox_bytes_ = 0;
  State state_ = State::head;
  bool reads_ = false, writes_ = false, has_input_ended_ = false, is_closed_ = false;
  bool keeps_alive_ = true, is_chunked_ = false;
  bool is_head_ = false;  ///< the request is HEAD: answers have no body
  bool streams_ = false;  ///< the answer, of which nobody knows how long it is
  bool is_slow_ = false;  ///< on_slow_ was told so
  bool waits_for_first_ = true;
};

}  // namespace server

// connection.cpp: see connection.h.
#include "connection.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/read.hpp>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine.h"

namespace server {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using std::chrono::seconds;

/// Of a stream that its client does not read: from so many bytes on its request pauses, below so many it goes on, and
/// with so many, which a request that was told to pause does not reach, the connection ends.
constexpr std::size_t kSlowOutbox = 256 << 10, kQuickOutbox = 64 << 10, kMostOutbox = 8 << 20;

/// Of further requests, that are taken while one is answered.
constexpr std::size_t kMostAhead = 16 << 10;
/// Bytes that are not understood yet: beyond a head only lines between chunks and trailers can be as many.
constexpr std::size_t kMostBuffer = 64 << 10;

std::string text(const boost::beast::string_view& view) { return {view.data(), view.size()}; }

}  // namespace

std::string_view reason_of(int status) {
  return {http::obsolete_reason(static_cast<http::status>(status)).data(),
          http::obsolete_reason(static_cast<http::status>(status)).size()};
}

Connection::Connection(net::ip::tcp::socket socket, const ConnectionLimits& limits, Handler handler, Screen screen,
                       std::function<bool()> is_draining, std::function<void()> on_end)
    : stream_(std::move(socket)),
      limits_(limits),
      handler_(std::move(handler)),
      screen_(std::move(screen)),
      is_draining_(std::move(is_draining)),
      on_end_(std::move(on_end)),
      buffer_(limits.head.most_bytes + kMostBuffer) {}

Connection::~Connection() { on_end_(); }

void Connection::start() { await_head(); }

void Connection::drain() {
  keeps_alive_ = false;
  if (!answers_ && !writes_) close();
}

// ---- Reading

/// Between two requests a connection may rest for longer than a head may take, whose time begins with its first byte.
void Connection::await_head() {
  answers_ = false;
  is_head_ = false;
  parser_.reset();
  stream_.expires_after(seconds(buffer_.size() == 0 && !waits_for_first_ ? limits_.idle_s : limits_.head_s));
  read_head();
}

void Connection::read_head() {
  const std::string_view there(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  const std::size_t end = find_end_of_head(there);
  if (end == std::string_view::npos) return refuse(400, "a line of the head does not end with CR LF");
  if (end > limits_.head.most_bytes || (end == 0 && there.size() > limits_.head.most_bytes))
    return refuse(431, "the head is larger than " + std::to_string(limits_.head.most_bytes) + " bytes");
  if (end != 0) return take_head(end);
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](Code error, std::size_t n) {
    if (error) return self->close();  // also where the head has not come in time: then the stream is closed already
    const bool is_first = self->buffer_.size() == 0 && !self->waits_for_first_;
    self->buffer_.commit(n);
    if (is_first) self->stream_.expires_after(seconds(self->limits_.head_s));
    self->read_head();
  });
}

void Connection::take_head(std::size_t end) {
  waits_for_first_ = false;
  const HeadProblem problem = check_head({static_cast<const char*>(buffer_.data().data()), end}, limits_.head);
  if (problem.status != 0) return refuse(problem.status, problem.message);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.head.most_bytes) + 1);
  parser_->body_limit(limits_.head.most_body_bytes);
  Code error;
  buffer_.consume(parser_->put(net::buffer(buffer_.data().data(), end), error));
  if (error == http::error::need_more) error = {};
  if (error || !parser_->is_header_done()) return refuse(400, "the head is not one of HTTP/1.1");
  note_request();
  if (parser_->is_done()) return take_request();
  if (const auto refused = screen_(request_)) return end_with(*refused);
  const std::string expected = text(parser_->get()[http::field::expect]);
  if (expected.empty() || parser_->get().version() < 11) return read_body();
  if (!boost::beast::iequals(expected, "100-continue"))
    return refuse(417, "Expect: 100-continue is all that can be expected");
  auto go_on = std::make_shared<std::string>("HTTP/1.1 100 Continue\r\n\r\n");
  net::async_write(stream_, net::buffer(*go_on), [self = shared_from_this(), go_on](Code failed, std::size_t) {
    failed ? self->close() : self->read_body();
  });
}

void Connection::note_request() {
  const auto& head = parser_->get();
  keeps_alive_ = head.keep_alive();
  is_chunked_ = head.version() >= 11;
  is_head_ = head.method() == http::verb::head;
  request_ = {};
  request_.method = is_head_ ? "GET" : text(head.method_string());
  request_.target = text(head.target());
  request_.target.resize(std::min(request_.target.find('?'), request_.target.size()));
  request_.authorization = text(head[http::field::authorization]);
  if (request_.authorization.empty() && !head["x-api-key"].empty())
    request_.authorization = "Bearer " + text(head["x-api-key"]);
  request_.if_none_match = text(head[http::field::if_none_match]);
}

void Connection::read_body() {
  stream_.expires_after(seconds(limits_.body_s));
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](Code error, std::size_t) {
    if (!error) return self->take_request();
    if (error == http::error::body_limit)
      return self->refuse(413,
                          "the body is larger than " + std::to_string(self->limits_.head.most_body_bytes) + " bytes");
    if (error.category() == http::make_error_code(http::error::bad_chunk).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message)
      return self->refuse(400, "the body is not framed as HTTP/1.1 wants: " + error.message());
    self->close();
  });
}

void Connection::take_request() {
  stream_.expires_never();
  answers_ = true;
  if (is_draining_()) keeps_alive_ = false;
  request_.body = std::move(parser_->get().body());
  watch();
  handler_(shared_from_this(), std::exchange(request_, {}));
}

/// Until the answer has ended. What comes meanwhile, another request, waits in the buffer, for only what comes after it
/// says whether the client is still there; a client that sends more than a few of those at once is not watched.
void Connection::watch() {
  if (watches_ || buffer_.size() >= kMostAhead) return;
  watches_ = true;
  stream_.socket().async_wait(net::ip::tcp::socket::wait_read, [self = shared_from_this()](Code error) {
    self->watches_ = false;
    if (error || self->is_closed_ || !self->answers_) return;
    const auto room = self->buffer_.prepare(kMostAhead - self->buffer_.size());
    const ssize_t n = recv(self->stream_.socket().native_handle(), room.data(), room.size(), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return self->close();  // it has ended, or was reset
    if (n > 0) self->buffer_.commit(static_cast<std::size_t>(n));
    self->watch();
  });
}

// ---- Writing

void Connection::respond(const Response& response) {
  if (answers_) write_response(response);
}

void Connection::write_response(const Response& response) {
  if (is_closed_) return;
  std::string bytes = "HTTP/1.1 " + std::to_string(response.status) + " ";
  bytes.append(reason_of(response.status)).append("\r\nContent-Type: ").append(response.type);
  bytes.append("\r\nContent-Length: ").append(std::to_string(response.body.size())).append("\r\n");
  if (!keeps_alive_) bytes.append("Connection: close\r\n");
  bytes.append(response.fields).append("\r\n");
  if (!is_head_ && response.status != 304) bytes.append(response.body);
  write(std::move(bytes));
  finish_answer();
}

void Connection::begin_stream(const std::string& type) {
  if (is_closed_ || !answers_) return;
  streams_ = true;
  if (!is_chunked_) keeps_alive_ = false;
  std::string bytes =
      "HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  bytes.append(is_chunked_ ? "Transfer-Encoding: chunked\r\n" : "").append(keeps_alive_ ? "" : "Connection: close\r\n");
  write(bytes.append("\r\n"));
}

void Connection::stream(std::string_view bytes) {
  if (is_closed_ || !answers_ || bytes.empty()) return;
  if (!is_chunked_) return write(std::string(bytes));
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string size;
  for (std::size_t n = bytes.size(); n != 0; n /= 16) size.insert(size.begin(), kDigits[n % 16]);
  write(size.append("\r\n").append(bytes).append("\r\n"));
}

void Connection::end_stream() {
  if (is_closed_ || !answers_) return;
  if (is_chunked_) write("0\r\n\r\n");
  finish_answer();
}

void Connection::write(std::string bytes) {
  outbox_bytes_ += bytes.size();
  outbox_.push_back(std::move(bytes));
  if (streams_ && outbox_bytes_ > kMostOutbox) return close();
  if (!writes_) write_next();
  note_slowness();
}

void Connection::note_slowness() {
  const bool changes = is_slow_ ? outbox_bytes_ < kQuickOutbox : outbox_bytes_ > kSlowOutbox;
  if (!changes || !on_slow_) return;
  is_slow_ = !is_slow_;
  on_slow_(is_slow_);
}

void Connection::write_next() {
  writes_ = true;
  stream_.expires_after(seconds(limits_.write_s));
  net::async_write(stream_, net::buffer(outbox_.front()), [self = shared_from_this()](Code error, std::size_t) {
    if (error || self->is_closed_) return self->close();
    self->outbox_bytes_ -= self->outbox_.front().size();
    self->outbox_.pop_front();
    self->note_slowness();
    if (!self->outbox_.empty()) return self->write_next();
    self->writes_ = false;
    self->stream_.expires_never();
    if (self->answers_) return;
    if (self->closes_after_write_ || !self->keeps_alive_) return self->linger();
    self->await_head();
  });
}

/// The answer is in the outbox; after it the next request is read, or the connection ends.
void Connection::finish_answer() {
  answers_ = streams_ = false;
  on_leave_ = nullptr;
  if (std::exchange(is_slow_, false)) on_slow_(false);
  on_slow_ = nullptr;
}

/// After what cannot be read as one request nothing else can be.
void Connection::refuse(int status, const std::string& message) {
  const char* type = status < 500 ? "invalid_request_error" : "server_error";
  end_with({status, "application/json", refusal(status, type, message).json});
}

void Connection::end_with(const Response& response) {
  if (is_closed_) return;
  stream_.expires_never();
  keeps_alive_ = false;
  closes_after_write_ = true;
  write_response(response);
}

/// What was sent arrives only if the socket is not closed on bytes that nobody has read.
void Connection::linger() {
  Code ignored;
  stream_.socket().shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(seconds(2));
  discard();
}

void Connection::discard() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](Code error, std::size_t) {
    error ? self->close() : self->discard();
  });
}

void Connection::close() {
  if (std::exchange(is_closed_, true)) return;
  Code ignored;
  stream_.socket().shutdown(net::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
  if (std::exchange(is_slow_, false)) on_slow_(false);
  on_slow_ = nullptr;  // it holds what holds this connection
  if (on_leave_) std::exchange(on_leave_, nullptr)();
}

}  // namespace server

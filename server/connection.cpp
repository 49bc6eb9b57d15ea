// connection.cpp: see connection.h.
#include "connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "refusal.h"

namespace server {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using std::chrono::seconds;

/// Of a stream that its client does not read: from so many bytes on its request pauses, below so many it goes on, and
/// with so many, which a request that was told to pause does not reach, the connection ends.
constexpr std::size_t kSlowOutbox = 256 << 10, kQuickOutbox = 64 << 10, kMostOutbox = 8 << 20;

/// Bytes that are not understood yet: beyond a head only lines between chunks and trailers can be as many.
constexpr std::size_t kMostBuffer = 64 << 10;

/// In which a client that was told all can read it before the connection is closed.
constexpr seconds kLinger{2};

std::string text(const boost::beast::string_view& view) { return {view.data(), view.size()}; }

/// What the client calls its request, if that can be in a head and in a log, or else 16 digits of chance.
std::string id_of(const std::string& given) {
  constexpr std::size_t kMostId = 128;
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7F && c != '"' && c != '\\'; };
  if (!given.empty() && given.size() <= kMostId && std::all_of(given.begin(), given.end(), is_plain)) return given;
  std::random_device random;
  char digits[17];
  std::snprintf(digits, sizeof digits, "%08x%08x", random(), random());
  return digits;
}

/// Of an answer, as far as a log has them.
void note_contents(Record& record, std::string_view bytes) {
  if (record.has_contents && record.answer.size() < kMostContents)
    record.answer.append(bytes.substr(0, kMostContents - record.answer.size()));
}

}  // namespace

std::string_view reason_of(int status) {
  return {http::obsolete_reason(static_cast<http::status>(status)).data(),
          http::obsolete_reason(static_cast<http::status>(status)).size()};
}

Connection::Connection(std::shared_ptr<Transport> transport, const ConnectionLimits& limits, Handler handler,
                       Screen screen, std::function<bool()> is_draining, std::function<void()> on_end)
    : transport_(std::move(transport)),
      limits_(limits),
      handler_(std::move(handler)),
      screen_(std::move(screen)),
      is_draining_(std::move(is_draining)),
      on_end_(std::move(on_end)),
      input_(),
      buffer_(limits.head.most_bytes + kMostBuffer + 2 * kMostAhead) {}

Connection::~Connection() { on_end_(); }

void Connection::start() {
  watch_time();
  await_head();
}

void Connection::turn_away(int status, const std::string& message) {
  watch_time();
  refuse(status, message);
}

void Connection::drain() {
  keeps_alive_ = false;
  if (!writes_ && (state_ == State::head || state_ == State::body)) close();
}

void Connection::watch_time() {
  transport_->set_on_expiry([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
}

// ---- Reading

/// One read at a time, in each state: what comes while an answer is made or written, another request, waits in the
/// buffer, for only what comes after it says whether the client is still there. A client that sends more than a few of
/// those at once is not watched.
void Connection::read() {
  if (reads_ || is_closed_) return;
  const bool is_ahead = state_ == State::answer || state_ == State::flush;
  if (has_input_ended_) return is_ahead ? void() : close();
  if (is_ahead && buffer_.size() >= kMostAhead) return;
  reads_ = true;
  const std::size_t most = is_ahead ? kMostAhead - buffer_.size() : kMostAhead;
  transport_->read(net::buffer(input_.data(), most), [self = shared_from_this()](Code error, std::size_t n) {
    self->reads_ = false;
    if (self->is_closed_) return;
    error ? self->take_end(error) : self->take_bytes(n);
  });
}

void Connection::take_bytes(std::size_t n) {
  if (state_ == State::end) return read();
  const bool is_first = state_ == State::head && buffer_.size() == 0 && !waits_for_first_;
  buffer_.commit(net::buffer_copy(buffer_.prepare(n), net::buffer(input_.data(), n)));
  if (is_first) transport_->expire_after(seconds(limits_.head_s));
  if (state_ == State::head) return read_head();
  if (state_ == State::body) return read_body();
  read();
}

/// A client that sends no more may still read an answer that is complete.
void Connection::take_end(Code error) {
  if (error == kNoTls && state_ == State::head) return refuse(400, "HTTPS is spoken here, and this is HTTP");
  has_input_ended_ = true;
  if (state_ != State::flush) close();
}

/// Between two requests a connection may rest for longer than a head may take, whose time begins with its first byte.
void Connection::await_head() {
  state_ = State::head;
  is_head_ = false;
  fields_.clear();
  parser_.reset();
  transport_->expire_after(seconds(buffer_.size() == 0 && !waits_for_first_ ? limits_.idle_s : limits_.head_s));
  read_head();
}

void Connection::read_head() {
  const std::string_view there(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  const std::size_t end = find_end_of_head(there);
  if (end == std::string_view::npos) return refuse(400, "a line of the head does not end with CR LF");
  if (end > limits_.head.most_bytes || (end == 0 && there.size() > limits_.head.most_bytes))
    return refuse(431, "the head is larger than " + std::to_string(limits_.head.most_bytes) + " bytes");
  end != 0 ? take_head(end) : read();
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
  const auto part = std::make_shared<BodyBudget::Part>(limits_.bodies);
  parser_->get().body().part = part;
  const Screened screened = screen_(request_, *part);
  fields_ = screened.fields;
  if (!screened.answer) return parser_->is_done() ? take_request() : take_expectation();
  if (!parser_->is_done()) return end_with(*screened.answer);
  begin_answer();
  respond(*screened.answer);
}

void Connection::take_expectation() {
  const std::string expected = text(parser_->get()[http::field::expect]);
  const bool is_expected = !expected.empty() && parser_->get().version() >= 11;
  if (is_expected && !boost::beast::iequals(expected, "100-continue"))
    return refuse(417, "Expect: 100-continue is all that can be expected");
  state_ = State::body;
  parser_->eager(true);
  transport_->expire_after(seconds(limits_.body_s));
  if (is_expected) write("HTTP/1.1 100 Continue\r\n\r\n");
  read_body();
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
  request_.length = parser_->content_length().value_or(0);
  request_.if_none_match = text(head[http::field::if_none_match]);
  request_.host = text(head[http::field::host]);
  request_.origin = text(head[http::field::origin]);
  request_.fetch_site = text(head["Sec-Fetch-Site"]);
  request_.asked_method = text(head[http::field::access_control_request_method]);
  request_.asked_fields = text(head[http::field::access_control_request_headers]);
  record_ = std::make_shared<Record>();
  record_->id = id_of(text(head["x-request-id"]));
  record_->method = request_.method;
  record_->path = request_.target;
  record_->has_contents = limits_.has_contents;
  request_.record = record_;
}

void Connection::read_body() {
  Code error;
  for (std::size_t n = 1; n != 0 && !error && buffer_.size() != 0 && !parser_->is_done(); buffer_.consume(n))
    n = parser_->put(buffer_.data(), error);
  if (parser_->is_done()) return take_request();
  if (error && error != http::error::need_more) return refuse_body(error);
  if (buffer_.size() >= kMostBuffer) return refuse_body(http::error::buffer_overflow);
  read();
}

void Connection::refuse_body(Code error) {
  if (error == boost::system::errc::not_enough_memory) return end_with(too_many_bodies());
  if (error == http::error::body_limit)
    return refuse(413, "the body is larger than " + std::to_string(limits_.head.most_body_bytes) + " bytes");
  refuse(400, "the body is not framed as HTTP/1.1 wants: " + error.message());
}

void Connection::begin_answer() {
  state_ = State::answer;
  transport_->expire_after(writes_ ? write_time() : seconds(0));
  if (is_draining_()) keeps_alive_ = false;
  read();
}

void Connection::take_request() {
  begin_answer();
  request_.body = std::move(parser_->get().body().bytes);
  request_.part = std::move(parser_->get().body().part);
  handler_(shared_from_this(), std::exchange(request_, {}));
}

// ---- Writing

void Connection::respond(const Response& response) {
  if (state_ == State::answer) write_response(response);
}

void Connection::write_response(const Response& response) {
  if (is_closed_) return;
  std::string bytes = "HTTP/1.1 " + std::to_string(response.status) + " ";
  bytes.append(reason_of(response.status)).append("\r\nContent-Type: ").append(response.type);
  bytes.append("\r\nContent-Length: ").append(std::to_string(response.body.size())).append("\r\n");
  if (!keeps_alive_) bytes.append("Connection: close\r\n");
  bytes.append("X-Request-Id: " + record().id + "\r\n").append(fields_).append(response.fields).append("\r\n");
  record().status = response.status;
  note_contents(record(), response.body);
  if (!is_head_ && response.status != 304) bytes.append(response.body);
  write(std::move(bytes));
  finish_answer();
}

void Connection::begin_stream(const std::string& type) {
  if (is_closed_ || state_ != State::answer) return;
  streams_ = true;
  if (!is_chunked_) keeps_alive_ = false;
  std::string bytes =
      "HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  bytes.append(is_chunked_ ? "Transfer-Encoding: chunked\r\n" : "").append(keeps_alive_ ? "" : "Connection: close\r\n");
  bytes.append("X-Request-Id: " + record().id + "\r\n").append(fields_).append("\r\n");
  record().status = 200;
  record().is_stream = true;
  write(std::move(bytes));
}

void Connection::stream(std::string_view bytes) {
  if (is_closed_ || state_ != State::answer || bytes.empty() || is_head_) return;
  note_contents(record(), bytes);
  if (!is_chunked_) return write(std::string(bytes));
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string size;
  for (std::size_t n = bytes.size(); n != 0; n /= 16) size.insert(size.begin(), kDigits[n % 16]);
  write(size.append("\r\n").append(bytes).append("\r\n"));
}

void Connection::end_stream() {
  if (is_closed_ || state_ != State::answer) return;
  if (is_chunked_ && !is_head_) write("0\r\n\r\n");
  finish_answer();
  if (!writes_) go_on();
}

/// One piece may be of any size, since what was asked for made it: the others count.
bool Connection::has_too_much() const {
  if (outbox_bytes_ <= kMostOutbox) return false;
  const auto largest = std::max_element(outbox_.begin(), outbox_.end(),
                                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return outbox_bytes_ - largest->size() > kMostOutbox;
}

void Connection::write(std::string bytes) {
  outbox_bytes_ += bytes.size();
  outbox_.push_back(std::move(bytes));
  if (streams_ && has_too_much()) return close();
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
  if (state_ != State::body) transport_->expire_after(write_time());
  transport_->write(net::buffer(outbox_.front()), [self = shared_from_this()](Code error) {
    if (self->is_closed_) return;
    error ? self->close() : self->take_written();
  });
}

void Connection::take_written() {
  outbox_bytes_ -= outbox_.front().size();
  outbox_.pop_front();
  note_slowness();
  if (is_closed_) return;
  if (!outbox_.empty()) return write_next();
  writes_ = false;
  if (state_ == State::answer) transport_->expire_after(seconds(0));
  if (state_ == State::flush) go_on();
}

void Connection::go_on() { keeps_alive_ ? await_head() : linger(); }

/// Who is new, and is turned away, has no more time than a request would have to come.
seconds Connection::write_time() const {
  return seconds(waits_for_first_ ? std::min(limits_.head_s, limits_.write_s) : limits_.write_s);
}

/// The answer is in the outbox; after it the next request is read, or the connection ends.
void Connection::finish_answer() {
  streams_ = false;
  state_ = State::flush;
  on_leave_ = nullptr;
  if (std::exchange(is_slow_, false)) on_slow_(false);
  on_slow_ = nullptr;
  end_record();
}

/// Of what is answered before it is a request too.
Record& Connection::record() {
  if (record_ == nullptr) {
    record_ = std::make_shared<Record>();
    record_->id = id_of("");
  }
  return *record_;
}

void Connection::end_record() {
  const auto ended = std::exchange(record_, nullptr);
  if (ended != nullptr && limits_.on_answered) limits_.on_answered(*ended);
}

/// After what cannot be read as one request nothing else can be.
void Connection::refuse(int status, const std::string& message) {
  const char* type = status < 500 ? "invalid_request_error" : "server_error";
  end_with({status, "application/json", refusal(status, type, message).json});
}

void Connection::end_with(const Response& response) {
  if (is_closed_) return;
  keeps_alive_ = false;
  state_ = State::flush;
  transport_->expire_after(write_time());
  write_response(response);
}

/// What was sent arrives only if the socket is not closed on bytes that nobody has read.
void Connection::linger() {
  state_ = State::end;
  buffer_.clear();
  transport_->finish_writing();
  transport_->expire_after(kLinger);
  read();
}

void Connection::close() {
  if (std::exchange(is_closed_, true)) return;
  if (outbox_.empty() && state_ != State::answer) transport_->finish_writing();
  transport_->close();
  if (std::exchange(is_slow_, false)) on_slow_(false);
  on_slow_ = nullptr;  // it holds what holds this connection
  if (on_leave_) std::exchange(on_leave_, nullptr)();
  if (record_ == nullptr) return;
  record_->has_left = true;
  end_record();
}

}  // namespace server

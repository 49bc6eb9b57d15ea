// connection_world.cpp: see connection_world.h.
#include "connection_world.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "choices.h"
#include "server/connection.h"
#include "written_answers.h"

namespace qinfer::fuzz {
namespace {

using server::Connection;
using Code = server::Transport::Code;

void require(bool is_so, const char* what) {
  if (!is_so) throw std::string(what);
}

/// A client that reads and sends when it is told to.
class Wire : public server::Transport {
 public:
  void read(boost::asio::mutable_buffer room, OnRead on_read) override {
    require(!is_closed && !on_read_, "read twice at a time, or after the end");
    require(room.size() >= 1 && room.size() <= 16 << 10, "a read without a bound");
    room_ = room;
    on_read_ = std::move(on_read);
  }
  void write(boost::asio::const_buffer bytes, OnWritten on_written) override {
    require(!is_closed && !on_written_, "written twice at a time, or after the end");
    require(!is_finished, "written after it was finished");
    left_ = bytes;
    on_written_ = std::move(on_written);
    last_taken = now;
  }
  void expire_after(std::chrono::seconds time) override {
    require(!is_closed, "time for what is closed");
    deadline_ = time.count() == 0 ? ~std::uint64_t{0} : now + static_cast<std::uint64_t>(time.count());
  }
  void set_on_expiry(std::function<void()> on_expiry) override { on_expiry_ = std::move(on_expiry); }
  void finish_writing() override {
    require(!is_closed && !on_written_, "finished before all was written");
    is_finished = true;
  }
  void close() override {
    is_closed = true;
    on_expiry_ = nullptr;
    complete_read(boost::asio::error::operation_aborted, 0);
    complete_write(boost::asio::error::operation_aborted);
  }

  bool reads() const { return on_read_ != nullptr; }
  bool writes() const { return on_written_ != nullptr; }
  void deliver(std::size_t n) {
    n = std::min({n, room_.size(), incoming.size()});
    std::memcpy(room_.data(), incoming.data(), n);
    incoming.erase(0, n);
    n_read += n;
    complete_read({}, n);
  }
  void end_input(Code error) { complete_read(error, 0); }
  void take(std::size_t n) {
    n = std::min(n, left_.size());
    written.append(static_cast<const char*>(left_.data()), n);
    left_ += n;
    if (n != 0) last_taken = now;
    if (left_.size() == 0) complete_write({});
  }
  void refuse_output() { complete_write(boost::asio::error::connection_reset); }
  void pass_time(std::uint64_t seconds) {
    now += seconds;
    if (now < deadline_ || !on_expiry_) return;
    deadline_ = ~std::uint64_t{0};
    const auto on_expiry = on_expiry_;
    on_expiry();
  }
  /// Calls what was asked for, as the loop of the sockets would.
  bool run_one() {
    if (calls_.empty()) return false;
    const auto call = std::move(calls_.front());
    calls_.pop_front();
    call();
    return true;
  }

  bool is_closed = false, is_finished = false;
  std::uint64_t now = 0, last_taken = 0;
  std::size_t n_read = 0;
  std::string incoming, written;

 private:
  void complete_read(Code error, std::size_t n) {
    if (!on_read_) return;
    calls_.push_back([call = std::exchange(on_read_, nullptr), error, n] { call(error, n); });
  }
  void complete_write(Code error) {
    if (!on_written_) return;
    calls_.push_back([call = std::exchange(on_written_, nullptr), error] { call(error); });
  }

  boost::asio::mutable_buffer room_;
  boost::asio::const_buffer left_;
  OnRead on_read_;
  OnWritten on_written_;
  std::function<void()> on_expiry_;
  std::uint64_t deadline_ = ~std::uint64_t{0};
  std::deque<std::function<void()>> calls_;
};

constexpr const char* kPieces[] = {"GET / HTTP/1.1\r\n",
                                   "POST /a HTTP/1.1\r\n",
                                   "GET /b HTTP/1.0\r\n",
                                   "Host: a\r\n",
                                   "\r\n",
                                   "Content-Length: 5\r\n",
                                   "Content-Length: 0\r\n",
                                   "Transfer-Encoding: chunked\r\n",
                                   "Connection: close\r\n",
                                   "Connection: keep-alive\r\n",
                                   "Expect: 100-continue\r\n",
                                   "Expect: x\r\n",
                                   "5\r\nhello\r\n",
                                   "0\r\n\r\n",
                                   "0\r\nX: y\r\n\r\n",
                                   "1;x=y\r\na\r\n",
                                   "ffffffffffffffff\r\n",
                                   "hello",
                                   "X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
                                   "\n",
                                   "\r",
                                   " ",
                                   ":",
                                   "Origin: http://a\r\n",
                                   "PRI * HTTP/2.0\r\n",
                                   "Content-Length: 99999\r\n"};

struct Sent {
  std::string method, target, body;
};

class World {
 public:
  explicit World(std::string_view bytes) : choices_(bytes) {
    limits_.head = {512, 8, 2000};
    limits_.head_s = 10, limits_.body_s = 20, limits_.idle_s = 40, limits_.write_s = 30;
    connection_ = std::make_shared<Connection>(
        wire_, limits_,
        [this](const std::shared_ptr<Connection>&, server::Request request) { take(std::move(request)); },
        [this](const server::Request&, server::BodyBudget::Part&) { return screen(); }, [this] { return is_draining_; },
        [this] { ++n_ends_; });
  }

  void run() {
    choices_.one_of(32) ? connection_->turn_away(503, "full") : connection_->start();
    is_turned_away_ = !wire_->reads();
    for (int step = 0; step < 300 && !choices_.done(); ++step) {
      act();
      if (!choices_.one_of(4)) settle();
      check_time();
    }
    end();
    check_written();
  }

 private:
  // ---- What happens

  void act() {
    switch (choices_.below(16)) {
      case 0:
      case 1:
      case 2: return send_request();
      case 3: return choices_.one_of(4) ? send_bad_body() : send_pieces();
      case 4:
      case 5:
      case 6: return deliver(1 + choices_.below(64));
      case 7: return deliver(1 << 20);
      case 8: return wire_->take(1 + choices_.below(300));
      case 9: return wire_->take(1 << 20);
      case 10: return wire_->pass_time(choices_.one_of(4) ? choices_.below(50) : choices_.below(6));
      case 11:
      case 12:
      case 13: return answer();
      case 14: return settle();
      default: return disturb();
    }
  }

  void disturb() {
    switch (choices_.below(8)) {
      case 0: return leave(boost::asio::error::eof);
      case 1: return leave(boost::asio::error::connection_reset);
      case 2: return leave(server::Transport::Code(boost::system::errc::make_error_code(server::kNoTls)));
      case 3: return is_cut_ = is_cut_ || wire_->writes(), wire_->refuse_output();
      case 4: return is_draining_ = true, connection_->drain();
      case 5: return is_cut_ = true, connection_->close();
      case 6: return wire_->incoming.append(20000, 'a'), void(is_pure_ = false);
      default: return late_calls();
    }
  }

  void leave(Code error) {
    if (!wire_->reads()) return;
    has_left_ = true;
    wire_->end_input(error);
  }

  void deliver(std::size_t n) {
    if (wire_->reads() && !wire_->incoming.empty() && !has_left_) wire_->deliver(n);
  }

  /// A request as it should be, of one of the forms that there are.
  void send_request() {
    const std::size_t form = choices_.below(6);
    Sent sent = {form == 0 ? "HEAD" : "GET", "/" + std::to_string(sent_.size()), {}};
    if (form >= 2) sent.method = "POST", sent.body = choices_.text(choices_.below(4) * 20);
    const bool is_old = form == 5;
    std::string bytes = sent.method + " " + sent.target + (is_old ? "?x HTTP/1.0\r\n" : " HTTP/1.1\r\nHost: a\r\n");
    if (choices_.one_of(8)) bytes += "Connection: close\r\n";
    if (is_old && choices_.one_of(2)) bytes += "Connection: keep-alive\r\n";
    if (form == 3) bytes += "Expect: 100-continue\r\n";
    if (form == 4) {
      bytes += "Transfer-Encoding: chunked\r\n\r\n" + chunks_of(sent.body);
    } else {
      if (form >= 2) bytes += "Content-Length: " + std::to_string(sent.body.size()) + "\r\n";
      bytes += "\r\n" + sent.body;
    }
    wire_->incoming += bytes;
    sent_.push_back(std::move(sent));
  }

  /// A head that is right, and a body or an expectation that is not.
  void send_bad_body() {
    constexpr const char* kBodies[] = {"Expect: x\r\nContent-Length: 1\r\n\r\n",
                                       "Content-Length: 2001\r\n\r\n",
                                       "Transfer-Encoding: chunked\r\n\r\nx\r\n",
                                       "Transfer-Encoding: chunked\r\n\r\n1\r\nabc",
                                       "Transfer-Encoding: chunked\r\n\r\nffff\r\n",
                                       "Transfer-Encoding: chunked\r\n\r\n1;",
                                       "Content-Length: 500\r\n\r\n"};
    is_pure_ = false;
    wire_->incoming += std::string("POST / HTTP/1.1\r\nHost: a\r\n") + choices_.of(kBodies);
  }

  std::string chunks_of(std::string_view body) {
    std::string bytes;
    while (!body.empty()) {
      const std::size_t n = std::min(body.size(), 1 + choices_.below(15));
      bytes.append(1, "0123456789abcdef"[n]).append(choices_.one_of(4) ? ";a=b\r\n" : "\r\n").append(body.substr(0, n));
      bytes += "\r\n";
      body.remove_prefix(n);
    }
    return bytes + (choices_.one_of(4) ? "0\r\nX: y\r\n\r\n" : "0\r\n\r\n");
  }

  void send_pieces() {
    is_pure_ = false;
    for (std::size_t n = 1 + choices_.below(6); n != 0; --n)
      wire_->incoming += choices_.one_of(8) ? choices_.text(4) : std::string(choices_.of(kPieces));
  }

  // ---- The server's part

  server::Screened screen() {
    require(!wire_->is_closed, "a request after the end");
    require(!is_asked_, "a request while another is answered");
    last_progress_ = screened_at_ = wire_->now;
    server::Screened screened = {{}, "X-Id: " + std::to_string(n_screened_++) + "\r\n"};
    if (choices_.one_of(8)) screened.answer = server::Response{401, "text/plain", "no"};
    awaits_body_ = !screened.answer;
    return screened;
  }

  void take(server::Request request) {
    require(!is_asked_ && !wire_->is_closed, "two requests at a time, or one after the end");
    if (is_pure_) {
      require(n_screened_ <= sent_.size(), "more requests than were sent");
      const Sent& sent = sent_[n_screened_ - 1];
      require(request.target == sent.target && request.body == sent.body, "a request is not what was sent");
      require(request.method == (sent.method == "HEAD" ? "GET" : sent.method), "another method");
    }
    awaits_body_ = false;
    is_asked_ = true, has_begun_ = false, is_slow_ = false;
    n_read_before_ = wire_->n_read;
    connection_->set_on_leave([this] {
      require(is_asked_, "a client left that was not waited for");
      is_asked_ = false, is_cut_ = true;
    });
    connection_->set_on_slow([this](bool is_slow) {
      require(is_slow != is_slow_, "slow, or quick, twice");
      is_slow_ = is_slow;
    });
    if (choices_.one_of(3)) answer();  // at once
  }

  void answer() {
    if (!is_asked_) return;
    constexpr std::size_t kSizes[] = {0, 1, 2, 16, 100, 5000};
    const bool is_large = choices_.one_of(32);
    const std::string bytes(!is_large ? choices_.of(kSizes) : choices_.one_of(8) ? 5'000'000 : 300'000, 'x');
    const std::size_t what = choices_.below(4);
    if (!has_begun_ && what == 0) {
      finish();
      constexpr int kStatuses[] = {200, 304, 404, 500};
      return connection_->respond({choices_.of(kStatuses), "text/plain", bytes});
    }
    if (!std::exchange(has_begun_, true)) connection_->begin_stream("text/event-stream");
    if (what != 3) {
      if (is_pure_ && sent_[n_screened_ - 1].method != "HEAD") n_streamed_ += bytes.size();
      connection_->stream(bytes);
      const std::size_t waiting = n_streamed_ - std::min(n_streamed_, wire_->written.size());
      return require(wire_->is_closed || waiting <= (8 << 20), "more waits for the client than has a bound");
    }
    finish();
    connection_->end_stream();
  }

  void finish() {
    require(wire_->n_read - n_read_before_ <= 16 << 10, "more was read ahead than there is room for");
    is_asked_ = false;
    last_progress_ = wire_->now;
  }

  /// Of a job that has not noticed that all is over.
  void late_calls() {
    if (is_asked_) return;
    connection_->respond({200, "text/plain", "late"});
    connection_->begin_stream("late");
    connection_->stream("late");
    connection_->end_stream();
  }

  void settle() {
    while (wire_->run_one()) {
    }
  }

  // ---- What must be so

  /// With nothing to answer and nothing to write a client has the time to rest, to send a head and a body, and no more.
  void check_time() {
    if (wire_->is_closed) return;
    const std::uint64_t now = wire_->now;
    // A 100 Continue that the client does not take gives its body no more time.
    if (is_pure_ && awaits_body_) require(now - screened_at_ <= limits_.body_s, "a body has more time than it should");
    if (wire_->writes()) {
      require(now - wire_->last_taken <= limits_.write_s + 50, "a client that does not read has no bound");
      last_progress_ = now;
    } else if (!is_asked_) {
      require(now - last_progress_ <= limits_.idle_s + limits_.head_s + limits_.body_s + 100, "a client has no bound");
    } else {
      last_progress_ = now;
    }
  }

  /// All that was sent is answered and read, and then time passes.
  void end() {
    settle();
    for (int seconds = 0; seconds < 400 && !wire_->is_closed; seconds += 10) {
      while (is_asked_ || wire_->writes() || (wire_->reads() && !wire_->incoming.empty() && !has_left_)) {
        if (is_asked_)
          finish(), has_begun_ ? connection_->end_stream() : connection_->respond({200, "text/plain", "late"});
        wire_->take(1 << 20);
        deliver(1 << 20);
        settle();
      }
      wire_->pass_time(10);
      settle();
    }
    require(wire_->is_closed, "it does not end");
    settle();
    require(!is_slow_, "slow after the end");
    require(connection_.use_count() == 1, "something holds what is closed");
    connection_.reset();
    require(n_ends_ == 1, "it has not ended once");
  }

  void check_written() {
    if (!is_pure_ && n_heads_are_unknown()) return;
    const auto answers =
        read_answers(wire_->written, [this](std::size_t id) { return is_pure_ && sent_.at(id).method == "HEAD"; });
    std::size_t n_known = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const bool is_last = i + 1 == answers.size();
      require(answers[i].is_complete || (is_last && !wire_->is_finished), "an answer is not complete");
      require(answers[i].status != 0 || is_last, "an answer without a head");
      if (answers[i].id) require(*answers[i].id == n_known++, "answers are not in the order of their requests");
      require(answers[i].id || is_last, "an answer to no request, and another after it");
    }
    require(n_known <= n_screened_, "more answers than requests");
    if (wire_->is_finished && !is_cut_) require(n_known + awaits_body_ >= n_screened_, "a request has no answer");
    if (is_pure_ && !is_turned_away_)
      for (const WrittenAnswer& answer : answers)
        require(answer.status == 0 || answer.id || has_left_, "what is right was refused");
  }

  /// HEAD in pieces that fit together by chance, whose answers have no body.
  bool n_heads_are_unknown() const {
    return std::any_of(sent_.begin(), sent_.end(), [](const Sent& sent) { return sent.method == "HEAD"; });
  }

  Choices choices_;
  server::ConnectionLimits limits_;
  const std::shared_ptr<Wire> wire_ = std::make_shared<Wire>();
  std::vector<Sent> sent_;
  bool is_pure_ = true;  ///< all that was sent is requests as they should be
  bool is_draining_ = false, has_left_ = false, is_cut_ = false, is_turned_away_ = false;
  bool awaits_body_ = false, is_asked_ = false, has_begun_ = false, is_slow_ = false;
  std::size_t n_screened_ = 0, n_streamed_ = 0, n_read_before_ = 0, n_ends_ = 0;
  std::uint64_t last_progress_ = 0, screened_at_ = 0;
  std::shared_ptr<Connection> connection_;
};

}  // namespace

std::string run_connection(std::string_view bytes) {
  try {
    World(bytes).run();
    return {};
  } catch (const std::string& wrong) {
    return wrong;
  }
}

}  // namespace qinfer::fuzz

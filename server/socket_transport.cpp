// socket_transport.cpp: see socket_transport.h.
#include "socket_transport.h"

#include <sys/socket.h>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace server {
namespace {

namespace net = boost::asio;

}  // namespace

SocketTransport::SocketTransport(Socket socket) : socket_(std::move(socket)), timer_(socket_.get_executor()) {
  Code ignored;
  socket_.native_non_blocking(true, ignored);
}

void SocketTransport::read(net::mutable_buffer room, OnRead on_read) {
  room_ = room;
  on_read_ = std::move(on_read);
  net::post(socket_.get_executor(), [self = shared_from_this()] { self->go_on_reading(); });
}

void SocketTransport::write(net::const_buffer bytes, OnWritten on_written) {
  left_ = bytes;
  on_written_ = std::move(on_written);
  net::post(socket_.get_executor(), [self = shared_from_this()] { self->go_on_writing(); });
}

void SocketTransport::go_on_reading() {
  const Tried tried = socket_.is_open() ? try_read(room_) : Tried{Outcome::failed, 0, net::error::operation_aborted};
  if (tried.outcome == Outcome::wants_to_read || tried.outcome == Outcome::wants_to_write)
    return wait(tried.outcome, &SocketTransport::go_on_reading);
  std::exchange(on_read_, nullptr)(tried.error, tried.n);
}

void SocketTransport::go_on_writing() {
  while (left_.size() != 0) {
    const Tried tried = socket_.is_open() ? try_write(left_) : Tried{Outcome::failed, 0, net::error::operation_aborted};
    if (tried.outcome == Outcome::failed) return std::exchange(on_written_, nullptr)(tried.error);
    if (tried.outcome != Outcome::done) return wait(tried.outcome, &SocketTransport::go_on_writing);
    left_ += tried.n;
  }
  std::exchange(on_written_, nullptr)({});
}

/// Where the wait itself fails, the socket says so when it is tried again.
void SocketTransport::wait(Outcome for_what, void (SocketTransport::*go_on)()) {
  const auto type = for_what == Outcome::wants_to_read ? Socket::wait_read : Socket::wait_write;
  socket_.async_wait(type, [self = shared_from_this(), go_on](Code error) {
    if (error && self->socket_.is_open()) self->close();
    (self.get()->*go_on)();
  });
}

SocketTransport::Tried SocketTransport::failed_by_errno() {
  return {Outcome::failed, 0, Code(errno, boost::system::system_category())};
}

SocketTransport::Tried SocketTransport::try_read(net::mutable_buffer room) {
  ssize_t n = -1;
  do n = recv(handle(), room.data(), room.size(), 0);
  while (n < 0 && errno == EINTR);
  if (n > 0) return {Outcome::done, static_cast<std::size_t>(n), {}};
  if (n == 0) return {Outcome::failed, 0, net::error::eof};
  return errno == EAGAIN || errno == EWOULDBLOCK ? Tried{Outcome::wants_to_read, 0, {}} : failed_by_errno();
}

SocketTransport::Tried SocketTransport::try_write(net::const_buffer bytes) {
  ssize_t n = -1;
  do n = send(handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  if (n >= 0) return {Outcome::done, static_cast<std::size_t>(n), {}};
  return errno == EAGAIN || errno == EWOULDBLOCK ? Tried{Outcome::wants_to_write, 0, {}} : failed_by_errno();
}

// ---- Ending

void SocketTransport::finish_writing() {
  if (!std::exchange(finishes_, true)) go_on_finishing();
}

void SocketTransport::go_on_finishing() {
  if (!socket_.is_open()) return;
  const Tried tried = try_finish();
  if (tried.outcome == Outcome::wants_to_read || tried.outcome == Outcome::wants_to_write)
    return wait(tried.outcome, &SocketTransport::go_on_finishing);
  Code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void SocketTransport::close() {
  deadline_ = Clock::time_point::max();
  on_expiry_ = nullptr;
  if (!socket_.is_open()) return;
  Code ignored;
  timer_.cancel(ignored);
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

// ---- Time

/// A time that is moved on costs nothing: the timer finds that when it ends.
void SocketTransport::expire_after(std::chrono::seconds time) {
  deadline_ = time.count() == 0 ? Clock::time_point::max() : Clock::now() + time;
  if (time.count() == 0 || (watches_time_ && timer_.expiry() <= deadline_)) return;
  timer_.expires_at(deadline_);
  watch_time();
}

void SocketTransport::watch_time() {
  watches_time_ = true;
  timer_.async_wait([weak = weak_from_this()](Code error) {
    const auto self = weak.lock();
    if (self == nullptr || error) return;  // set anew, or closed
    self->watches_time_ = false;
    if (self->deadline_ == Clock::time_point::max() || !self->socket_.is_open()) return;
    if (Clock::now() >= self->deadline_) {
      self->deadline_ = Clock::time_point::max();
      if (const auto on_expiry = self->on_expiry_) on_expiry();  // which may take itself away
      return;
    }
    self->timer_.expires_at(self->deadline_);
    self->watch_time();
  });
}

}  // namespace server

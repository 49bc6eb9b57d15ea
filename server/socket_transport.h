// socket_transport.h: a transport over a socket of TCP. What reads and writes is replaced by that of TLS in tls.cpp;
// waiting for the socket, and time, are the same for both.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

#include "transport.h"

namespace server {

class SocketTransport : public Transport, public std::enable_shared_from_this<SocketTransport> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  explicit SocketTransport(Socket socket);

  void read(boost::asio::mutable_buffer room, OnRead on_read) override;
  void write(boost::asio::const_buffer bytes, OnWritten on_written) override;
  void expire_after(std::chrono::seconds time) override;
  void set_on_expiry(std::function<void()> on_expiry) override { on_expiry_ = std::move(on_expiry); }
  void finish_writing() override;
  void close() override;

 protected:
  enum class Outcome { done, wants_to_read, wants_to_write, failed };
  /// What could be done without waiting. n: bytes, where it is done; error: where it has failed.
  struct Tried {
    Outcome outcome = Outcome::done;
    std::size_t n = 0;
    Code error;
  };

  virtual Tried try_read(boost::asio::mutable_buffer room);
  virtual Tried try_write(boost::asio::const_buffer bytes);
  /// Whatever has to be written before the socket says that nothing follows.
  virtual Tried try_finish() { return {}; }
  int handle() { return socket_.native_handle(); }
  static Tried failed_by_errno();

 private:
  using Clock = std::chrono::steady_clock;

  void go_on_reading();
  void go_on_writing();
  void go_on_finishing();
  void wait(Outcome for_what, void (SocketTransport::*go_on)());
  void watch_time();

  Socket socket_;
  boost::asio::steady_timer timer_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool watches_time_ = false, finishes_ = false;
  std::function<void()> on_expiry_;
  boost::asio::mutable_buffer room_;
  OnRead on_read_;
  boost::asio::const_buffer left_;  ///< to be written
  OnWritten on_written_;
  Code wait_error_;
};

}  // namespace server

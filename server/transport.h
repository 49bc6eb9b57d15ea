// transport.h: the bytes of one connection, with or without TLS. A Connection speaks HTTP over this interface alone, so
// that tests can drive one without sockets.
//
// All is on the thread of the server's sockets. What is asked for is answered by a call that never comes from inside of
// the call that asked, and always comes: after close() with an error.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <functional>

namespace server {

class Transport {
 public:
  using Code = boost::system::error_code;
  using OnRead = std::function<void(Code error, std::size_t n)>;
  using OnWritten = std::function<void(Code error)>;

  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Some bytes, one at least, as soon as there are any. An error also where the client sends no more: boost::asio's
  /// eof; or kNoTls. One read at a time, which may be together with a write.
  virtual void read(boost::asio::mutable_buffer room, OnRead on_read) = 0;
  /// All of these bytes, which stay where they are until then.
  virtual void write(boost::asio::const_buffer bytes, OnWritten on_written) = 0;
  /// Once so many seconds have passed since the last call, `on_expiry` of set_on_expiry() is called; 0: never.
  virtual void expire_after(std::chrono::seconds time) = 0;
  virtual void set_on_expiry(std::function<void()> on_expiry) = 0;
  /// Tells the client that it has all, with what TLS has to say so. What it sends can still be read, and means nothing.
  virtual void finish_writing() = 0;
  /// At once. An answer that is not complete ends so that its client notices.
  virtual void close() = 0;
};

/// The error of a read where the client does not speak TLS but HTTP: what is written then goes to it as it is.
inline constexpr auto kNoTls = boost::system::errc::wrong_protocol_type;

}  // namespace server

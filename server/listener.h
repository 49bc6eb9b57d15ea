// listener.h: where clients connect: the port, the connections that are open, with TLS if there is a certificate, and
// the signals that end all of this. On the thread of the server's sockets.
//
// SIGTERM and SIGINT: no new connections and no further requests; what is being answered is, for drain_s, or until a
// second one of them. SIGHUP: files are read again. The service manager is told of all.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connection.h"
#include "log.h"
#include "notifier.h"
#include "tls.h"

namespace server {

struct ListenOptions {
  ConnectionLimits limits;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::uint32_t most_connections = 1024, drain_s = 30;
  Log* log = nullptr;                       ///< borrowed; never null in use
  std::string tls_cert_path, tls_key_path;  ///< both, or none: without TLS
  std::string notify_socket;                ///< of the service manager; empty: there is none
};

class Listener {
 public:
  /// Who serves.
  struct Owner {
    Handler handler;
    Screen screen;
    std::function<void()> reload;  ///< at SIGHUP
    std::function<void()> end;     ///< nothing is served any more, from before the last connections are closed
  };

  /// Listens, so that clients which connect wait. Throws std::runtime_error where that cannot be.
  Listener(boost::asio::io_context& context, const ListenOptions& options, Owner owner);
  /// Serves them, and takes signals, which until then have their usual effect. The service manager is told so.
  void start();
  /// Where clients connect: "http://127.0.0.1:8080".
  std::string url() const;
  std::uint32_t n_connections() const { return n_connections_; }
  bool is_draining() const { return is_draining_; }

 private:
  using Connected = std::shared_ptr<Connection>;
  void accept();
  void take(boost::asio::ip::tcp::socket socket);
  void wait_for_signals();
  void reload();
  void tell(const std::string& lines);
  void drain();
  void end_now();
  void look_whether_drained(std::chrono::steady_clock::time_point end);

  boost::asio::io_context& context_;
  const ListenOptions options_;
  const Owner owner_;
  std::optional<Tls> tls_;
  Notifier notifier_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer accept_timer_, drain_timer_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::uint32_t n_connections_ = 0;
  bool is_draining_ = false;
};

}  // namespace server

// listener.cpp: see listener.h.
#include "listener.h"

#include <boost/asio/post.hpp>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "socket_transport.h"

namespace server {
namespace {

namespace net = boost::asio;
using net::ip::tcp;

tcp::endpoint endpoint_of(const ListenOptions& options) {
  boost::system::error_code error;
  const auto address = net::ip::make_address(options.host, error);
  if (error) throw std::runtime_error(options.host + ": not an address to listen at, such as 127.0.0.1 or ::1");
  return {address, options.port};
}

/// Connections beyond the bound, that are told so; further ones are closed without a word.
constexpr std::uint32_t kMostRefused = 16;

/// The system would let it grow to megabytes for each client that does not read.
constexpr int kSendBuffer = 256 << 10;

tcp::acceptor listen(net::io_context& context, const ListenOptions& options) {
  const tcp::endpoint endpoint = endpoint_of(options);
  tcp::acceptor acceptor(context);
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (error)
    throw std::runtime_error("cannot listen at " + options.host + ", port " + std::to_string(options.port) + ": " +
                             error.message());
  return acceptor;
}

}  // namespace

Listener::Listener(net::io_context& context, const ListenOptions& options, Owner owner)
    : context_(context),
      options_(options),
      owner_(std::move(owner)),
      notifier_(options.notify_socket),
      acceptor_(listen(context, options)),
      signals_(context),
      accept_timer_(context),
      drain_timer_(context) {
  if (options.tls_cert_path.empty()) return;
  tls_.emplace(options.tls_cert_path, options.tls_key_path);
  if (const std::string warning = tls_->warning(); !warning.empty()) options_.log->say(warning);
}

void Listener::start() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) signals_.add(signal);
  accept();
  wait_for_signals();
  tell("READY=1\nSTATUS=Serving at " + url() + "\n");
}

std::string Listener::url() const {
  const bool is_v6 = options_.host.find(':') != std::string::npos;
  return (tls_ ? "https://" : "http://") + (is_v6 ? "[" + options_.host + "]" : options_.host) + ":" +
         std::to_string(acceptor_.local_endpoint().port());
}

void Listener::accept() {
  acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (is_draining_) return;
    if (error) {  // no file is left, say: trying again at once would take all of a processor
      accept_timer_.expires_after(std::chrono::milliseconds(50));
      return accept_timer_.async_wait([this](const boost::system::error_code&) {
        if (!is_draining_) accept();
      });
    }
    if (n_connections_ < options_.most_connections + kMostRefused) take(std::move(socket));
    accept();
  });
}

void Listener::take(tcp::socket socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(net::socket_base::send_buffer_size(kSendBuffer), ignored);
  auto transport = tls_ ? tls_->transport(std::move(socket)) : std::make_shared<SocketTransport>(std::move(socket));
  auto made = std::make_unique<Connection>(
      std::move(transport), options_.limits, owner_.handler, owner_.screen, [this] { return is_draining_; },
      [this] { --n_connections_; });
  // Jobs hold it too, on other threads: wherever it is let go of last, it ends on this one.
  const Connected connection(made.release(), [this](Connection* ended) {
    net::post(context_, [owner = std::unique_ptr<Connection>(ended)] {});
  });
  std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
  connections_.push_back(connection);
  if (++n_connections_ <= options_.most_connections) {
    connection->start();
  } else {
    connection->turn_away(503, "all " + std::to_string(options_.most_connections) + " connections are taken");
  }
}

// ---- Signals

void Listener::wait_for_signals() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    wait_for_signals();
    if (signal == SIGHUP) return reload();
    is_draining_ ? end_now() : drain();
  });
}

void Listener::tell(const std::string& lines) {
  if (const std::string failed = notifier_.tell(lines); !failed.empty()) options_.log->say(failed);
}

void Listener::reload() {
  if (const std::string failed = notifier_.tell_reloading(); !failed.empty()) options_.log->say(failed);
  owner_.reload();
  options_.log->write(LogLevel::info, "reload");
  const std::string failed = tls_ ? tls_->reload() : "";
  if (!failed.empty()) options_.log->say(failed + "; the certificate is that of before");
  if (const std::string warning = tls_ ? tls_->warning() : ""; !warning.empty()) options_.log->say(warning);
  tell(is_draining_ ? "STOPPING=1\n" : "READY=1\n");
}

/// No new connections and no further requests; what is being answered is, for as long as there is time.
void Listener::drain() {
  is_draining_ = true;
  tell("STOPPING=1\nSTATUS=Requests have " + std::to_string(options_.drain_s) + " s to end\n");
  options_.log->write(LogLevel::info, "drain", {{"connections", n_connections_}});
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  for (const auto& weak : connections_)
    if (const Connected connection = weak.lock()) connection->drain();
  look_whether_drained(std::chrono::steady_clock::now() + std::chrono::seconds(options_.drain_s));
}

void Listener::look_whether_drained(std::chrono::steady_clock::time_point end) {
  if (n_connections_ != 0 && std::chrono::steady_clock::now() < end) {
    drain_timer_.expires_after(std::chrono::milliseconds(20));
    return drain_timer_.async_wait([this, end](const boost::system::error_code&) { look_whether_drained(end); });
  }
  end_now();
}

void Listener::end_now() {
  owner_.end();  // what has not been begun; what has is cancelled, as if all clients had left
  for (const auto& weak : connections_)
    if (const Connected connection = weak.lock()) connection->close();
  context_.stop();
}

}  // namespace server

// tls.h: the server's certificate and its key, and transports that speak TLS 1.2 or 1.3 with them. Where the program is
// built without OpenSSL, tls_absent.cpp is in place of tls.cpp.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>

#include "transport.h"

namespace server {

class Tls {
 public:
  /// Files of PEM: the certificate with those that it depends on after it, and its key. Throws std::runtime_error where
  /// they are not, which names the file.
  Tls(std::string certificate_path, std::string key_path);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  /// Reads the files again, for connections that begin from then on; where that fails the certificate stays as it is,
  /// and the reason is returned.
  std::string reload();
  /// What the administrator should know of the files though they can be used; empty: nothing.
  std::string warning() const;
  std::shared_ptr<Transport> transport(boost::asio::ip::tcp::socket socket) const;

 private:
  struct Context;
  std::string certificate_path_, key_path_;
  std::unique_ptr<Context> context_;
};

}  // namespace server

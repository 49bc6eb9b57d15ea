// tls_absent.cpp: tls.h where the program is built without OpenSSL: it says so when it is asked for TLS.
#include <stdexcept>
#include <utility>

#include "tls.h"

namespace server {

struct Tls::Context {};

Tls::Tls(std::string certificate_path, std::string key_path)
    : certificate_path_(std::move(certificate_path)), key_path_(std::move(key_path)) {
  throw std::runtime_error("--tls-cert: this program was built without OpenSSL, and has no TLS");
}

Tls::~Tls() = default;
std::string Tls::reload() { return {}; }
std::string Tls::warning() const { return {}; }
std::shared_ptr<Transport> Tls::transport(boost::asio::ip::tcp::socket) const { return nullptr; }

}  // namespace server

// tls.cpp: see tls.h. OpenSSL reads and writes the socket, which does not block; the handshake is part of the first
// read, so that its time is that of a request's head.
#include "tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "socket_transport.h"

namespace server {
namespace {

namespace net = boost::asio;

template <typename T, void (*release)(T*)>
struct Release {
  void operator()(T* held) const { release(held); }
};
using ContextHandle = std::unique_ptr<SSL_CTX, Release<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Release<SSL, SSL_free>>;
using Certificate = std::unique_ptr<X509, Release<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY, EVP_PKEY_free>>;
using Source = std::unique_ptr<BIO, Release<BIO, BIO_free_all>>;

/// Of a file of certificates or keys.
constexpr std::size_t kMostBytes = 1 << 20;

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw std::runtime_error(path + ": " + why); }

/// What OpenSSL says last of what has failed.
std::string reason() {
  const char* text = ERR_reason_error_string(ERR_peek_last_error());
  return text == nullptr ? "no reason is given" : text;
}

std::string read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kMostBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (file.gcount() == static_cast<std::streamsize>(bytes.size())) fail(path, "is larger than 1 MiB");
  if (!file.eof()) fail(path, std::string("cannot be read: ") + std::strerror(errno != 0 ? errno : EIO));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

Source source_of(const std::string& bytes) {
  Source source(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  if (!source) throw std::bad_alloc();
  return source;
}

/// OpenSSL would ask at the terminal.
int no_passphrase(char*, int, int, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return -1;
}

void use_certificates(SSL_CTX* context, const std::string& path) {
  const std::string bytes = read_file(path);
  const Source source = source_of(bytes);
  Certificate first(PEM_read_bio_X509_AUX(source.get(), nullptr, nullptr, nullptr));
  if (!first) fail(path, "does not begin with a certificate in PEM (" + reason() + ")");
  if (SSL_CTX_use_certificate(context, first.get()) != 1) fail(path, "the certificate is not used: " + reason());
  SSL_CTX_clear_chain_certs(context);
  while (Certificate next{PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr)})
    if (SSL_CTX_add0_chain_cert(context, next.get()) == 1) static_cast<void>(next.release());
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)  // which says that nothing follows
    fail(path, "a certificate after the first cannot be read: " + reason());
}

void use_key(SSL_CTX* context, const std::string& path, const std::string& certificate_path) {
  std::string bytes = read_file(path);
  bool was_asked = false;
  const Key key(PEM_read_bio_PrivateKey(source_of(bytes).get(), nullptr, no_passphrase, &was_asked));
  OPENSSL_cleanse(bytes.data(), bytes.size());
  if (was_asked) fail(path, "is encrypted, and nobody is there to say its passphrase: decrypt it (openssl pkey)");
  if (!key) fail(path, "holds no private key in PEM (" + reason() + ")");
  if (X509_check_private_key(SSL_CTX_get0_certificate(context), key.get()) != 1)
    fail(path, "is not the key of the certificate in " + certificate_path);
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) fail(path, "the key is not used: " + reason());
}

/// Of what a client says that it speaks; one that does not speak HTTP/1.1 is told so.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                    unsigned n_offered, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kOurs, sizeof(kOurs) - 1, offered, n_offered) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

ContextHandle make_context(const std::string& certificate_path, const std::string& key_path) {
  ERR_clear_error();
  ContextHandle context(SSL_CTX_new(TLS_server_method()));
  if (!context) throw std::bad_alloc();
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);  // what clients resume they hold themselves
  SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  use_certificates(context.get(), certificate_path);
  use_key(context.get(), key_path, certificate_path);
  ERR_clear_error();
  return context;
}

class TlsTransport : public SocketTransport {
 public:
  TlsTransport(Socket socket, Session session) : SocketTransport(std::move(socket)), session_(std::move(session)) {
    if (SSL_set_fd(session_.get(), handle()) != 1) throw std::bad_alloc();
    SSL_set_accept_state(session_.get());
  }

 protected:
  Tried try_read(net::mutable_buffer room) override {
    if (state_ == State::plain || state_ == State::finished) return SocketTransport::try_read(room);
    ERR_clear_error();
    errno = 0;
    const int n = SSL_read(session_.get(), room.data(), length_of(room.size()));
    return n > 0 ? Tried{Outcome::done, static_cast<std::size_t>(n), {}} : judge(n);
  }

  Tried try_write(net::const_buffer bytes) override {
    if (state_ == State::plain) return SocketTransport::try_write(bytes);
    ERR_clear_error();
    errno = 0;
    const int n = SSL_write(session_.get(), bytes.data(), length_of(bytes.size()));
    return n > 0 ? Tried{Outcome::done, static_cast<std::size_t>(n), {}} : judge(n);
  }

  /// close_notify. That of the client is not waited for.
  Tried try_finish() override {
    if (state_ != State::open || SSL_is_init_finished(session_.get()) == 0) return {};
    ERR_clear_error();
    const int n = SSL_shutdown(session_.get());
    if (n < 0 && SSL_get_error(session_.get(), n) == SSL_ERROR_WANT_WRITE) return {Outcome::wants_to_write, 0, {}};
    state_ = State::finished;
    return {};
  }

 private:
  enum class State { open, plain, finished, failed };

  static int length_of(std::size_t n) { return static_cast<int>(std::min<std::size_t>(n, INT_MAX)); }

  /// What has come of a call that returned n.
  Tried judge(int n) {
    const int error = SSL_get_error(session_.get(), n);
    if (error == SSL_ERROR_WANT_READ) return {Outcome::wants_to_read, 0, {}};
    if (error == SSL_ERROR_WANT_WRITE) return {Outcome::wants_to_write, 0, {}};
    if (error == SSL_ERROR_ZERO_RETURN) return {Outcome::failed, 0, net::error::eof};
    const unsigned long why = ERR_peek_error();
    const bool is_plain = error == SSL_ERROR_SSL && ERR_GET_LIB(why) == ERR_LIB_SSL &&
                          ERR_GET_REASON(why) == SSL_R_HTTP_REQUEST && state_ == State::open;
    state_ = is_plain ? State::plain : State::failed;
    if (is_plain) return {Outcome::failed, 0, boost::system::errc::make_error_code(kNoTls)};
    return error == SSL_ERROR_SYSCALL && errno != 0 ? failed_by_errno()
                                                    : Tried{Outcome::failed, 0, net::error::connection_aborted};
  }

  Session session_;
  State state_ = State::open;
};

}  // namespace

struct Tls::Context {
  ContextHandle handle;
};

Tls::Tls(std::string certificate_path, std::string key_path)
    : certificate_path_(std::move(certificate_path)),
      key_path_(std::move(key_path)),
      context_(new Context{make_context(certificate_path_, key_path_)}) {}

Tls::~Tls() = default;

std::string Tls::reload() {
  try {
    context_->handle = make_context(certificate_path_, key_path_);
    return {};
  } catch (const std::runtime_error& failed) {
    return failed.what();
  }
}

std::string Tls::warning() const {
  struct stat status = {};
  if (stat(key_path_.c_str(), &status) != 0 || (status.st_mode & S_IROTH) == 0) return {};
  return key_path_ + ": all users of this machine can read this key: chmod o-r";
}

std::shared_ptr<Transport> Tls::transport(net::ip::tcp::socket socket) const {
  Session session(SSL_new(context_->handle.get()));
  if (!session) throw std::bad_alloc();
  return std::make_shared<TlsTransport>(std::move(socket), std::move(session));
}

}  // namespace server

// hub_blob.cpp: see hub_blob.h.
#include "hub_blob.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "digest.h"
#include "support.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

/// A file that the system closes with the program.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : path_(path.string()), file_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (file_ < 0) fail("open");
  }
  ~OpenFile() { close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int number() const { return file_; }
  [[noreturn]] void fail(const char* what) const {
    throw Failure(std::string("cannot ") + what + " " + path_ + ": " + std::strerror(errno));
  }

 private:
  std::string path_;
  int file_;
};

/// The most bytes that are accepted of a file whose size the server does not state. The hub states the sizes of large
/// files; files without a size have at most 10 MiB.
constexpr std::uint64_t kMostOfUnknownSize = std::uint64_t{256} << 20;

bool is_hex(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// A file that grows while its digest is made. What is there already is read first.
class Download {
 public:
  Download(const fs::path& path, const HubBlob& blob) : file_(path, O_RDWR | O_CREAT), blob_(blob) {
    restart(blob_.size);
    count_rest();
    if (is_too_long()) begin_anew();
  }

  std::uint64_t size() const { return size_; }
  bool is_whole() const { return blob_.size && size_ == *blob_.size; }
  bool is_too_long() const { return size_ > blob_.size.value_or(kMostOfUnknownSize); }
  void begin_anew() {
    if (ftruncate(file_.number(), 0) != 0 || lseek(file_.number(), 0, SEEK_SET) < 0) file_.fail("empty");
    restart(blob_.size);
  }
  /// Throws Failure where it cannot be written; what came before stays.
  void add(std::string_view bytes) {
    for (std::string_view rest = bytes; !rest.empty();) {
      const ssize_t n = write(file_.number(), rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int error = errno;
        throw Failure(std::string("the disk cannot take more: ") + std::strerror(error) + ". " + human_bytes(size_) +
                      " stay, and the same command goes on after them");
      }
      count(rest.substr(0, static_cast<std::size_t>(n)));
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Whether this is the file that the hub means.
  bool has_its_digest() {
    if (!is_sha256() && !is_git()) return true;           // the size alone
    if (is_git() && !blob_.size) digest_again_as(size_);  // git's digest begins with the size
    return digest_.hex() == blob_.etag;
  }
  /// Whether there is anything that tells a whole file from another one.
  bool can_be_checked() const { return blob_.size || is_sha256() || is_git(); }
  void sync() const {
    if (fsync(file_.number()) != 0) file_.fail("write");
  }

 private:
  bool is_sha256() const { return blob_.etag.size() == 64 && is_hex(blob_.etag); }
  bool is_git() const { return blob_.etag.size() == 40 && is_hex(blob_.etag); }
  void restart(std::optional<std::uint64_t> size) {
    size_ = 0;
    digest_ = Digest(is_git() ? Digest::Kind::sha1 : Digest::Kind::sha256);
    if (is_git() && size) digest_.add("blob " + std::to_string(*size) + std::string(1, '\0'));
  }
  void digest_again_as(std::uint64_t size) {
    if (lseek(file_.number(), 0, SEEK_SET) < 0) file_.fail("read");
    restart(size);
    count_rest();
  }
  void count_rest() {
    std::string piece(std::size_t{1} << 20, '\0');
    for (;;) {
      const ssize_t n = read(file_.number(), piece.data(), piece.size());
      if (n < 0) file_.fail("read");
      if (n == 0) break;
      count({piece.data(), static_cast<std::size_t>(n)});
    }
  }
  void count(std::string_view bytes) {
    digest_.add(bytes);
    size_ += bytes.size();
  }

  OpenFile file_;
  const HubBlob& blob_;
  Digest digest_{Digest::Kind::sha256};
  std::uint64_t size_ = 0;
};

std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Where the bytes of a 206 begin: "bytes 100-199/200".
std::optional<std::uint64_t> begin_of(const HttpAnswer& answer) {
  const std::string range = answer.header("content-range");
  const std::size_t dash = range.find('-');
  if (!range.starts_with("bytes ") || dash == std::string::npos) return std::nullopt;
  return number_of(range.substr(6, dash - 6));
}

/// One request for what is missing. Empty, or why it ended early.
std::string request_rest(Http& http, const HubBlob& blob, Download& file,
                         const std::function<void(std::uint64_t)>& on_bytes) {
  std::string reason;
  bool checked = false;
  const std::uint64_t from = file.size();
  const HttpAnswer answer = http.get(blob.url, from, [&](const HttpAnswer& so_far, std::string_view bytes) {
    if (!std::exchange(checked, true) && so_far.status == 200) file.begin_anew();  // all of it, whatever was asked for
    if (so_far.status == 206 && begin_of(so_far) != from) {
      reason = "the server sent another part than the one that was asked for";
      return false;
    }
    file.add(bytes);
    on_bytes(file.size());
    if (file.is_too_long()) {
      reason = blob.size ? "the server sent more bytes than the file has"
                         : "the server tells no size, and sent more than " + human_bytes(kMostOfUnknownSize);
    }
    return reason.empty();
  });
  if (!reason.empty()) return reason;
  if (answer.status == 416) file.begin_anew();
  const bool may_pass = answer.status == 0 || answer.status == 408 || answer.status == 416 || answer.status == 429 ||
                        answer.status >= 500 || answer.status == 200 || answer.status == 206;
  if (!may_pass) throw Failure(refusal(answer, blob.url));
  if (!answer.failure.empty()) return answer.failure;
  return answer.status == 200 || answer.status == 206 ? "" : "status " + std::to_string(answer.status);
}

void download_rest(Http& http, const HubBlob& blob, Download& file,
                   const std::function<void(std::uint64_t)>& on_bytes) {
  constexpr int kMaxTries = 6;  // in a row that bring nothing
  std::chrono::milliseconds wait(500);
  for (int tries = 0; !file.is_whole();) {
    const std::uint64_t before = file.size();
    const std::string reason = request_rest(http, blob, file, on_bytes);
    if (reason.empty() && !blob.size) return;
    if (file.is_whole()) return;
    if (file.is_too_long()) {
      file.begin_anew();
      throw Failure(blob.url + ": " + reason);
    }
    if (file.size() > before) {
      tries = 0;
      wait = std::chrono::milliseconds(500);
    }
    if (++tries == kMaxTries)
      throw Failure(blob.url + ": " + (reason.empty() ? "the connection was closed too early" : reason) + ". " +
                    human_bytes(file.size()) + " stay, and the same command goes on after them");
    std::this_thread::sleep_for(wait);
    wait = std::min<std::chrono::milliseconds>(wait * 2, std::chrono::seconds(8));
  }
}

}  // namespace

std::string refusal(const HttpAnswer& answer, const std::string& what) {
  std::string text = what + ": ";
  if (answer.status == 0) return text + (answer.failure.empty() ? "no answer" : answer.failure);
  std::string reason = answer.header("x-error-message");
  text += reason.empty() ? "the hub answers with status " + std::to_string(answer.status) : reason;
  if (answer.status == 401 || answer.status == 403)
    text += ". There is no such model, or it needs a token that may read it: HF_TOKEN, or hf auth login";
  return text;
}

HubBlob ask_for_blob(Http& http, const std::string& url) {
  constexpr std::size_t kMaxEtag = 128;
  const HttpAnswer answer = http.head(url);
  if (answer.status / 100 != 2 && answer.status / 100 != 3) throw Failure(refusal(answer, url));
  HubBlob blob{url, answer.header("x-linked-etag"), std::nullopt};
  if (blob.etag.empty()) blob.etag = answer.header("etag");
  if (blob.etag.starts_with("W/")) blob.etag.erase(0, 2);
  blob.etag.erase(std::remove(blob.etag.begin(), blob.etag.end(), '"'), blob.etag.end());
  // It becomes the name of a file.
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  if (blob.etag.empty() || blob.etag.size() > kMaxEtag || !std::all_of(blob.etag.begin(), blob.etag.end(), is_plain))
    throw Failure(url + ": the hub gives no digest of it (ETag " + json_string(blob.etag.substr(0, 100)) + ")");
  blob.size = number_of(answer.header("x-linked-size"));
  if (!blob.size && answer.status / 100 == 2) blob.size = number_of(answer.header("content-length"));
  return blob;
}

fs::path download_blob(Http& http, const HubBlob& blob, const fs::path& repository,
                       const std::function<void(std::uint64_t)>& on_bytes) {
  fs::path path = repository / "blobs" / blob.etag;
  // As huggingface_hub locks it.
  const fs::path lock = repository.parent_path() / ".locks" / repository.filename() / (blob.etag + ".lock");
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::create_directories(lock.parent_path(), error);
  const OpenFile locked(lock, O_RDWR | O_CREAT);
  if (flock(locked.number(), LOCK_EX) != 0) locked.fail("lock");
  if (fs::exists(path, error)) return path;
  const fs::path unfinished = path.string() + ".incomplete";
  {
    Download file(unfinished, blob);
    if (!file.can_be_checked())
      throw Failure(blob.url + ": the hub gives neither a size nor a digest of it (ETag " + blob.etag + ")");
    on_bytes(file.size());
    download_rest(http, blob, file, on_bytes);
    if (!file.has_its_digest()) {
      fs::remove(unfinished, error);
      throw Failure(blob.url + ": what was downloaded is not the file whose digest the hub says (" + blob.etag +
                    "); it was removed, and the same command begins anew");
    }
    file.sync();
  }
  fs::rename(unfinished, path);
  return path;
}

}  // namespace cli

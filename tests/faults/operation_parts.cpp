// See operation_parts.h.
#include "operation_parts.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace qinfer::faults {
namespace {

bool exists(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0;
}

unsigned permissions(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

std::string tokens_of(const qinfer_session* session) {
  std::vector<qinfer_token> tokens(qinfer_session_length(session));
  std::size_t n = 0;
  MUST(qinfer_session_get_tokens(session, tokens.data(), tokens.size(), &n, &err));
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(qinfer_token)};
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::remove(path.c_str());
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::vector<qinfer_token> some_tokens(std::size_t n, std::size_t step) {
  std::vector<qinfer_token> tokens(n);
  for (std::size_t i = 0; i < n; ++i) tokens[i] = static_cast<qinfer_token>((i * step + 11) % 256);
  return tokens;
}

void append(qinfer_session* session, const std::vector<qinfer_token>& tokens) {
  MUST(qinfer_session_append(session, tokens.data(), tokens.size(), &err));
}

void eval(qinfer_session* session) { MUST(qinfer_eval(&session, 1, nullptr, &err)); }

std::string state_of(qinfer_session* session) {
  if (qinfer_session_pending(session) != 0) eval(session);
  std::vector<float> values(1 << 16);
  std::size_t n = 0;
  MUST(qinfer_session_copy_logits(session, 0, values.data(), values.size(), &n, &err));
  return tokens_of(session) + std::string(reinterpret_cast<const char*>(values.data()), n * sizeof(float));
}

Writing::Writing(const std::string& folder, const char* name) : folder_(folder + "/" + name), path_(folder_ + "/out") {
  mkdir(folder_.c_str(), 0700);
}

void Writing::before() const {
  std::remove((path_ + ".qinfer-new").c_str());
  std::remove(path_.c_str());
  if (old.empty()) return;
  write_file(path_, old);
  chmod(path_.c_str(), 0600);
}

std::string Writing::leftovers(qinfer_status status, bool temporaries) const {
  if (exists(path_) && !old.empty() && permissions(path_) != 0600) return "the file's permissions changed";
  if (temporaries && exists(path_ + ".qinfer-new")) return "a temporary file is left";
  if (wanted.empty() || in_place) return {};
  const std::string now = read_file(path_);
  if (now == wanted) return {};
  if (status == QINFER_OK) return "the file is not as it should be";
  return now == old ? "" : "the file is neither the old one nor the new one";
}

}  // namespace qinfer::faults

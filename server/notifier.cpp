// notifier.cpp: see notifier.h.
#include "notifier.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

namespace server {

std::string Notifier::tell(const std::string& lines) const {
  if (address_.empty()) return {};
  const std::string name = "NOTIFY_SOCKET=" + address_ + ": ";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if ((address_[0] != '/' && address_[0] != '@') || address_.size() >= sizeof(address.sun_path))
    return name + "not a path of less than 108 bytes, nor @ and a name";
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const int handle = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return name + std::strerror(errno);
  const timeval patience = {5, 0};  // for a manager that is busy
  setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  ssize_t sent = -1;
  do sent = sendto(handle, lines.data(), lines.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  while (sent < 0 && errno == EINTR);
  std::string failed = sent < 0 ? name + std::strerror(errno) : "";
  close(handle);
  return failed;
}

std::string Notifier::tell_reloading() const {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long long microseconds = static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
  return tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds) + "\n");
}

}  // namespace server

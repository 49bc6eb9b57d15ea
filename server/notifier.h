// notifier.h: tells the service manager how the server is, in the protocol of systemd's $NOTIFY_SOCKET: one datagram of
// NAME=VALUE lines for each change.
#pragma once

#include <string>
#include <utility>

namespace server {

class Notifier {
 public:
  /// `address`: a path, or @ and an abstract name; empty: nobody is told.
  explicit Notifier(std::string address) : address_(std::move(address)) {}
  /// `lines`: such as READY=1. Where they do not arrive the reason is returned; the server is the same without.
  std::string tell(const std::string& lines) const;
  /// RELOADING=1, which has the time from which on READY=1 means that it is done.
  std::string tell_reloading() const;

 private:
  std::string address_;
};

}  // namespace server

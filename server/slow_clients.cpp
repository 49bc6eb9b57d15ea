// slow_clients.cpp: see slow_clients.h.
#include "slow_clients.h"

#include <utility>

namespace server {
namespace {

/// Between two looks, each of which ends one stream at most: until the next one those who wait may have begun.
constexpr std::chrono::milliseconds kPeriod(100);

}  // namespace

void SlowClients::add(const std::shared_ptr<Connection>& connection) {
  slow_.push_back({connection.get(), connection, std::chrono::steady_clock::now()});
  if (slow_.size() == 1) look_later();
}

void SlowClients::remove(const Connection* connection) {
  slow_.remove_if([&](const Slow& slow) { return slow.connection == connection; });
  if (slow_.empty()) timer_.cancel();
}

void SlowClients::look_later() {
  timer_.expires_after(kPeriod);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look();
  });
}

void SlowClients::look() {
  if (slow_.empty()) return;
  const Slow& longest = slow_.front();
  const bool is_late = std::chrono::steady_clock::now() - longest.since >= limit_;
  if (const auto connection = is_late && others_wait_() ? longest.owner.lock() : nullptr) connection->close();
  if (!slow_.empty()) look_later();
}

}  // namespace server

// slow_clients.h: streams that pause, because their clients do not take what is there. What they hold of the cache, and
// their places among the requests that run, others may wait for: then the one that has been slow for longest ends, if
// its client has not taken what had gathered within a time. A client that takes a byte now and then is as slow as one
// that takes none: it must take all but a part of what is there. Where nobody waits they may rest.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>

#include "connection.h"

namespace server {

/// Of the connections' thread.
class SlowClients {
 public:
  /// `limit`: seconds that each has while `others_wait()`.
  SlowClients(boost::asio::io_context& context, std::chrono::seconds limit, std::function<bool()> others_wait)
      : timer_(context), limit_(limit), others_wait_(std::move(others_wait)) {}

  void add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  std::size_t size() const { return slow_.size(); }

 private:
  struct Slow {
    const Connection* connection;
    std::weak_ptr<Connection> owner;
    std::chrono::steady_clock::time_point since;
  };
  void look_later();
  void look();

  boost::asio::steady_timer timer_;
  std::chrono::seconds limit_;
  std::function<bool()> others_wait_;
  std::list<Slow> slow_;  ///< the one that has been so for longest first
};

}  // namespace server

// room.h: blocks of the cache for a session that is evaluated on another thread than the engine's, as prompts for their
// log probabilities and embeddings are. They wait their turn among the requests, so that none of those finds its own
// taken.
#pragma once

#include <qinfer/qinfer.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>

namespace server {

class Engine;

/// Who is told of the events of a request, on the engine's thread.
class Told {
 public:
  Told() = default;
  virtual ~Told() = default;
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  virtual void take(const qinfer_event& event) = 0;
};

class Room final : public Told {
 public:
  /// For so many tokens of the session. Throws qi::Error.
  static std::shared_ptr<Room> ask(Engine& engine, qi::Session& session, std::uint32_t n_tokens);

  /// Until it is there. False: leave() came first. Once, on a thread that may wait.
  bool wait() { return is_there_.get_future().get(); }
  /// The same, and has_left() says now and then whether to leave.
  bool wait(const std::function<bool()>& has_left);
  /// It is needed no more. From any thread.
  void leave();
  /// Whether it still waits.
  bool waits() const { return waits_; }
  void take(const qinfer_event& event) override;

 private:
  friend class Engine;
  explicit Room(Engine& engine) : engine_(engine) {}

  Engine& engine_;
  std::atomic<bool> waits_{true};
  std::promise<bool> is_there_;
  // Until its end, under the engine's lock.
  qinfer_request* request_ = nullptr;
  std::shared_ptr<Room> keeps_;
};

/// Leaves a room at the end of a scope.
class InRoom {
 public:
  explicit InRoom(std::shared_ptr<Room> room) : room_(std::move(room)) {}
  ~InRoom() {
    if (room_ != nullptr) room_->leave();
  }
  InRoom(const InRoom&) = delete;
  InRoom& operator=(const InRoom&) = delete;

 private:
  std::shared_ptr<Room> room_;
};

}  // namespace server

// room.cpp: see room.h.
#include "room.h"

#include <chrono>
#include <utility>

#include "engine.h"

namespace server {

std::shared_ptr<Room> Room::ask(Engine& engine, qi::Session& session, std::uint32_t n_tokens) {
  std::shared_ptr<Room> room(new Room(engine));
  auto options = qi::options<qinfer_request_options>();
  options.user = static_cast<Told*>(room.get());
  const Lock lock(engine.mutex_);  // an end waits for it
  qi::detail::FullError error;
  qi::detail::check(qinfer_scheduler_reserve(engine.scheduler_.native(), session.native(), n_tokens, &options,
                                             &room->request_, error.arg()),
                    error);
  room->keeps_ = room;
  engine.rooms_.insert(room.get());
  return room;
}

bool Room::wait(const std::function<bool()>& has_left) {
  constexpr auto kNow = std::chrono::milliseconds(50);
  std::future<bool> is_there = is_there_.get_future();
  bool leaves = false;
  while (is_there.wait_for(kNow) != std::future_status::ready) {
    if (leaves || !has_left()) continue;
    leaves = true;
    leave();
  }
  return is_there.get();
}

void Room::leave() {
  const Lock lock(engine_.mutex_);
  qinfer_request_cancel(request_);
}

void Room::take(const qinfer_event& event) {
  if (waits_.exchange(false)) is_there_.set_value(event.kind == QINFER_EVENT_RESERVED);
  if (event.kind != QINFER_EVENT_END) return;
  std::shared_ptr<Room> keeps;  // until the lock is not held
  const Lock lock(engine_.mutex_);
  keeps = std::move(keeps_);
  engine_.rooms_.erase(this);
  qinfer_request_free(std::exchange(request_, nullptr));
}

}  // namespace server

// See parking.h.
#include "engine/parking.h"

#include <algorithm>

namespace qinfer::engine {

std::size_t Parking::take_slot() {
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken; });
  free->n_moved = free->n_blocks = 0;
  free->taken = true;
  return static_cast<std::size_t>(free - slots_.begin());
}

void Parking::free_slot(std::size_t slot) {
  bytes_ -= slots_[slot].blocks.bytes();
  slots_[slot].blocks.clear();
  slots_[slot].taken = false;
}

Status Parking::open(std::size_t slot) {
  kv::ParkedBlocks& blocks = slots_[slot].blocks;
  if (blocks.has_file()) return Status();
  const bool is_host = options_.files != nullptr;
  const std::string name =
      is_host ? format_text("{}/{}", options_.path, slot) : options_.path + " (a file without a name)";
  auto file = is_host ? options_.files->open_to_write(name) : platform::make_unnamed_file(options_.path);
  if (!file.ok()) return file.take_status();
  blocks.set_file(std::move(file.value()), name);
  return Status();
}

Status Parking::check_unchanged(const Slot& slot, const Session& session) {
  const bool is_whole = slot.n_blocks == 0 || session.keys().n_held() == slot.n_blocks;
  if (session.keys().evaluated() == slot.n_evaluated && is_whole) return Status();
  return error(Code::state, "the session of a parked request was used by another call");
}

Result<bool> Parking::leave(std::size_t slot, Session& session, const IsOver& is_over) {
  QINFER_TRY(open(slot));
  kv::ParkedBlocks& blocks = slots_[slot].blocks;
  std::size_t& n_moved = slots_[slot].n_moved;
  SessionKeys& keys = session.keys();
  if (n_moved == 0) session.drop_drafts(), slots_[slot].n_evaluated = keys.evaluated();
  QINFER_TRY(check_unchanged(slots_[slot], session));
  while (n_moved < keys.n_held()) {
    const std::span<const std::byte> block = keys.held_block(n_moved);
    if (options_.most_bytes != 0 && block.size() > options_.most_bytes - bytes())
      return error(Code::no_memory,
                   "{}: parked requests have {} bytes, of at most {} (park_bytes): another has no room", options_.path,
                   bytes(), options_.most_bytes);
    QINFER_TRY(blocks.write(block));
    bytes_ += block.size();
    ++n_moved;
    if (is_over() && n_moved < keys.n_held()) return false;
  }
  slots_[slot].n_blocks = n_moved;
  session.leave();
  blocks.rewind();
  n_moved = 0;
  slots_[slot].n_evaluated = 0;
  return true;
}

Result<bool> Parking::come_back(std::size_t slot, Session& session, const IsOver& is_over) {
  kv::ParkedBlocks& blocks = slots_[slot].blocks;
  std::size_t& n_moved = slots_[slot].n_moved;
  SessionKeys& keys = session.keys();
  QINFER_TRY(check_unchanged(slots_[slot], session));
  while (n_moved < keys.n_held()) {
    QINFER_TRY(blocks.read(keys.held_block(n_moved)));
    ++n_moved;
    if (is_over() && n_moved < keys.n_held()) return false;
  }
  QINFER_TRY(blocks.check());
  session.come_back();
  return true;
}

}  // namespace qinfer::engine

// connection_world.h: one server::Connection in a world without sockets and clocks, which bytes decide: what a client
// sends and in which pieces, when it reads, leaves and is reset, how time passes, what routes answer and when, drains.
// The world looks whether what is written is well framed, one answer for each request in their order, complete where
// the client is told so, and whether time and room have their bounds.
#pragma once

#include <string>
#include <string_view>

namespace qinfer::fuzz {

/// What was wrong; empty: nothing.
std::string run_connection(std::string_view bytes);

}  // namespace qinfer::fuzz

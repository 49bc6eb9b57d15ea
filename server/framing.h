// framing.h: the head of an HTTP/1.1 request, checked before anything interprets it. Two programs that read one request
// differently are how requests are smuggled past a proxy, so what RFC 9112 leaves to interpretation is refused: bare
// line feeds, folded lines, blanks before a colon, more than one Host, Content-Length or Transfer-Encoding, both of the
// last two, and encodings other than chunked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace server {

struct HeadLimits {
  std::size_t most_bytes = 16 << 10, most_fields = 100;
  std::uint64_t most_body_bytes = 32 << 20;
};

/// What is to be answered, and why; status 0: nothing is wrong.
struct HeadProblem {
  int status = 0;
  std::string message;
};

/// The bytes of the head up to and including its empty line; 0: it is not all there; npos: it never will be, because a
/// line does not end as it must.
std::size_t find_end_of_head(std::string_view bytes);
/// `head`: as find_end_of_head() has found it.
HeadProblem check_head(std::string_view head, const HeadLimits& limits);

}  // namespace server

// A connection without sockets, as ./dev fuzz has it, for as many random inputs as there is time for.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/choices.h"
#include "fuzz/connection_world.h"
#include "fuzz/written_answers.h"
#include "support/catch.h"

using qinfer::fuzz::random_bytes;
using qinfer::fuzz::run_connection;

TEST_CASE("a connection answers each request once, whatever its client does", "[connection]") {
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    INFO("seed " << seed);
    REQUIRE(run_connection(random_bytes(seed, 100 + seed % 7 * 200)) == "");
  }
}

TEST_CASE("a connection answers each request once, for what the fuzzer begins with", "[connection]") {
  std::size_t n = 0;
  for (const auto& seed : std::filesystem::directory_iterator(QINFER_FUZZ_SEEDS "/fuzz_connection")) {
    INFO(seed.path());
    std::ifstream file(seed.path(), std::ios::binary);
    REQUIRE(run_connection(std::string(std::istreambuf_iterator<char>(file), {})) == "");
    ++n;
  }
  CHECK(n > 10);
}

TEST_CASE("what reads written answers notices bad framing", "[connection]") {
  const auto read = [](const char* bytes) -> std::string {
    try {
      const auto answers = qinfer::fuzz::read_answers(bytes, [](std::size_t) { return false; });
      std::string said;
      for (const auto& answer : answers) said += answer.is_complete ? "c" : "i";
      return said;
    } catch (const std::string& wrong) {
      return wrong;
    }
  };
  CHECK(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n") == "cc");
  CHECK(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na") == "i");
  CHECK(read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n") ==
        "c");
  CHECK(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n") == "i");
  CHECK(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\r\n0\r\n\r\n") ==
        "a chunk is not as long as it says");
  CHECK(read("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc") == "ci");
  CHECK(read("HTTP/1.1 200 OK\r\n\r\nabc") == "an answer without an end");
  CHECK(read("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\naH") == "bytes after Connection: close");
}

// written_answers.h: reads what a server has written on one connection as RFC 9112 says, and nothing of how it is made.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qinfer::fuzz {

struct WrittenAnswer {
  int status = 0;
  std::optional<std::size_t> id;  ///< of its field X-Id
  bool is_complete = false, ends_by_close = false, says_close = false;
  std::size_t body_bytes = 0;
};

/// Those with a status below 200 are left out. The last may be incomplete. `is_head`: whether the request of this id
/// was HEAD. Throws std::string, what is wrong.
template <typename IsHead>
std::vector<WrittenAnswer> read_answers(std::string_view bytes, const IsHead& is_head);

// ---- The rest is how

class WrittenReader {
 public:
  explicit WrittenReader(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }
  std::optional<WrittenAnswer> head();  ///< nothing: it is not all there
  /// Of the answer whose head was read last.
  void body(WrittenAnswer& answer, bool is_head);

 private:
  std::optional<std::string_view> line();
  bool read_chunks(WrittenAnswer& answer);

  std::string_view rest_;
  std::optional<std::size_t> length_;
  bool is_chunked_ = false;
};

template <typename IsHead>
std::vector<WrittenAnswer> read_answers(std::string_view bytes, const IsHead& is_head) {
  std::vector<WrittenAnswer> answers;
  WrittenReader reader(bytes);
  while (!reader.done()) {
    if (!answers.empty() && answers.back().ends_by_close)
      throw std::string("bytes after what ends with the connection");
    if (!answers.empty() && answers.back().says_close) throw std::string("bytes after Connection: close");
    std::optional<WrittenAnswer> answer = reader.head();
    if (!answer) return answers.push_back({}), answers;
    if (answer->status < 200) continue;
    reader.body(*answer, answer->id && is_head(*answer->id));
    answers.push_back(*answer);
    if (!answer->is_complete) return answers;
  }
  return answers;
}

}  // namespace qinfer::fuzz

// See mutate.h. XXH3-64 is the checksum of packed models and snapshots.
#include "mutate.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace qinfer::fuzz {
namespace {

constexpr const char* kExtremes[] = {"0",
                                     "1",
                                     "-1",
                                     "2",
                                     "3",
                                     "7",
                                     "8",
                                     "16",
                                     "31",
                                     "33",
                                     "64",
                                     "127",
                                     "255",
                                     "256",
                                     "300",
                                     "1024",
                                     "4096",
                                     "65535",
                                     "65536",
                                     "1048576",
                                     "2147483647",
                                     "2147483648",
                                     "4294967295",
                                     "4294967296",
                                     "9223372036854775807",
                                     "9223372036854775808",
                                     "18446744073709551615",
                                     "18446744073709551616",
                                     "-9223372036854775808",
                                     "1e308",
                                     "1e-308",
                                     "1e400",
                                     "-1e400",
                                     "0.5",
                                     "1.0",
                                     "-0.0",
                                     "1e-5",
                                     "3.4e38",
                                     "1e-46",
                                     "123456789012345678901234567890",
                                     "00",
                                     "1.",
                                     "NaN",
                                     "true",
                                     "false",
                                     "null",
                                     "\"\"",
                                     "\"a\"",
                                     "\"\\u0000\"",
                                     "\"\\ud800\"",
                                     "\"\\ud83d\\ude42\"",
                                     "[]",
                                     "{}",
                                     "[[]]",
                                     "[0,1]",
                                     "[null]",
                                     "{\"a\":1}",
                                     "\"../config.json\"",
                                     "\"/etc/passwd\"",
                                     "\".\"",
                                     "\"F32\"",
                                     "\"BF16\"",
                                     "\"F16\"",
                                     "\"I64\""};

/// A value in the text, with its name where it is a member.
struct Node {
  std::size_t name = std::string::npos;  ///< where the name begins
  std::size_t begin = 0, end = 0;        ///< the value
  std::vector<Node> items;
  std::size_t from() const { return name != std::string::npos ? name : begin; }
};

/// Reads what the mutations leave, which need not be JSON any more.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool read(Node& root) { return value(root, 0); }

 private:
  static constexpr int kDepth = 60;

  void space() {
    while (at_ < text_.size() && std::strchr(" \n\t\r", text_[at_]) != nullptr) ++at_;
  }
  bool string() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        return ++at_, true;
      }
    }
    return false;
  }
  bool value(Node& node, int depth) {
    space();
    node.begin = at_;
    if (at_ >= text_.size() || depth > kDepth) return false;
    const char c = text_[at_];
    bool good = true;
    if (c == '"') {
      good = string();
    } else if (c == '{' || c == '[') {
      good = container(node, c == '{', depth);
    } else {
      while (at_ < text_.size() && std::strchr(",]} \n\t\r", text_[at_]) == nullptr) ++at_;
    }
    node.end = std::min(at_, text_.size());
    return good && node.end > node.begin;
  }
  bool container(Node& node, bool object, int depth) {
    for (++at_;; ++at_) {
      space();
      if (at_ >= text_.size()) return false;
      if (text_[at_] == (object ? '}' : ']')) return ++at_, true;
      Node item;
      if (object) {
        item.name = at_;
        if (text_[at_] != '"' || !string()) return false;
        space();
        if (at_ >= text_.size() || text_[at_++] != ':') return false;
      }
      if (!value(item, depth + 1)) return false;
      node.items.push_back(std::move(item));
      space();
      if (at_ >= text_.size()) return false;
      if (text_[at_] != ',') --at_;
    }
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Some node, more likely one that is not deep: a vocabulary has many, but they are all alike.
const Node* pick(const Node& root, Choices& choices, const Node** parent = nullptr) {
  const Node* node = &root;
  while (!node->items.empty() && (node == &root || !choices.one_of(5))) {
    if (parent != nullptr) *parent = node;
    node = &node->items[choices.below(node->items.size())];
  }
  return node;
}

std::string nested(Choices& choices) {
  const std::size_t depth = choices.of({std::size_t{3}, std::size_t{64}, std::size_t{600}, std::size_t{20000}});
  return choices.one_of(2) ? std::string(depth, '[') + std::string(depth, ']') : std::string(depth, '[');
}

/// Some word of a string becomes something else: descriptions in packed models are made of words.
std::string other_word(std::string_view value, Choices& choices) {
  std::vector<std::size_t> begins = {1};
  for (std::size_t i = 1; i < value.size(); ++i)
    if (value[i] == ' ') begins.push_back(i + 1);
  const std::size_t begin = begins[choices.below(begins.size())];
  const std::size_t end = std::min(value.find_first_of(" \"", begin), value.size() - 1);
  if (begin > end) return std::string(value);
  static constexpr const char* kWords[] = {"0",
                                           "1",
                                           "-1",
                                           "tile32",
                                           "row_major",
                                           "0x1p+0",
                                           "1p+0",
                                           "1p-200",
                                           "1p+127",
                                           "inf",
                                           "nan",
                                           "0p+0",
                                           "f32",
                                           "f16",
                                           "bf16",
                                           "ffffffffffffffff",
                                           "",
                                           "9223372036854775807",
                                           "18446744073709551616",
                                           "32",
                                           "33",
                                           "4294967296"};
  std::string text(value);
  return text.replace(begin, end - begin, choices.of(kWords));
}

std::string other_value(const std::string& text, const Node& root, const Node& node,
                        const std::vector<std::string>& known, Choices& choices) {
  const std::string_view old = std::string_view(text).substr(node.begin, node.end - node.begin);
  switch (choices.below(8)) {
    case 0:
    case 1: return choices.of(kExtremes);
    case 2:
    case 3:
      if (!known.empty()) return known[choices.below(known.size())];
      return choices.of(kExtremes);
    case 4: {
      const Node* other = pick(root, choices);
      return text.substr(other->begin, other->end - other->begin);
    }
    case 5:
      if (old.front() == '"') return other_word(old, choices);
      return std::to_string(static_cast<std::int64_t>(choices.below(1 << 16)) - 100);
    case 6: return choices.one_of(2) ? nested(choices) : "[" + std::string(old) + "]";
    default: return choices.one_of(2) ? random_pattern(choices) : "{\"type\":" + std::string(old) + "}";
  }
}

void erase_item(std::string& text, const Node& parent, const Node& node) {
  std::size_t begin = node.from(), end = node.end;
  if (&node != &parent.items.back()) {
    end = (&node + 1)->from();
  } else if (&node != &parent.items.front()) {
    begin = (&node - 1)->end;
  }
  text.erase(begin, end - begin);
}

bool mutate_once(std::string& text, const std::vector<std::string>& known, Choices& choices) {
  Node root;
  if (text.empty() || !Reader(text).read(root)) return false;
  const Node* parent = nullptr;
  const Node* node = pick(root, choices, &parent);
  const std::size_t kind = choices.below(16);
  if (parent == nullptr || kind < 9) {
    text.replace(node->begin, node->end - node->begin, other_value(text, root, *node, known, choices));
  } else if (kind < 11) {
    erase_item(text, *parent, *node);
  } else if (kind < 13) {
    const std::string copy = text.substr(node->from(), node->end - node->from());
    text.insert(node->end, "," + copy);
  } else if (kind < 14) {
    const Node* other = &parent->items[choices.below(parent->items.size())];  // two members of one name
    if (node->name != std::string::npos)
      text.replace(node->name, text.find(':', node->name) - node->name,
                   text.substr(other->name, text.find(':', other->name) - other->name));
  } else if (kind < 15) {
    const bool member = node->name != std::string::npos;
    text.insert(node->from(), (member ? "\"unknown\":" : "") + other_value(text, root, *node, known, choices) + ",");
  } else if (choices.one_of(3)) {
    text.resize(choices.below(text.size()));
  } else {
    text[choices.below(text.size())] = static_cast<char>(choices.byte());
  }
  return true;
}

std::uint64_t read_word(std::string_view file, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, file.data() + at, std::min<std::size_t>(sizeof value, file.size() - std::min(at, file.size())));
  return value;
}

void write_word(std::string& file, std::size_t at, std::uint64_t value) { std::memcpy(file.data() + at, &value, 8); }

std::uint64_t hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string with_length(const std::string& header, std::string_view data) {
  std::string file(8, '\0');
  write_word(file, 0, header.size());
  return file.append(header).append(data);
}

const std::vector<std::string>& dtype_texts() {
  static const std::vector<std::string> texts = {"\"F32\"",   "\"F16\"",     "\"BF16\"",
                                                 "[0,0]",     "[300,16]",    "[16]",
                                                 "[0,19200]", "[16,16,1,1]", "[4611686018427387904,4]"};
  return texts;
}

}  // namespace

std::string mutate_json(std::string text, const std::vector<std::string>& known, Choices& choices) {
  constexpr std::size_t kMost = 1 << 18;
  for (std::size_t left = choices.below(4) + 1; left > 0 && text.size() < kMost; --left)
    if (!mutate_once(text, known, choices)) break;
  return text;
}

std::string random_pattern(Choices& choices) {
  static constexpr const char* kAtoms[] = {"a",
                                           "b",
                                           " ",
                                           ".",
                                           "\\\\p{L}",
                                           "\\\\p{N}",
                                           "\\\\p{Lu}",
                                           "\\\\P{L}",
                                           "\\\\s",
                                           "\\\\S",
                                           "\\\\d",
                                           "\\\\w",
                                           "\\\\W",
                                           "\\\\r",
                                           "\\\\n",
                                           "[a-z]",
                                           "[^\\\\s\\\\p{L}\\\\p{N}]",
                                           "[\\\\r\\\\n]",
                                           "[^a]",
                                           "\\u4f60",
                                           "\\ud83d\\ude42",
                                           "'(?i:[sdmt]|ll|ve|re)",
                                           "\\\\b",
                                           "\\\\B",
                                           "^",
                                           "$",
                                           "\\\\z",
                                           "\\\\A",
                                           "\\\\x41",
                                           "\\\\X",
                                           "[[:alpha:]]",
                                           "[a&&b]",
                                           "[]",
                                           "(",
                                           "\\\\",
                                           "\\\\1",
                                           "\\\\p{Han}",
                                           "[\\\\u4e00-\\\\u9fff]",
                                           "\\\\G",
                                           "\\\\K"};
  static constexpr const char* kOpen[] = {"(?:", "(", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
  static constexpr const char* kRepeats[] = {"",   "",   "",      "*",    "+",     "?",   "*?",   "+?",
                                             "??", "++", "{1,3}", "{2,}", "{0,2}", "{3}", "{,2}", "{1000}"};
  std::string text = "\"";
  std::size_t open = 0;
  for (std::size_t left = choices.below(12) + 1; left > 0; --left) {
    const std::size_t kind = choices.below(10);
    if (kind < 2 && open < 4) {
      text += choices.of(kOpen);
      ++open;
      continue;
    }
    text += choices.of(kAtoms);
    text += choices.of(kRepeats);
    if (kind == 2) text += '|';
    if (kind > 7 && open > 0) {
      text += ')';
      text += choices.of(kRepeats);
      --open;
    }
  }
  return text + std::string(open, ')') + '"';
}

std::string mutate_safetensors(std::string_view file, Choices& choices) {
  const std::size_t length = std::min<std::size_t>(read_word(file, 0), file.size() - 8);
  std::string_view data = file.substr(8 + length);
  const std::string header = mutate_json(std::string(file.substr(8, length)), dtype_texts(), choices);
  if (choices.one_of(16)) data.remove_suffix(choices.below(data.size() + 1));
  std::string out = with_length(header, data);
  if (choices.one_of(16)) write_word(out, 0, choices.one_of(2) ? choices.word() : choices.below(2 * header.size() + 1));
  return out;
}

void repair_packed(std::string& file) {
  static constexpr std::string_view kKey = "\"qinfer.checksum\":\"";
  constexpr std::size_t kDigits = 16;
  const std::size_t length = std::min<std::size_t>(read_word(file, 0), file.size() - 8);
  const std::size_t at = file.find(kKey);
  if (at == file.npos || at + kKey.size() + kDigits > 8 + length) return;
  file.replace(at + kKey.size(), kDigits, kDigits, '0');
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(hash(std::string_view(file).substr(8, length))));
  file.replace(at + kKey.size(), kDigits, digits);
}

std::string mutate_packed(std::string_view file, Choices& choices) {
  constexpr std::size_t kPage = 4096;
  const std::size_t length = std::min<std::size_t>(read_word(file, 0), file.size() - 8);
  std::string header(file.substr(8, length));
  header.erase(header.find_last_not_of(' ') + 1);
  std::string data(file.substr(8 + length));
  header = mutate_json(header, dtype_texts(), choices);
  if (!choices.one_of(8)) header.resize((header.size() + 8 + kPage - 1) / kPage * kPage - 8, ' ');
  if (choices.one_of(8)) data.resize(choices.below(data.size() + 1));
  for (std::size_t left = choices.one_of(4) ? choices.below(8) : 0; left > 0 && !data.empty(); --left)
    data[choices.below(data.size())] = static_cast<char>(choices.byte());
  std::string out = with_length(header, data);
  repair_packed(out);
  return out;
}

SnapshotShape shape_of_snapshot(std::string_view file) {
  constexpr std::size_t kPage = 4096;
  SnapshotShape shape;
  for (std::size_t page = 0; page < file.size(); page += kPage) {
    // A record: its checksum comes after all that it is over.
    for (std::size_t at = 16; at < 1024 && page + at + 8 <= file.size(); at += 8) {
      const std::uint64_t sum = read_word(file, page + at);
      if (sum == 0 || hash(file.substr(page, at)) != sum) continue;
      // In it, a size and the checksum of as many bytes at the beginning of another page.
      for (std::size_t field = 0; field + 16 <= at; field += 8) {
        const std::uint64_t size = read_word(file, page + field), inner = read_word(file, page + field + 8);
        for (std::size_t begin = 0; size > 8 && inner != 0 && begin + size <= file.size(); begin += kPage)
          if (hash(file.substr(begin, size)) == inner) shape.sums.push_back({begin, begin + size, page + field + 8});
      }
      shape.sums.push_back({page, page + at, page + at});
    }
  }
  return shape;
}

void repair_snapshot(std::string& file, const SnapshotShape& shape) {
  for (const SnapshotShape::Sum& sum : shape.sums) {
    if (sum.at + 8 > file.size()) continue;
    const std::string_view rest = std::string_view(file).substr(std::min(sum.begin, file.size()));
    // A record's own checksum comes after it. What another record describes has the size that stands there, which may
    // be one of the changes.
    const std::uint64_t size = sum.at == sum.end ? sum.end - sum.begin : read_word(file, sum.at - 8);
    write_word(file, sum.at, hash(rest.substr(0, size)));
  }
}

std::string mutate_snapshot(std::string_view base, const SnapshotShape& shape, Choices& choices) {
  std::string file(base);
  static constexpr std::uint64_t kValues[] = {
      0,   1,       2,          3,          31,         32,          33,         50,        255,
      256, 1 << 16, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, UINT64_MAX, INT64_MAX, UINT64_MAX - 7};
  for (std::size_t left = choices.below(4) + 1; left > 0; --left) {
    const SnapshotShape::Sum& part = shape.sums[choices.below(shape.sums.size())];
    const std::size_t width = choices.one_of(2) ? 8 : choices.one_of(3) ? 1 : 4;
    const std::size_t n = (part.end - part.begin) / width;
    // The ends of a record and of a tail hold what is least alike.
    const std::size_t near = std::min<std::size_t>(n, 32), place = choices.below(3);
    const std::size_t index = place == 0   ? choices.below(near)
                              : place == 1 ? n - 1 - choices.below(near)
                                           : choices.below(n);
    const std::uint64_t value = choices.one_of(4) ? choices.word() : choices.of(kValues);
    std::memcpy(file.data() + part.begin + index * width, &value, width);
  }
  if (choices.one_of(16)) file.resize(choices.below(file.size() + 1));
  if (!choices.one_of(16)) repair_snapshot(file, shape);
  return file;
}

}  // namespace qinfer::fuzz

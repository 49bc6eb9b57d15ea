// The whole text of a message, in the caller's memory.
#include <qinfer/qinfer.hpp>

#include "support/c_api.h"

using namespace qinfer::test;

namespace {

/// A path that no message holds whole beside its reason.
std::string long_path() { return "/nowhere" + std::string(60, '/') + "directory/" + std::string(300, 'x') + "/end"; }

/// What is left of a text of ASCII in room for so many bytes, of which one is the NUL.
std::string without_middle(const std::string& text, std::size_t capacity) {
  const std::size_t room = capacity - 1;
  if (text.size() <= room) return text;
  const std::string cut = (text.substr(0, capacity / 2) + "...").substr(0, room);
  return cut + text.substr(text.size() - (room - cut.size()));
}

struct Full {
  qinfer_full_error full = sized<qinfer_full_error>();
  std::vector<char> text;
  explicit Full(std::size_t capacity) : text(capacity + 8, '#') {
    full.text = text.data();
    full.capacity = capacity;
  }
  qinfer_status load(const std::string& path) {
    qinfer_model* model = nullptr;
    return qinfer_model_load(nullptr, path.c_str(), nullptr, &model, qinfer_full_error_arg(&full));
  }
};

}  // namespace

TEST_CASE("A full error has the whole message, and the short one besides", "[api][errors]") {
  const std::string path = long_path();
  qinfer_error plain = {};
  qinfer_model* model = nullptr;
  REQUIRE(qinfer_model_load(nullptr, path.c_str(), nullptr, &model, &plain) == QINFER_E_NOT_FOUND);
  Full full(1000);
  REQUIRE(full.load(path) == QINFER_E_NOT_FOUND);
  const std::string text = full.text.data();
  REQUIRE(text.size() == full.full.text_len);
  REQUIRE(text.size() > 300);
  REQUIRE_THAT(text, contains(path));
  REQUIRE(full.full.error.code == QINFER_E_NOT_FOUND);
  REQUIRE(full.full.error.detail == plain.detail);
  REQUIRE(std::string(full.full.error.message) == plain.message);
  REQUIRE_THAT(std::string(plain.message), contains("..."));

  for (const std::size_t capacity : {0, 1, 2, 100, static_cast<int>(text.size()), static_cast<int>(text.size()) + 1}) {
    INFO("capacity " << capacity);
    Full cut(capacity);
    REQUIRE(cut.load(path) == QINFER_E_NOT_FOUND);
    REQUIRE(cut.full.text_len == text.size());
    REQUIRE(std::string(cut.full.error.message) == plain.message);
    if (capacity != 0) REQUIRE(std::string(cut.text.data()) == without_middle(text, capacity));
    for (std::size_t i = capacity; i < cut.text.size(); ++i) REQUIRE(cut.text[i] == '#');
  }
}

TEST_CASE("A full error is one line of whole characters, and untouched by success", "[api][errors]") {
  Full full(200);
  std::string path = "/nowhere/\n\xff";
  for (int i = 0; i < 200; ++i) path += "\xc3\xa9";
  REQUIRE(full.load(path) == QINFER_E_NOT_FOUND);
  const std::string text = full.text.data();
  REQUIRE_THAT(text, contains("/nowhere/?\?\xc3\xa9"));
  REQUIRE(text.size() >= 196);
  REQUIRE_THAT(text, contains("\xc3\xa9...\xc3\xa9"));

  const qinfer_full_error before = full.full;
  qinfer_cancel* cancel = nullptr;
  REQUIRE(qinfer_cancel_create(&cancel, qinfer_full_error_arg(&full.full)) == QINFER_OK);
  qinfer_cancel_free(cancel);
  REQUIRE(std::memcmp(&before, &full.full, sizeof before) == 0);
  REQUIRE(std::string(full.text.data()) == text);

  full.full.text = nullptr;
  REQUIRE(full.load("/nowhere") == QINFER_E_NOT_FOUND);
  REQUIRE_THAT(std::string(full.full.error.message), contains("/nowhere"));
}

TEST_CASE("No full error is no error, and one of a wrong size neither", "[api][errors]") {
  REQUIRE(qinfer_full_error_arg(nullptr) == nullptr);
  auto full = sized<qinfer_full_error>();
  full.struct_size = 8;
  REQUIRE(qinfer_full_error_arg(&full) == nullptr);
}

TEST_CASE("Errors of C++ hosts have the whole message", "[api][errors]") {
  try {
    qi::Model::load(long_path());
    FAIL("it was loaded");
  } catch (const qi::Error& error) {
    REQUIRE(error.status() == QINFER_E_NOT_FOUND);
    REQUIRE(error.detail() == ENOENT);
    REQUIRE_THAT(std::string(error.what()), contains(long_path()));
  }
}

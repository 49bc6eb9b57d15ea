// json_input.cpp: see json_input.h.
#include "json_input.h"

#include <algorithm>
#include <unordered_set>

#include "server/refusal.h"

namespace server {
namespace {

/// Builds a value while it is read, and stops where a bound is passed. Members are appended as they come: looking each
/// one up, as the library's own parser of ordered objects does, takes quadratic time.
class Builder {
 public:
  // NOLINTBEGIN(readability-identifier-naming): names are nlohmann's
  bool null() { return add(nullptr) != nullptr; }
  bool boolean(bool value) { return add(value) != nullptr; }
  bool number_integer(std::int64_t value) { return add(value) != nullptr; }
  bool number_unsigned(std::uint64_t value) { return add(value) != nullptr; }
  bool number_float(double value, const std::string&) { return add(value) != nullptr; }
  bool string(std::string& value) { return add(std::move(value)) != nullptr; }
  bool binary(Json::binary_t&) { return fail("has binary values"); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& value) {
    if (!open_.back().keys.insert(value).second) return fail("has the key \"" + value + "\" twice in one object");
    key_ = std::move(value);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) {
    const std::string_view what = error.what();
    const std::size_t begin = what.find("] ");
    return fail("is not JSON: " + std::string(what.substr(begin == std::string_view::npos ? 0 : begin + 2)));
  }
  // NOLINTEND(readability-identifier-naming)

  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

 private:
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys = {};
  };

  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  Json* add(Json value) {
    if (++n_values_ > kMaxValues) {
      fail("has more than " + std::to_string(kMaxValues) + " values");
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& into = *open_.back().value;
    if (into.is_array()) {
      into.push_back(std::move(value));
      return &into.back();
    }
    auto& members = into.get_ref<Json::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  bool open(Json value) {
    if (open_.size() == kMaxDepth) return fail("is nested deeper than " + std::to_string(kMaxDepth) + " levels");
    Json* const added = add(std::move(value));
    if (added == nullptr) return false;
    open_.push_back({added});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Open> open_;
  std::string key_, problem_;
  std::size_t n_values_ = 0;
};

std::string_view beginning_of(std::string_view text) {
  std::size_t n = std::min<std::size_t>(text.size(), 40);
  while (n != 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  return text.substr(0, n);
}

}  // namespace

Json read_object(std::string_view text) {
  if (text.size() > kMaxBytes)
    refuse_request("The request has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(kMaxBytes) +
                   " are read");
  Builder builder;
  Json::sax_parse(text, &builder);
  if (!builder.problem().empty()) refuse_request("The request " + builder.problem());
  Json value = builder.take();
  if (!value.is_object()) refuse_request("The request is not a JSON object");
  return value;
}

std::optional<Json> try_read_object(std::string_view text) {
  Builder builder;
  Json::sax_parse(text, &builder);
  Json value = builder.take();
  if (!builder.problem().empty() || !value.is_object()) return std::nullopt;
  return value;
}

std::string text_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void refuse_request(const std::string& reason) { throw refusal(400, "invalid_request_error", reason); }

void refuse_value(const std::string& name, const Json& value, std::string_view expected) {
  std::string shown;
  if (value.is_structured()) {
    shown = std::string(value.empty()       ? "an empty "
                        : value.is_object() ? "an "
                                            : "a ") +
            (value.is_object() ? "object" : "list");
  } else {
    shown = text_of(value);
  }
  if (value.is_string() && shown.size() > 42)
    shown = '"' + std::string(beginning_of(value.get_ref<const std::string&>())) + "...\"";
  refuse_request("\"" + name + "\" is " + shown + ", expected " + std::string(expected));
}

Fields::Fields(const Json& object, std::string name) : object_(object), name_(std::move(name)) {
  if (!object.is_object()) refuse_value(name_, object, "an object");
}

std::string Fields::name_of(std::string_view key) const {
  return name_.empty() ? std::string(key) : name_ + '.' + std::string(key);
}

const Json* Fields::find(std::string_view key) {
  known_.push_back(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::need(std::string_view key, std::string_view expected) {
  const Json* value = find(key);
  if (value == nullptr) refuse_request("\"" + name_of(key) + "\" is missing, expected " + std::string(expected));
  return *value;
}

std::optional<std::string> Fields::text(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_value(name_of(key), *value, "a text");
  return value->get<std::string>();
}

std::string Fields::need_text(std::string_view key) {
  const Json& value = need(key, "a text");
  if (!value.is_string()) refuse_value(name_of(key), value, "a text");
  return value.get<std::string>();
}

std::optional<bool> Fields::boolean(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_value(name_of(key), *value, "true or false");
  return value->get<bool>();
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned() ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                                                : value->is_number_integer();
  if (!fits || value->get<std::int64_t>() < min || value->get<std::int64_t>() > max)
    refuse_value(name_of(key), *value, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return value->get<std::int64_t>();
}

const Json* Fields::list(std::string_view key) {
  const Json* value = find(key);
  if (value != nullptr && !value->is_array()) refuse_value(name_of(key), *value, "a list");
  return value;
}

void Fields::pass_over(std::initializer_list<std::string_view> keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void Fields::refuse(std::string_view key, std::string_view reason) {
  if (find(key) != nullptr) refuse_request("\"" + name_of(key) + "\" is not supported: " + std::string(reason));
}

void Fields::check_all_known() const {
  for (const auto& [key, value] : object_.items())
    if (!value.is_null() && std::find(known_.begin(), known_.end(), key) == known_.end())
      refuse_request("\"" + name_of(beginning_of(key)) + "\" is not a field that is known here");
}

}  // namespace server

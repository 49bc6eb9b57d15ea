// Shared by the readers of requests: typed access to fields by name. Fields remembers each name that it was asked for,
// so that after reading a field with any other name can be refused.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "openai/request.h"

namespace qinfer::openai {

class Fields {
 public:
  explicit Fields(const formats::Json& object) : object_(object), reader_(object, "request") {}

  /// The field, or null where it is absent or null.
  const formats::Json* find(std::string_view key) {
    known_.push_back(key);
    return formats::find_field(object_, key);
  }
  Result<std::optional<double>> number(std::string_view key, double min, double max);
  Result<std::optional<std::int64_t>> integer(std::string_view key, std::int64_t min, std::int64_t max);
  Result<std::optional<bool>> boolean(std::string_view key);
  Result<std::optional<std::string>> text(std::string_view key);

  /// Takes note of fields that change nothing, where they are there.
  void pass_over(std::initializer_list<std::string_view> keys, std::vector<std::string>& unused);
  /// Of a field that is there: refused, because of what it would be.
  Status refuse(std::string_view key, std::string_view reason);
  /// QINFER_E_UNSUPPORTED for the first field whose name was never asked for.
  Status check_all_known() const;

 private:
  const formats::Json& object_;
  formats::FieldReader reader_;
  std::vector<std::string_view> known_;
};

/// What a message quotes of a text: whole characters of its first 40 bytes.
std::string_view beginning_of(std::string_view text);
/// A wrong value, as FieldReader words it.
Status wrong_value(std::string_view field, const formats::Json& value, std::string_view expected);

Status read_chat(Fields& fields, Request& request);
/// What read_sampling() of request.cpp does not know.
Status read_more_sampling(Fields& fields, Sampling& sampling);
Status read_completion(Fields& fields, Request& request);
Status read_embeddings(Fields& fields, Request& request);

}  // namespace qinfer::openai

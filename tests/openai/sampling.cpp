// The fields of sampling that llama.cpp's server has besides OpenAI's.
#include <string>

#include "openai/request.h"
#include "support/catch.h"

namespace {

using namespace qinfer;
using openai::Sampling;

auto read_with(const std::string& fields) {
  return openai::read_request(openai::Kind::completion, R"({"prompt": "a", )" + fields + "}");
}

Sampling sampling_of(const std::string& fields) {
  auto request = read_with(fields);
  if (!request.ok()) FAIL(request.take_status().message());
  return request.value().sampling;
}

void refused(const std::string& fields, Code code, const std::string& says) {
  CAPTURE(fields);
  auto request = read_with(fields);
  REQUIRE_FALSE(request.ok());
  const Status status = request.take_status();
  CHECK(status.code() == code);
  CHECK(std::string(status.message()).find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("openai request: samplers by the names of llama.cpp's server", "[openai]") {
  const Sampling s = sampling_of(R"("typical_p": 0.5, "top_n_sigma": 1.5, "dynatemp_range": 0.25,
      "dynatemp_exponent": 2, "xtc_probability": 0.75, "xtc_threshold": 0.125, "dry_multiplier": 0.5, "dry_base": 2.5,
      "dry_allowed_length": 3, "dry_penalty_last_n": 64, "dry_sequence_breakers": ["\n", "ab"], "mirostat": 2,
      "mirostat_tau": 4, "mirostat_eta": 0.25, "samplers": ["top_k", "typ_p", "temperature", "dry"])");
  CHECK(s.typical_p == 0.5);
  CHECK(s.top_n_sigma == 1.5);
  CHECK(s.dynatemp_range == 0.25);
  CHECK(s.dynatemp_exponent == 2);
  CHECK(s.xtc_probability == 0.75);
  CHECK(s.xtc_threshold == 0.125);
  CHECK(s.dry_multiplier == 0.5);
  CHECK(s.dry_base == 2.5);
  CHECK(s.dry_allowed_length == 3);
  CHECK(s.dry_penalty_tokens == 64);
  CHECK(s.dry_breakers == std::vector<std::string>{"\n", "ab"});
  CHECK(s.mirostat == 2);
  CHECK(s.mirostat_tau == 4);
  CHECK(s.mirostat_eta == 0.25);
  CHECK(s.steps == "kytd");
}

TEST_CASE("openai request: what turns samplers off", "[openai]") {
  const Sampling none = sampling_of(R"("samplers": null, "dry_sequence_breakers": null)");
  CHECK(none.steps.empty());
  CHECK_FALSE(none.dry_breakers);
  CHECK(sampling_of(R"("top_n_sigma": -1)").top_n_sigma == 0);
  CHECK(sampling_of(R"("dry_multiplier": 1, "dry_penalty_last_n": -1)").dry_penalty_tokens == 0);
  CHECK(sampling_of(R"("dry_multiplier": 1, "dry_penalty_last_n": -1)").dry_multiplier == 1);
  CHECK(sampling_of(R"("dry_multiplier": 1, "dry_penalty_last_n": 0)").dry_multiplier == 0);
  CHECK(sampling_of(R"("dry_sequence_breakers": [])").dry_breakers == std::vector<std::string>());
  CHECK(sampling_of(R"("samplers": "edskypmxt")").steps == "edskypmxt");
  CHECK(sampling_of(R"("samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc",
      "temperature"])")
            .steps == "edskypmxt");
}

TEST_CASE("openai request: samplers that are wrong are named", "[openai][bad]") {
  refused(R"("typical_p": 1.5)", Code::format, R"("typical_p" is 1.5, expected 0 to 1)");
  refused(R"("xtc_threshold": 0)", Code::format, R"("xtc_threshold" is 0)");
  refused(R"("dry_base": 0.5)", Code::format, R"("dry_base" is 0.5)");
  refused(R"("dry_multiplier": 1e300)", Code::format, R"("dry_multiplier" is 1e+300)");
  refused(R"("dry_allowed_length": 0)", Code::format, R"("dry_allowed_length" is 0)");
  refused(R"("dry_penalty_last_n": -2)", Code::format, R"("dry_penalty_last_n" is -2)");
  refused(R"("mirostat": 1)", Code::unsupported, R"("mirostat" 1 is not supported)");
  refused(R"("mirostat": 3)", Code::format, R"("mirostat" is 3)");
  refused(R"("mirostat_eta": 2)", Code::format, R"("mirostat_eta" is 2)");
  refused(R"("samplers": [])", Code::format, R"("samplers" is an array, expected an array of penalties)");
  refused(R"("samplers": ["top_k", "top_k"])", Code::format, R"("samplers" is "top_k", expected)");
  refused(R"("samplers": ["infill"])", Code::format, R"("samplers" is "infill", expected)");
  refused(R"("samplers": [1])", Code::format, R"("samplers" is 1, expected)");
  refused(R"("samplers": "tz")", Code::format, R"("samplers" is "tz", expected)");
  refused(R"("samplers": 5)", Code::format, R"("samplers" is 5, expected)");
  refused(R"("dry_sequence_breakers": "a")", Code::format, R"("dry_sequence_breakers" is "a", expected an array)");
  refused(R"("dry_sequence_breakers": [""])", Code::format, "of 1 to 40 bytes");
  refused(R"("dry_sequence_breakers": [")" + std::string(41, 'a') + "\"]", Code::format, "of 1 to 40 bytes");
  std::string many = "\"a\"";
  for (int i = 0; i < 16; ++i) many += ", \"a\"";
  refused(R"("dry_sequence_breakers": [)" + many + "]", Code::format, "at most 16 texts");
  refused(R"("top_h": 1)", Code::unsupported, R"("top_h" is not a field)");
}

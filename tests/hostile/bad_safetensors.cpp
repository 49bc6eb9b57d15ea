// Damaged and hostile safetensors files and indices: each must be refused with the right status and a message that
// names the file and what is wrong in it, before anything of that size is allocated or read.
//
// Titles carry the names of the errors of the reference implementation (safetensors, Rust crate) or of the public
// reports whose mistake the test would show.
#include <sys/stat.h>

#include <cmath>
#include <fstream>

#include "formats/safetensors.h"
#include "support/c_api.h"

using namespace qinfer::test;
using qinfer::DType;
using Json = nlohmann::json;

namespace {

/// The failure of the header parser for header text and that many bytes of data, or "ok".
std::string header_error(std::string_view header, std::size_t data_bytes = 0) {
  const std::string file = safetensors_file(header, std::string(data_bytes, '\0'));
  auto parsed = qinfer::formats::parse_safetensors_header(file, file.size(), "f.safetensors");
  if (parsed.ok()) return "ok";
  const qinfer::Status status = parsed.take_status();
  REQUIRE(status.code() == qinfer::Code::format);
  return std::string(status.message());
}

std::string one_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

#define REQUIRE_HEADER(text, ...)                                          \
  do {                                                                     \
    const std::string failure = header_error(__VA_ARGS__);                 \
    REQUIRE_THAT(failure, contains(text));                                 \
    if (failure != "ok") REQUIRE_THAT(failure, contains("f.safetensors")); \
  } while (0)

}  // namespace

TEST_CASE("HeaderTooSmall: a safetensors file of fewer than 8 bytes", "[bad]") {
  const ModelDir dir{TinySpec()};
  for (const std::size_t n : {0u, 1u, 7u}) {
    dir.write("model.safetensors", std::string(n, '\0'));
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "model.safetensors", dir);
  }
}

TEST_CASE("HeaderTooLarge: a header of more than 100,000,000 bytes", "[bad]") {
  const ModelDir dir{TinySpec()};
  std::string file = safetensors_file("{}", "");
  file[3] = 0x06;  // 0x06000002 = 100,663,298
  dir.write("model.safetensors", file);
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "100663298", dir);
  // Length used as a signed number, or plus 8 wrapping around.
  for (const char high : {'\x80', '\xff'}) {
    for (std::size_t i = 0; i < 8; ++i) file[i] = high == '\xff' ? '\xff' : '\0';
    file[7] = high;
    dir.write("model.safetensors", file);
    REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "at most 100000000", dir);
  }
  // The file is really that long (and sparse): still refused before 100 MB are read.
  file = safetensors_file("{}", "");
  file[3] = 0x06;
  dir.write("model.safetensors", file);
  REQUIRE(truncate(dir.file("model.safetensors").c_str(), 200'000'000) == 0);
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "100663298", dir);
}

TEST_CASE("InvalidHeaderLength: a header longer than the file", "[bad]") {
  const ModelDir dir{TinySpec()};
  std::string file = dir.read("model.safetensors");
  dir.write("model.safetensors", file.substr(0, 100));
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "only 92 follow", dir);
  dir.write("model.safetensors", safetensors_file("{}", "").substr(0, 9));
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "only 1 follow", dir);
}

TEST_CASE("InvalidHeader: not UTF-8", "[bad]") {
  REQUIRE_HEADER("UTF-8", "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4);
  REQUIRE_HEADER("UTF-8", "{\"__metadata__\":{\"a\":\"\xc0\x80\"}}");
}

TEST_CASE("The error message is UTF-8 without control characters, whatever the file holds", "[bad]") {
  const ModelDir dir{TinySpec()};
  dir.write("model.safetensors", safetensors_file("{\"\xff\xfe\":1}", ""));
  qinfer_model* model = nullptr;
  qinfer_error error = {};
  REQUIRE(qinfer_model_load(nullptr, dir.path().c_str(), nullptr, &model, &error) == QINFER_E_FORMAT);
  const std::string message = error.message;
  REQUIRE(message.find('\xff') == message.npos);
  dir.write("model.safetensors", safetensors_file(one_tensor("F\\u0000\\u000a", "[]", "[0,4]"), "1234"));
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "unknown dtype \"F??\"", dir);
}

TEST_CASE("InvalidHeaderDeserialization: malformed JSON", "[bad]") {
  REQUIRE_HEADER("f.safetensors", "");
  REQUIRE_HEADER("f.safetensors", "{");
  REQUIRE_HEADER("f.safetensors", "{}}");
  REQUIRE_HEADER("f.safetensors", "{} x");
  REQUIRE_HEADER("not a JSON object", "[]");
  REQUIRE_HEADER("not a JSON object", "\xEF\xBB\xBF{}");  // a byte order mark
  REQUIRE_HEADER("header", "3");
  REQUIRE_HEADER("header", "null");
  REQUIRE_HEADER("header", "\"text\"");
  REQUIRE_HEADER("f.safetensors", R"({"t":3})");
  REQUIRE_HEADER("\"t\"", R"({"t":{}})");
  REQUIRE_HEADER("\"t\"", R"({"t":{"dtype":"F32","shape":[]}})");
  REQUIRE_HEADER("\"t\"", R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4);
  REQUIRE_HEADER("\"t\"", R"({"t":{"shape":[],"data_offsets":[0,4]}})", 4);
  REQUIRE_HEADER("\"t\"", R"({"t":{"dtype":4,"shape":[],"data_offsets":[0,4]}})", 4);
  REQUIRE_HEADER("\"t\"", R"({"t":{"dtype":"F32","shape":4,"data_offsets":[0,4]}})", 4);
  REQUIRE_HEADER("shape", R"({"t":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4);
  REQUIRE_HEADER("shape", R"({"t":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4);
  REQUIRE_HEADER("extra", R"({"t":{"dtype":"F32","shape":[],"data_offsets":[0,4],"extra":1}})", 4);
  REQUIRE_HEADER("__metadata__", R"({"__metadata__":{"a":1}})");
  REQUIRE_HEADER("a", R"({"__metadata__":{"a":{}}})");
  REQUIRE_HEADER("ok", R"({"__metadata__":{"a":"b"}})");
  REQUIRE_HEADER("ok", "{}");
}

TEST_CASE("InvalidHeaderDeserialization: a header padded with NUL bytes", "[bad]") {
  const std::string header = one_tensor("F32", "[]", "[0,4]");
  REQUIRE_HEADER("NUL", header + std::string(3, '\0'), 4);
  REQUIRE_HEADER("NUL", header + std::string(1, '\0') + "anything at all", 4);
  REQUIRE_HEADER("not a JSON object", std::string(1, '\0') + header, 4);
}

TEST_CASE("test_whitespace_leading_padded_header: white space around the header is accepted", "[bad]") {
  const std::string header = one_tensor("F32", "[]", "[0,4]");
  REQUIRE_HEADER("ok", "   \n\t" + header, 4);
  REQUIRE_HEADER("ok", header + "       ", 4);
}

TEST_CASE("Duplicate names in a header are refused, where serde would keep the last", "[bad]") {
  const std::string t = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  REQUIRE_HEADER("\"t\" appears twice", "{" + t + "," + t + "}", 1);
  REQUIRE_HEADER("\"dtype\" of tensor \"t\" appears twice",
                 R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  REQUIRE_HEADER("\"a\" appears twice", R"({"__metadata__":{"a":"1","a":"2"}})");
  REQUIRE_HEADER("twice", R"({"__metadata__":{},"__metadata__":{}})");
  REQUIRE_HEADER(
      "twice",
      R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0074":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
      2);
}

TEST_CASE("InvalidOffset: ranges that overlap, leave holes, run backwards or do not begin at 0", "[bad]") {
  const auto two = [](std::string_view a, std::string_view b) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                       R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                       a, b);
  };
  REQUIRE_HEADER("ok", two("[0,4]", "[4,8]"), 8);
  REQUIRE_HEADER("ok", two("[4,8]", "[0,4]"), 8);
  REQUIRE_HEADER("\"b\"", two("[0,4]", "[0,4]"), 4);  // the "JSON attack": many tensors, one range
  REQUIRE_HEADER("\"b\"", two("[0,4]", "[2,6]"), 6);
  REQUIRE_HEADER("\"b\"", two("[0,4]", "[5,9]"), 9);
  REQUIRE_HEADER("\"a\"", two("[1,5]", "[5,9]"), 9);
  REQUIRE_HEADER("\"t\"", one_tensor("U8", "[4]", "[4,0]"), 4);
  REQUIRE_HEADER("\"t\"", one_tensor("U8", "[4]", "[0]"), 4);
  REQUIRE_HEADER("\"t\"", one_tensor("U8", "[4]", "[0,4,4]"), 4);
  REQUIRE_HEADER("\"t\"", one_tensor("U8", "[4]", "[]"), 4);
}

TEST_CASE("Numbers of a header that are negative, huge or not whole", "[bad]") {
  for (const char* number :
       {"-1", "1.0", "1e0", "18446744073709551615", "9223372036854775808", "true", "null", "\"1\""}) {
    INFO(number);
    REQUIRE_HEADER("\"t\"", one_tensor("U8", fmt::format("[{}]", number), "[0,1]"), 1);
    REQUIRE_HEADER("\"t\"", one_tensor("U8", "[1]", fmt::format("[0,{}]", number)), 1);
    REQUIRE_HEADER("\"t\"", one_tensor("U8", "[1]", fmt::format("[{},1]", number)), 1);
  }
  REQUIRE_HEADER("overflow parsing '1e400'", one_tensor("U8", "[1e400]", "[0,1]"), 1);
}

TEST_CASE("TensorInvalidInfo: a range that does not fit dtype and shape", "[bad]") {
  REQUIRE_HEADER("\"t\" spans bytes 0 to 4, its shape needs 8", one_tensor("F32", "[2]", "[0,4]"), 4);
  REQUIRE_HEADER("\"t\"", one_tensor("F32", "[1]", "[0,8]"), 8);
  REQUIRE_HEADER("ok", one_tensor("F32", "[0,7]", "[0,0]"), 0);
  REQUIRE_HEADER("ok", one_tensor("F32", "[]", "[0,4]"), 4);
  // A range of 2^63 - 1 bytes (CVE-2026-33298, CVE-2026-7482: sizes beyond the file).
  REQUIRE_HEADER("\"t\"", one_tensor("U8", "[9223372036854775807]", "[0,9223372036854775807]"), 4);
}

TEST_CASE("ValidationOverflow: a product of the shape beyond 64 bits (CVE-2025-53630, CVE-2026-27940)", "[bad]") {
  REQUIRE_HEADER("\"t\" overflows", one_tensor("F32", "[4294967296,4294967296]", "[0,4]"), 4);
  REQUIRE_HEADER("\"t\" overflows", one_tensor("F32", "[2305843009213693953,8]", "[0,32]"), 32);
  REQUIRE_HEADER("\"t\" overflows", one_tensor("F64", "[288230376151711744]", "[0,0]"), 0);
  // 2^62 * 4 = 2^64: bytes would wrap to 0.
  REQUIRE_HEADER("\"t\" overflows", one_tensor("F32", "[4611686018427387904]", "[0,0]"), 0);
}

TEST_CASE("MisalignedSlice: sub-byte dtypes must fill whole bytes", "[bad]") {
  REQUIRE_HEADER("\"t\" does not fill whole bytes", one_tensor("F4", "[3]", "[0,2]"), 2);
  REQUIRE_HEADER("\"t\" does not fill whole bytes", one_tensor("F6_E2M3", "[2]", "[0,2]"), 2);
  REQUIRE_HEADER("ok", one_tensor("F4", "[4]", "[0,2]"), 2);
  REQUIRE_HEADER("ok", one_tensor("F6_E3M2", "[4]", "[0,3]"), 3);
}

TEST_CASE("MetadataIncompleteBuffer: bytes that are missing, or follow the last tensor", "[bad]") {
  REQUIRE_HEADER("\"t\" ends at byte 4", one_tensor("F32", "[]", "[0,4]"), 3);
  REQUIRE_HEADER("\"t\" ends at byte 4", one_tensor("F32", "[]", "[0,4]"), 0);
  REQUIRE_HEADER("1 bytes of data follow", one_tensor("F32", "[]", "[0,4]"), 5);
  REQUIRE_HEADER("9 bytes of data follow", "{}", 9);
  const ModelDir dir{TinySpec()};
  const std::string file = dir.read("model.safetensors");
  dir.write("model.safetensors", file.substr(0, file.size() - 1));
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "model.safetensors", dir);
  dir.write("model.safetensors", file + "PK\x03\x04");  // a polyglot
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "4 bytes of data follow", dir);
}

TEST_CASE("Unknown dtypes, and dtypes that cannot be loaded, are named", "[bad]") {
  REQUIRE_HEADER("\"Q4_0\"", one_tensor("Q4_0", "[4]", "[0,4]"), 4);
  REQUIRE_HEADER("\"f32\"", one_tensor("f32", "[1]", "[0,4]"), 4);
  const TinySpec spec;
  const ModelDir dir(spec);
  for (const char* dtype : {"I8", "U8", "BOOL", "F8_E4M3", "F64", "I64"}) {
    write_changed(dir, spec, [&](auto& tensors) {
      TinyTensor& tensor = find_tensor(tensors, "model.layers.1.mlp.up_proj.weight");
      tensor.dtype = dtype;
      tensor.data.assign(24 * 16 * (dtype[1] == '6' ? 8u : 1u), '\0');
    });
    REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, std::string(dtype) + ", supported are F32, F16 and BF16", dir);
    REQUIRE_LOAD_FAILS(QINFER_E_UNSUPPORTED, "model.layers.1.mlp.up_proj.weight", dir);
  }
}

TEST_CASE("A deeply nested header does not exhaust the stack", "[bad]") {
  REQUIRE_HEADER("f.safetensors", std::string(1 << 20, '['));
  REQUIRE_HEADER("f.safetensors", "{\"t\":" + std::string(1 << 20, '['));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  REQUIRE_HEADER("f.safetensors", objects);
}

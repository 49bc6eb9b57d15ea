// Damaged and hostile GGUF containers: counts, lengths, types, sizes and places that lie, each refused with the right
// status and a message that names the file and the field, before anything of that size is allocated; and headers that
// are cut or changed anywhere. bad_gguf_models.cpp has files whose container is sound.
//
// Titles carry the names of public reports whose mistake the test would show.
#include <sys/stat.h>
#include <unistd.h>

#include "formats/gguf_parser.h"
#include "support/gguf_loads.h"

using namespace qinfer::test;

namespace {

std::string u32(std::uint32_t value) { return gguf_number(value); }
std::string u64(std::uint64_t value) { return gguf_number(value); }

/// What the parser says of these bytes as a whole file, or "ok". `unsupported`: the code that is expected.
std::string container_error(const std::string& file, bool unsupported = false) {
  auto bytes = std::make_unique<char[]>(file.size());  // of just that size, so that a sanitizer sees a read beyond
  std::copy(file.begin(), file.end(), bytes.get());
  auto parsed = qinfer::formats::parse_gguf_header(bytes, file.size(), file.size(), "f.gguf", {});
  if (parsed.ok()) return parsed.value() ? "ok" : "f.gguf needs more of a file that is all there";
  const qinfer::Status status = parsed.take_status();
  REQUIRE(status.code() == (unsupported ? qinfer::Code::unsupported : qinfer::Code::format));
  REQUIRE_THAT(std::string(status.message()), contains("f.gguf: "));
  return std::string(status.message());
}

#define REQUIRE_CONTAINER(text, file) REQUIRE_THAT(container_error(file), contains(text))
#define REQUIRE_UNSUPPORTED(text, file) REQUIRE_THAT(container_error(file, true), contains(text))

/// One tensor "t" of F32 with 64 values, or other dimensions, and the same data.
GgufFile one_tensor(std::vector<std::uint64_t> dims = {64}, std::uint32_t type = 0) {
  GgufFile file;
  file.tensors.push_back({"t", std::move(dims), type, std::string(256, '\0')});
  return file;
}

/// One key-value as the bytes after the key's name.
std::string with_key(const std::string& key, std::uint32_t type, const std::string& value) {
  GgufFile file;
  file.more_keys = gguf_text(key) + u32(type) + value;
  file.n_more_keys = 1;
  return file.bytes();
}

GgufFile with_alignment(std::uint32_t type, const std::string& value) {
  GgufFile file = one_tensor();
  file.keys.set_bytes("general.alignment", type, value);
  return file;
}

}  // namespace

TEST_CASE("GGUF containers that are sound are read", "[bad][gguf]") {
  CHECK(container_error(GgufFile{}.bytes()) == "ok");
  CHECK(container_error(one_tensor().bytes()) == "ok");
  CHECK(container_error(one_tensor({1, 1, 1, 64}).bytes()) == "ok");
  GgufFile old = one_tensor();
  old.version = 2;
  CHECK(container_error(old.bytes()) == "ok");
  for (const std::uint32_t alignment : {8u, 64u, 1u << 20}) {
    GgufFile aligned = with_alignment(GgufKeys::u32, u32(alignment));
    aligned.alignment = alignment;
    CHECK(container_error(aligned.bytes()) == "ok");
  }
  for (const GgufBlockType& type : gguf_block_types()) {
    GgufFile file;
    file.tensors.push_back({"t", {type.values, 3}, type.number, gguf_data(type.number, type.values * 3)});
    INFO(type.name);
    CHECK(container_error(file.bytes()) == "ok");
  }
  CHECK(container_error(with_key(std::string(65'535, 'k'), GgufKeys::u8, "\1")) == "ok");
  CHECK(container_error(with_key("a", GgufKeys::array, u32(GgufKeys::u64) + u64(0))) == "ok");
}

TEST_CASE("A GGUF file that is none, or of another version or byte order", "[bad][gguf]") {
  GgufFile file;
  file.magic = "GGUX";
  REQUIRE_CONTAINER("does not begin with \"GGUF\"", file.bytes());
  file.magic = "GGUF";
  for (const std::uint32_t version : {0u, 1u, 4u, 0xffffu}) {
    file.version = version;
    REQUIRE_UNSUPPORTED("GGUF version " + std::to_string(version) + ", supported are 2 and 3", file.bytes());
  }
  for (const std::uint32_t version : {0x02000000u, 0x03000000u}) {
    file.version = version;
    REQUIRE_UNSUPPORTED("big-endian", file.bytes());
  }
  for (const std::size_t n : {0u, 1u, 4u, 15u, 23u}) {
    INFO(n);
    REQUIRE_CONTAINER("the header at byte 0 takes 24 bytes, the file has " + std::to_string(n),
                      GgufFile{}.bytes().substr(0, n));
  }
}

TEST_CASE("CVE-2024-21802: counts of a GGUF header beyond what the file can hold", "[bad][gguf]") {
  for (const std::uint64_t n : {std::uint64_t{1} << 60, std::uint64_t{1} << 63, ~std::uint64_t{0}, std::uint64_t{2}}) {
    GgufFile file = one_tensor();
    file.n_keys = n == 2 ? 65'537 : n;
    REQUIRE_CONTAINER("says that it has " + std::to_string(*file.n_keys) + " key-values", file.bytes());
    file.n_keys.reset();
    file.n_tensors = n == 2 ? 1'000'001 : n;
    REQUIRE_CONTAINER("says that it has " + std::to_string(*file.n_tensors) + " tensors", file.bytes());
  }
  // As many as the bytes could be, but they are none.
  GgufFile file;
  file.n_keys = 100;
  REQUIRE_CONTAINER("a key is empty", file.bytes() + std::string(1300, '\0'));
  file = one_tensor();
  file.n_tensors = 2;
  REQUIRE_CONTAINER("f.gguf", file.bytes());
}

TEST_CASE("CVE-2025-49847: lengths of texts beyond the file", "[bad][gguf]") {
  const std::uint64_t lengths[] = {std::uint64_t{1} << 63, (std::uint64_t{1} << 32) + 3, ~std::uint64_t{0}, 1000};
  for (const std::uint64_t length : lengths) {
    INFO(length);
    GgufFile file;
    file.n_more_keys = 1;
    file.more_keys = u64(length) + "abc" + u32(GgufKeys::u32) + u32(1);
    REQUIRE_CONTAINER("a key", file.bytes());
    REQUIRE_CONTAINER("\"a.b\"", with_key("a.b", GgufKeys::string, u64(length) + "abc"));
    REQUIRE_CONTAINER("\"a.b\"",
                      with_key("a.b", GgufKeys::array, u32(GgufKeys::string) + u64(1) + u64(length) + "abc"));
    file = {};
    file.n_tensors = 1;
    REQUIRE_CONTAINER("the name of a tensor", file.bytes().substr(0, 24) + u64(length) + std::string(24, 'n'));
  }
  GgufFile file;
  file.n_more_keys = 1;
  file.more_keys = gguf_text(std::string(65'536, 'k')) + u32(GgufKeys::u8) + "\1";
  REQUIRE_CONTAINER("has 65536 bytes, at most 65535", file.bytes());
}

TEST_CASE("Keys of a GGUF file that are empty, no text, or there twice", "[bad][gguf]") {
  REQUIRE_CONTAINER("a key is empty", with_key("", GgufKeys::u32, u32(1)));
  for (const char* key : {"\xff\xfe", "a b", "a\nb", "\u00e9"})
    REQUIRE_CONTAINER("printable ASCII", with_key(key, GgufKeys::u32, u32(1)));
  REQUIRE_CONTAINER("printable ASCII", with_key(std::string("a\0b", 3), GgufKeys::u32, u32(1)));
  GgufFile file;
  file.keys.set("a", 1U);
  file.keys.set("b", 1U);
  file.more_keys = gguf_text("a") + u32(GgufKeys::u32) + u32(2);
  file.n_more_keys = 1;
  REQUIRE_CONTAINER("the key \"a\" is there twice", file.bytes());
  // What is said of a long key is not lost beyond the end of the message.
  const std::string key(65'535, 'k');
  REQUIRE(container_error(with_key(key, 13, "")).size() < 300);
  REQUIRE(container_error(with_key(key, GgufKeys::boolean, "\7")).size() < 300);
}

TEST_CASE("Types of values that GGUF does not have, booleans that are none, arrays of arrays", "[bad][gguf]") {
  for (const std::uint32_t type : {13u, 255u, 0x80000000u, 0xffffffffu}) {
    REQUIRE_CONTAINER("key \"a\" has the type " + std::to_string(type), with_key("a", type, u64(0)));
    REQUIRE_CONTAINER("key \"a\" has the type " + std::to_string(type),
                      with_key("a", GgufKeys::array, u32(type) + u64(1)));
  }
  for (const char* value : {"\2", "\7", "\xff"}) {
    REQUIRE_CONTAINER("key \"a\" holds the boolean", with_key("a", GgufKeys::boolean, value));
    REQUIRE_CONTAINER("key \"a\" holds the boolean",
                      with_key("a", GgufKeys::array, u32(GgufKeys::boolean) + u64(2) + "\1" + value));
  }
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += u32(GgufKeys::array) + u64(1);
  REQUIRE_CONTAINER("key \"a\" is an array of arrays", with_key("a", GgufKeys::array, deep + u32(4) + u64(1) + u32(7)));
}

TEST_CASE("Arrays of a GGUF header that say that they are longer than the file", "[bad][gguf]") {
  for (const std::uint64_t n : {std::uint64_t{1} << 61, ~std::uint64_t{0}, std::uint64_t{1} << 32, std::uint64_t{1000}})
    for (const std::uint32_t type : {0u, 5u, 6u, 7u, 8u, 10u, 12u}) {
      INFO(n << " of type " << type);
      REQUIRE_CONTAINER("key \"a.b\" says that it has " + std::to_string(n),
                        with_key("a.b", GgufKeys::array, u32(type) + u64(n)));
    }
  REQUIRE_CONTAINER("\"a.b\"", with_key("a.b", GgufKeys::u64, "1234").substr(0, 44));
}

TEST_CASE("Alignments of a GGUF file", "[bad][gguf]") {
  for (const std::uint32_t alignment : {0u, 1u, 3u, 4u, 48u, 1u << 21, 1u << 31, 0xffffffffu})
    REQUIRE_CONTAINER("\"general.alignment\" is " + std::to_string(alignment) + ", expected a power of two",
                      with_alignment(GgufKeys::u32, u32(alignment)).bytes());
  REQUIRE_CONTAINER("\"general.alignment\" is i32, expected u32", with_alignment(GgufKeys::i32, u32(32)).bytes());
  REQUIRE_CONTAINER("\"general.alignment\" is u64", with_alignment(GgufKeys::u64, u64(32)).bytes());
  REQUIRE_CONTAINER("\"general.alignment\" is string", with_alignment(GgufKeys::string, gguf_text("32")).bytes());
  REQUIRE_CONTAINER("\"general.alignment\" is an array of u32",
                    with_alignment(GgufKeys::array, u32(GgufKeys::u32) + u64(1) + u32(32)).bytes());
}

TEST_CASE("Names of tensors that are empty, long, no text, or there twice", "[bad][gguf]") {
  for (const std::string& name : {std::string(), std::string("a\0b", 3), std::string("\xff"), std::string("a b")}) {
    GgufFile file = one_tensor();
    file.tensors[0].name = name;
    REQUIRE_CONTAINER("the name of tensor 0", file.bytes());
  }
  GgufFile file = one_tensor();
  file.tensors[0].name = std::string(64, 'n');
  REQUIRE_CONTAINER("ok", file.bytes());
  file.tensors[0].name += 'n';
  REQUIRE_CONTAINER("has 65 bytes, at most 64", file.bytes());
  file = tiny_gguf();
  file.tensors[3].name = file.tensors[2].name;
  const ModelDir dir;
  dir.write("model.gguf", file.bytes());
  auto opened = qinfer::formats::Gguf::open(dir.file("model.gguf"), nullptr, {});
  REQUIRE_FALSE(opened.ok());
  REQUIRE_THAT(std::string(opened.take_status().message()), contains("\"blk.0.attn_norm.weight\" is there twice"));
}

TEST_CASE("CVE-2026-33298: dimensions of a tensor that are none, or wrap around", "[bad][gguf]") {
  REQUIRE_CONTAINER("\"t\" has 0 dimensions", one_tensor({}).bytes());
  REQUIRE_CONTAINER("\"t\" has 5 dimensions", one_tensor({2, 2, 2, 2, 2}).bytes());
  REQUIRE_CONTAINER("\"t\" has a dimension of 0", one_tensor({0, 4}).bytes());
  REQUIRE_CONTAINER("\"t\" has a dimension of 0", one_tensor({4, 0}).bytes());
  GgufFile file;
  file.n_tensors = 1;
  REQUIRE_CONTAINER("\"t\" has 4294967295 dimensions",
                    file.bytes().substr(0, 24) + gguf_text("t") + u32(0xffffffff) + std::string(64, '\0'));
  const std::uint64_t k32 = std::uint64_t{1} << 32, k61 = std::uint64_t{1} << 61, k63 = std::uint64_t{1} << 63;
  for (const std::vector<std::uint64_t>& dims : std::vector<std::vector<std::uint64_t>>{
           {k63, 2}, {k32, k32}, {32, k61 + 1}, {k61 - 1}, {k32, k32, k32, k32}, {65}, {k63}, {~std::uint64_t{0}}}) {
    INFO(dims[0]);
    REQUIRE_CONTAINER("tensor \"t\"", one_tensor(dims).bytes());
    GgufFile quantised = one_tensor(dims, 8);
    REQUIRE_CONTAINER("tensor \"t\"", quantised.bytes());
  }
}

TEST_CASE("Types of tensors that GGUF does not have, has no more, or that are not read", "[bad][gguf]") {
  const std::pair<std::uint32_t, const char*> removed[] = {
      {4, "Q4_2, which llama.cpp removed: take the same model as Q4_0"},
      {31, "Q4_0_4_4, which llama.cpp removed: take the same model as Q4_0"},
      {33, "Q4_0_8_8, which llama.cpp removed: take the same model as Q4_0"},
      {38, "IQ4_NL_8_8, which llama.cpp removed: take the same model as IQ4_NL"}};
  for (const auto& [type, name] : removed)
    REQUIRE_UNSUPPORTED(fmt::format("\"t\" is {}", name), one_tensor({64}, type).bytes());
  for (const std::uint32_t type : {41u, 42u, 96u})
    REQUIRE_UNSUPPORTED(fmt::format("the type {}, which is newer than this library", type),
                        one_tensor({64}, type).bytes());
  for (const std::uint32_t type : {97u, 139u, 202u, 399u})
    REQUIRE_UNSUPPORTED(fmt::format("the type {}, which is one of ik_llama.cpp's own", type),
                        one_tensor({64}, type).bytes());
  for (const std::uint32_t type : {1000u, 9999u, 1u << 31, 0xffffffffu})
    REQUIRE_CONTAINER("\"t\" has the type " + std::to_string(type) + ", which the format does not have",
                      one_tensor({64}, type).bytes());
  const std::pair<std::uint32_t, const char*> known[] = {{9, "Q8_1"},   {10, "Q2_K"},  {16, "IQ2_XXS"}, {19, "IQ1_S"},
                                                         {21, "IQ3_S"}, {24, "I8"},    {27, "I64"},     {28, "F64"},
                                                         {29, "IQ1_M"}, {34, "TQ1_0"}, {40, "NVFP4"}};
  for (const auto& [type, name] : known)
    REQUIRE_UNSUPPORTED(fmt::format("\"t\" is {}, which is not supported; supported are F32", name),
                        one_tensor({64}, type).bytes());
}

TEST_CASE("Rows of a quantised tensor that are no whole blocks", "[bad][gguf]") {
  for (const GgufBlockType& type : gguf_block_types())
    for (const std::uint64_t extra : {std::uint64_t{1}, type.values / 2, type.values - 1}) {
      GgufFile file = one_tensor({type.values + extra, 2}, type.number);
      REQUIRE_CONTAINER(
          fmt::format("\"t\" has rows of {} values, blocks of {} have {}", type.values + extra, type.name, type.values),
          file.bytes());
    }
}

TEST_CASE("CVE-2025-53630, CVE-2026-27940, CVE-2026-7482: places of tensors", "[bad][gguf]") {
  GgufFile file = one_tensor();
  file.tensors.push_back({"u", {64}, 0, std::string(256, '\0')});
  REQUIRE_CONTAINER("ok", file.bytes());
  const std::uint64_t offsets[] = {0, 4, 224, 255, 288, 512, std::uint64_t{1} << 40, 0 - std::uint64_t{32}};
  for (const std::uint64_t offset : offsets) {
    file.tensors[1].offset = offset;
    REQUIRE_CONTAINER(fmt::format("\"u\" begins at byte {} of the data, expected 256", offset), file.bytes());
  }
  file.tensors[1].offset.reset();
  file.tensors[0].offset = 32;
  REQUIRE_CONTAINER("\"t\" begins at byte 32 of the data, expected 0", file.bytes());
  file.tensors[0].offset.reset();
  const std::string bytes = file.bytes();
  REQUIRE_CONTAINER("\"u\" ends at byte", bytes.substr(0, bytes.size() - 1));
  REQUIRE_CONTAINER("\"t\" ends at byte", bytes.substr(0, bytes.size() - 300));
  REQUIRE_CONTAINER("\"t\" takes more bytes than the file", bytes.substr(0, file.header().size()));
}

TEST_CASE("A GGUF file that is cut anywhere is refused", "[bad][gguf]") {
  const GgufFile tiny = tiny_gguf();
  const std::string file = tiny.bytes();
  GgufLoads loads;
  REQUIRE(loads.load(file) != nullptr);
  for (std::size_t n = 0; n < file.size(); n += n < tiny.header().size() ? 1 : 509) {
    INFO(n);
    if (n < tiny.header().size()) REQUIRE(container_error(file.substr(0, n)) != "ok");
    REQUIRE(loads.load(file.substr(0, n)) == nullptr);
  }
}

TEST_CASE("A GGUF header with any byte changed is refused or gives a model", "[bad][gguf]") {
  const GgufFile tiny = tiny_gguf();
  const std::size_t n = tiny.header().size();
  std::string file = tiny.bytes();
  GgufLoads loads;
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < n; ++at)
    for (const int flip : {0x01, 0x40, 0xff}) {
      INFO("byte " << at << " xor " << flip);
      const char kept = file[at];
      file[at] = static_cast<char>(kept ^ flip);
      if (loads.load(file) != nullptr) {
        ++accepted;
        if (accepted % 16 == 1) REQUIRE(loads.plan());  // which looks at the whole machine, and so is slow
      }
      file[at] = kept;
    }
  CHECK(accepted > 0);
  CHECK(accepted < n);
}

TEST_CASE("A GGUF file that only says that it is long costs nothing", "[bad][gguf]") {
  const ModelDir dir;
  const std::string path = dir.file("model.gguf");
  const auto fails = [&](const std::string& start, std::int64_t bytes, const char* text) {
    dir.write("model.gguf", start);
    REQUIRE(truncate(path.c_str(), bytes) == 0);
    qinfer_model* model = nullptr;
    REQUIRE_FAILS(QINFER_E_FORMAT, text, qinfer_model_load(nullptr, path.c_str(), nullptr, &model, &err));
  };
  // Sparse: an array of bytes, a text, and many keys.
  GgufFile file;
  file.keys.set("general.architecture", "llama");
  file.n_more_keys = 1;
  file.more_keys = gguf_text("z") + u32(GgufKeys::array) + u32(GgufKeys::u8) + u64(std::uint64_t{1} << 35);
  fails(file.header(), std::int64_t{1} << 36, "\"z\"");
  file.more_keys = gguf_text("z") + u32(GgufKeys::string) + u64(std::uint64_t{1} << 35);
  fails(file.header(), std::int64_t{1} << 36, "\"z\"");
  file.n_more_keys = 0;
  file.more_keys.clear();
  file.n_keys = 65'536;
  fails(file.header(), std::int64_t{1} << 36, "a key is empty");
}

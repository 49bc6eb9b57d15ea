// The functions of generations and of OpenAI's interface with arguments that cannot be: NULL everywhere, structs of
// impossible sizes, unknown flags and kinds. Each is an error that names the argument, and nothing is made.
#include <qinfer/qinfer.hpp>

#include "support/c_api.h"

using namespace qinfer::test;

namespace {

constexpr const char* kRequest = R"({"prompt": "a", "max_tokens": 2})";

struct Made {
  ModelDir dir{TinySpec()};
  qi::Model model = load();
  qi::KvCache cache{model};
  qi::Session session{cache};
  qinfer_openai_request* request = nullptr;
  qinfer_openai_answer* answer = nullptr;
  qinfer_generation* generation = nullptr;

  Made() {
    REQUIRE_OK(qinfer_openai_request_create(model.native(), QINFER_OPENAI_COMPLETION, kRequest, SIZE_MAX, nullptr,
                                            &request, &err));
    REQUIRE_OK(qinfer_openai_answer_create(request, nullptr, &answer, &err));
    REQUIRE_OK(qinfer_openai_generation_create(request, 0, session.native(), nullptr, &generation, &err));
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    qinfer_generation_free(generation);
    qinfer_openai_answer_free(answer);
    qinfer_openai_request_free(request);
  }

 private:
  qi::Model load() {
    dir.write("tokenizer.json", tiny_tokenizer());
    return qi::Model::load(dir.path());
  }
};

}  // namespace

TEST_CASE("generations: arguments that are NULL or cannot be", "[api][bad]") {
  Made made;
  qinfer_generation* out = nullptr;
  auto info = qi::options<qinfer_token_info>();
  auto result = qi::options<qinfer_generate_result>();
  auto options = qi::options<qinfer_generate_options>();
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "session is NULL", qinfer_generation_create(nullptr, nullptr, &out, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_generation_create(nullptr, nullptr, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "generation is NULL", qinfer_generation_next(nullptr, &info, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_generation_next(made.generation, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "generation is NULL", qinfer_generation_finish(nullptr, &info, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_generation_finish(made.generation, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "generation is NULL",
                qinfer_generation_take_back(nullptr, 0, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "generation is NULL", qinfer_generation_get_result(nullptr, &result, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_generation_get_result(made.generation, nullptr, &err));
  info.struct_size = 2;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "struct_size is 2", qinfer_generation_next(made.generation, &info, &err));
  qi::Session fresh(made.cache);
  REQUIRE_FAILS(QINFER_E_STATE, "the session is empty", qinfer_generation_create(fresh.native(), &options, &out, &err));
  options.flags = 2;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "unknown bits", qinfer_generation_create(fresh.native(), &options, &out, &err));
  CHECK(out == nullptr);
  qinfer_generation_free(nullptr);
}

TEST_CASE("OpenAI's interface: arguments that are NULL or cannot be", "[api][bad]") {
  Made made;
  qinfer_openai_request* request = nullptr;
  const auto create = [&](const char* json, std::size_t len, const qinfer_openai_options* options, std::int32_t kind,
                          const char* says, qinfer_status status) {
    REQUIRE_FAILS(status, says,
                  qinfer_openai_request_create(made.model.native(), kind, json, len, options, &request, &err));
  };
  create(nullptr, 3, nullptr, QINFER_OPENAI_CHAT, "json is NULL", QINFER_E_INVALID_ARGUMENT);
  create(kRequest, SIZE_MAX, nullptr, 0, "kind is 0", QINFER_E_INVALID_ARGUMENT);
  create("\xff", 1, nullptr, QINFER_OPENAI_CHAT, "request", QINFER_E_FORMAT);
  create("", 0, nullptr, QINFER_OPENAI_CHAT, "request", QINFER_E_FORMAT);
  create(R"({"messages": [{"role": "user", "content": "a"}]})", SIZE_MAX, nullptr, QINFER_OPENAI_CHAT,
         "no chat template", QINFER_E_NOT_FOUND);
  const std::string deep(70, '[');
  create(deep.data(), deep.size(), nullptr, QINFER_OPENAI_CHAT, "nested deeper than 64", QINFER_E_FORMAT);
  auto options = qi::options<qinfer_openai_options>();
  options.flags = 1;
  create(kRequest, SIZE_MAX, &options, QINFER_OPENAI_COMPLETION, "unknown bits", QINFER_E_UNSUPPORTED);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "model is NULL",
                qinfer_openai_request_create(nullptr, 1, kRequest, SIZE_MAX, nullptr, &request, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL",
                qinfer_openai_request_create(made.model.native(), 1, kRequest, SIZE_MAX, nullptr, nullptr, &err));
  CHECK(request == nullptr);

  auto info = qi::options<qinfer_openai_info>();
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "request is NULL", qinfer_openai_request_get_info(nullptr, &info, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL", qinfer_openai_request_get_info(made.request, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "request is NULL",
                qinfer_openai_request_tokens(nullptr, 0, nullptr, 0, &n, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "prompt is 1",
                qinfer_openai_request_tokens(made.request, 1, nullptr, 0, &n, &err));
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "", qinfer_openai_request_tokens(made.request, 0, nullptr, 0, &n, &err));
  CHECK(n == made.model.tokenize("a", QINFER_TEXT_ADD_SPECIAL).size());

  qinfer_generation* generation = nullptr;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "request is NULL",
                qinfer_openai_generation_create(nullptr, 0, nullptr, nullptr, &generation, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "session is NULL",
                qinfer_openai_generation_create(made.request, 0, nullptr, nullptr, &generation, &err));
  Made other;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "another model",
                qinfer_openai_generation_create(made.request, 0, other.session.native(), nullptr, &generation, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "request is NULL",
                qinfer_openai_generation_resume(nullptr, 0, nullptr, nullptr, &generation, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "session is NULL",
                qinfer_openai_generation_resume(made.request, 0, nullptr, nullptr, &generation, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "another model",
                qinfer_openai_generation_resume(made.request, 0, other.session.native(), nullptr, &generation, &err));
  CHECK(generation == nullptr);

  qinfer_openai_answer* answer = nullptr;
  auto head = qi::options<qinfer_openai_answer_options>();
  head.id = "\xff";
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "id is not valid UTF-8",
                qinfer_openai_answer_create(made.request, &head, &answer, &err));
  CHECK(answer == nullptr);
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "request is NULL",
                qinfer_openai_answer_create(nullptr, nullptr, &answer, &err));
  std::int32_t ended = 0;
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "answer is NULL",
                qinfer_openai_answer_begin(nullptr, 0, made.generation, &ended, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "generation is NULL",
                qinfer_openai_answer_add(made.answer, 0, nullptr, &ended, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "not of choice 0",
                qinfer_openai_answer_add(made.answer, 0, other.generation, &ended, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "asks for no embeddings",
                qinfer_openai_answer_embed(made.answer, 0, other.session.native(), 0, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "error is NULL", qinfer_openai_answer_fail(made.answer, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out_n is NULL",
                qinfer_openai_answer_bytes(made.answer, nullptr, 0, nullptr, nullptr, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "error is NULL", qinfer_openai_error_json(nullptr, nullptr, 0, &n, &err));
}

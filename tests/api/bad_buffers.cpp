// Output arrays that are too small and text that is not UTF-8: the C ABI says how much is needed, where the text is
// bad, and changes nothing.
#include "support/c_api.h"

using namespace qinfer::test;

namespace {

struct Stack {
  ModelDir dir{TinySpec()};
  Runtime runtime = make_runtime(1);
  Model model = load_model(runtime, dir.path());
  Cache cache = make_cache(model);
  Session session = make_session(cache);
};

}  // namespace

TEST_CASE("Output buffers that are too small (GHSA-7rxv-5jhh-j6xx: signed and unsigned token counts)", "[bad]") {
  const Stack s;
  std::size_t n = 0;
  constexpr std::string_view kText = "the thing";
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 4, "4 elements",
                   qinfer_tokenize(s.model.get(), kText.data(), kText.size(), 0, nullptr, 0, &n, &err));
  REQUIRE(n == 4);
  std::vector<qinfer_token> tokens(4, -7);
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 4, "room for 3",
                   qinfer_tokenize(s.model.get(), kText.data(), kText.size(), 0, tokens.data(), 3, &n, &err));
  REQUIRE(tokens == std::vector<qinfer_token>(4, -7));
  REQUIRE_FAILS(QINFER_E_BUFFER_TOO_SMALL, "room for 0",
                qinfer_tokenize(s.model.get(), kText.data(), kText.size(), 0, nullptr, SIZE_MAX, &n, &err));
  REQUIRE_OK(qinfer_tokenize(s.model.get(), kText.data(), SIZE_MAX, 0, tokens.data(), 4, &n, &err));
  REQUIRE(tokens == std::vector<qinfer_token>{257, 32, 256, 259});

  qinfer_session* one = s.session.get();
  append(s.session, tokens);
  std::vector<qinfer_token> out(4, -7);
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 4, "room for 3", qinfer_session_get_tokens(one, out.data(), 3, &n, &err));
  REQUIRE(out == std::vector<qinfer_token>(4, -7));
  REQUIRE_OK(qinfer_session_get_tokens(one, out.data(), 4, &n, &err));
  REQUIRE(out == tokens);

  eval(s.session);
  std::vector<float> row(300, -7);
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 300, "room for 299",
                   qinfer_session_copy_logits(one, 0, row.data(), 299, &n, &err));
  REQUIRE(row == std::vector<float>(300, -7));
  REQUIRE(n == 300);
  REQUIRE_OK(qinfer_session_copy_logits(one, 0, row.data(), 300, &n, &err));
  REQUIRE(row == last_logits(s.session, 300));
  for (const std::size_t back : {std::size_t{1}, SIZE_MAX}) {
    REQUIRE_FAILS(QINFER_E_STATE, "no logits", qinfer_session_copy_logits(one, back, row.data(), 300, &n, &err));
    REQUIRE(qinfer_session_logits(one, back) == nullptr);
  }

  qinfer_detok* created = nullptr;
  REQUIRE_OK(qinfer_detok_create(s.model.get(), &created, &err));
  const Detok detok(created);
  char text[8] = "???????";
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 3, "room for 2", qinfer_detok_push(detok.get(), 257, text, 2, &n, &err));
  REQUIRE(std::string(text) == "???????");
  REQUIRE_OK(qinfer_detok_push(detok.get(), 257, text, 3, &n, &err));
  REQUIRE(std::string(text, n) == "the");
  REQUIRE_OK(qinfer_detok_push(detok.get(), 0xe4, nullptr, 0, &n, &err));  // the first byte of three
  REQUIRE_FAILS_AT(QINFER_E_BUFFER_TOO_SMALL, 3, "room for 2", qinfer_detok_finish(detok.get(), text, 2, &n, &err));
  REQUIRE_OK(qinfer_detok_finish(detok.get(), text, 3, &n, &err));
  REQUIRE(std::string(text, n) == "\xEF\xBF\xBD");
  REQUIRE_OK(qinfer_detok_finish(detok.get(), nullptr, 0, &n, &err));
  REQUIRE_OK(qinfer_detok_push(detok.get(), 299, nullptr, 0, &n, &err));  // the model has it, the tokenizer does not
  REQUIRE(n == 0);
}

TEST_CASE("Text to tokenize that is not UTF-8, and unknown flags", "[bad]") {
  const Stack s;
  std::size_t n = 0;
  const std::pair<std::string, int> cases[] = {{"ab\xff", 2},       {"\x80", 0},       {"a\xc0\x80", 1},
                                               {"\xed\xa0\x80", 0}, {"ab\xe4\xbd", 2}, {"\xf4\x90\x80\x80", 0}};
  for (const auto& [text, at] : cases)
    REQUIRE_FAILS_AT(QINFER_E_INVALID_ARGUMENT, at, "not valid UTF-8 at byte " + std::to_string(at),
                     qinfer_tokenize(s.model.get(), text.data(), text.size(), 0, nullptr, 0, &n, &err));
  REQUIRE(n == 0);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "flags", qinfer_tokenize(s.model.get(), "a", 1, 8, nullptr, 0, &n, &err));
}

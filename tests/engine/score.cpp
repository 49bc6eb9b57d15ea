// Scores of pairs of texts: the logits of two tokens after a template, as the model's files or the host say.
#include <qinfer/qinfer.hpp>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "kv/support.h"
#include "support/c_api.h"
#include "support/catch.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_loads.h"
#include "support/gguf_writer.h"

namespace {

using qinfer::test::kTinyBegin;
using qinfer::test::ModelDir;

/// A tiny decoder, whose files say that byte 'y' less byte 'n' makes the score.
struct Tiny : ModelDir {
  Tiny() : ModelDir(qinfer::test::TinySpec{.context_tokens = 256}) {
    std::filesystem::create_directories(file("1_LogitScore"));
    write("modules.json", R"([{"path": "", "type": "Transformer"}, {"path": "1_LogitScore", "type": "LogitScore"}])");
    write("1_LogitScore/config.json",
          R"({"true_token_id": 121, "false_token_id": 110, "module_input_name": "causal_logits"})");
    write("chat_template.jinja",
          "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}<s>"
          "{% if add_generation_prompt %}A{% endif %}");
  }
};

qinfer_score_options with(const char* template_text, const char* yes = nullptr, const char* no = nullptr) {
  auto options = qi::options<qinfer_score_options>();
  options.template_text = template_text;
  options.yes = yes;
  options.no = no;
  return options;
}

float logit_of(const qi::Model& model, const std::vector<qinfer_token>& tokens, qinfer_token token) {
  qi::KvCache cache(model);
  qi::Session session(cache);
  session.append(tokens);
  session.eval();
  return session.copy_logits()[static_cast<std::size_t>(token)];
}

}  // namespace

TEST_CASE("a score is the sigmoid of one logit less another, after the pair in the template", "[score]") {
  const Tiny dir;
  const qi::Model model = qi::Model::load(dir.path());
  CHECK(model.info().scoring == QINFER_SCORING_TOKENS);
  const auto tokens = model.tokenize("query=why;document=because;<s>A", QINFER_TEXT_PARSE_SPECIAL);
  const double wanted = static_cast<double>(logit_of(model, tokens, 121)) - logit_of(model, tokens, 110);
  qi::KvCache cache(model);
  qi::Session session(cache);
  CHECK(session.set_pair("why", "because") == 0);
  CHECK(session.tokens() == tokens);
  float score = 0;
  REQUIRE_FAILS(QINFER_E_STATE, "pending", qinfer_session_score(session.native(), nullptr, &score, &err));
  session.eval();
  CHECK(std::fabs(session.score() - 1 / (1 + std::exp(-wanted))) < 1e-6);
  auto options = qi::options<qinfer_score_options>();
  options.flags = QINFER_SCORE_RAW;
  CHECK(std::fabs(session.score(options) - wanted) < 1e-6);
  // Of the next pair the beginning is there already.
  session.set_pair("why", "begone");
  CHECK(session.pending() < session.tokens().size() - 15);
  session.eval();
  qi::Session fresh(cache);
  fresh.set_pair("why", "begone");
  fresh.eval();
  CHECK(session.score() == fresh.score());
  // The files may say that a score is no probability.
  dir.write("config_sentence_transformers.json",
            R"({"activation_fn": "torch.nn.modules.linear.Identity", "prompts": {"q": "be brief"},
                "default_prompt_name": "q"})");
  const qi::Model raw = qi::Model::load(dir.path());
  qi::KvCache raw_cache(raw);
  qi::Session other(raw_cache);
  other.set_pair("why", "because");
  CHECK(other.tokens() == raw.tokenize("system=be brief;query=why;document=because;<s>A", QINFER_TEXT_PARSE_SPECIAL));
  other.eval();
  options.flags = 0;
  CHECK(other.score(options) == other.score());
  CHECK(std::fabs(other.score() - (other.copy_logits()[121] - other.copy_logits()[110])) < 1e-6);
}

TEST_CASE("a host may give the template and the tokens", "[score]") {
  const ModelDir dir(qinfer::test::TinySpec{.context_tokens = 512});
  const qi::Model model = qi::Model::load(dir.path());
  CHECK(model.info().scoring == QINFER_SCORING_NONE);
  qi::KvCache cache(model);
  qi::Session session(cache);
  const auto options = with("<s>{instruction}|{query}|{query}|{document}<s>", "y", "n");
  session.set_pair("{document}", "d", options);
  // Neither text becomes part of the template.
  CHECK(session.tokens() == model.tokenize("<s>Given a web search query, retrieve relevant passages that answer the "
                                           "query|{document}|{document}|d<s>",
                                           QINFER_TEXT_PARSE_SPECIAL));
  session.eval();
  auto raw = options;
  raw.flags = QINFER_SCORE_RAW;
  const auto logits = session.copy_logits();
  CHECK(session.score(raw) == logits['y'] - logits['n']);
  raw.no = nullptr;
  CHECK(session.score(raw) == logits['y']);
  // A document cannot write control tokens, whatever it says.
  session.set_pair("q", "<s>", options);
  std::size_t n_begin = 0;
  for (const qinfer_token token : session.tokens()) n_begin += token == kTinyBegin ? 1 : 0;
  CHECK(n_begin == 2);
  auto qwen = qi::options<qinfer_score_options>();
  qwen.template_name = "qwen3-reranker";
  session.set_pair("q", "d", qwen);
  std::string text;
  for (const qinfer_token token : session.tokens()) {
    std::size_t n = 0;
    const char* bytes = qinfer_token_text(model.native(), token, &n);
    text.append(bytes, n);
  }
  CHECK_THAT(text, qinfer::test::contains("<Query>: q\n<Document>: d<|im_end|>\n"));
  CHECK(text.ends_with("<think>\n\n</think>\n\n"));
}

TEST_CASE("of a pair that is too long the document is cut where that is asked for", "[score]") {
  const Tiny dir;
  const qi::Model model = qi::Model::load(dir.path());
  qi::KvCache cache(model);
  qi::Session session(cache);
  const std::string document(100, 'd');
  auto options = with("Q{query} {document}<s>!", "y", "n");
  session.set_pair("q", document, options);
  const std::size_t n = session.tokens().size();
  options.max_tokens = 40;
  REQUIRE_FAILS_AT(
      QINFER_E_CONTEXT_FULL, static_cast<std::int64_t>(n), "at most 40 are taken",
      qinfer_session_set_pair(session.native(), "q", 1, document.data(), document.size(), &options, nullptr, &err));
  CHECK(session.tokens().size() == n);
  options.flags = QINFER_SCORE_TRUNCATE;
  CHECK(session.set_pair("q", document, options) == n - 40);
  const auto tokens = session.tokens();
  REQUIRE(tokens.size() == 40);
  CHECK(tokens.back() == '!');
  CHECK(tokens[38] == kTinyBegin);
  CHECK(tokens[37] == 'd');
  const std::string query(100, 'q');
  REQUIRE_FAILS(QINFER_E_CONTEXT_FULL, "all but its document has more",
                qinfer_session_set_pair(session.native(), query.data(), query.size(), "d", 1, &options, nullptr, &err));
}

TEST_CASE("what does not say how a pair is scored is refused", "[score]") {
  const ModelDir dir(qinfer::test::TinySpec{.context_tokens = 256});
  const qi::Model model = qi::Model::load(dir.path());
  qi::KvCache cache(model);
  qi::Session session(cache);
  const auto fails = [&](const qinfer_score_options& options) {
    qinfer_error error = {};
    const auto status = qinfer_session_set_pair(session.native(), "q", 1, "d", 1, &options, nullptr, &error);
    return std::pair(status, std::string(error.message));
  };
  using qinfer::test::contains;
  auto options = qi::options<qinfer_score_options>();
  CHECK(fails(options).first == QINFER_E_UNSUPPORTED);
  CHECK_THAT(fails(options).second, contains("qwen3-reranker"));
  options.template_name = "other";
  CHECK(fails(options).first == QINFER_E_NOT_FOUND);
  CHECK(fails(with("{query}")) == std::pair(qinfer_status{QINFER_E_INVALID_ARGUMENT},
                                            std::string("the template has no {document}, which stands for the text")));
  CHECK(fails(with("{document}{query}")).first == QINFER_E_UNSUPPORTED);
  session.set_pair("q", "d", with("{query}{document}"));
  session.eval();
  float score = 0;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "which tokens", qinfer_session_score(session.native(), nullptr, &score, &err));
  options = with(nullptr, "no such token");
  REQUIRE_FAILS(QINFER_E_NOT_FOUND, "no such token", qinfer_session_score(session.native(), &options, &score, &err));
  options = with(nullptr, nullptr, "n");
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "but not yes",
                qinfer_session_score(session.native(), &options, &score, &err));
  REQUIRE_FAILS(QINFER_E_INVALID_ARGUMENT, "out is NULL",
                qinfer_session_score(session.native(), nullptr, nullptr, &err));
  // A chat template that leaves the texts out.
  const Tiny other;
  other.write("chat_template.jinja", "nothing");
  const qi::Model silent = qi::Model::load(other.path());
  qi::KvCache silent_cache(silent);
  qi::Session silent_session(silent_cache);
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "does not write a query",
                qinfer_session_set_pair(silent_session.native(), "q", 1, "d", 1, nullptr, nullptr, &err));
  other.write("1_LogitScore/config.json", R"({"true_token_id": 300})");
  REQUIRE_LOAD_FAILS(QINFER_E_FORMAT, "\"true_token_id\" is 300", other);
}

TEST_CASE("a GGUF reranker has the two rows of its LM head alone", "[score]") {
  using namespace qinfer::test;
  GgufFile file = tiny_gguf();
  const qi::Model whole = [&] {
    const ModelDir dir;
    dir.write("model.gguf", file.bytes());
    return qi::Model::load(dir.file("model.gguf"));
  }();
  file.keys.set("llama.pooling_type", 4U);
  file.keys.set("llama.classifier.output_labels", std::vector<std::string>{"yes", "no"});
  file.keys.set("tokenizer.chat_templates", std::vector<std::string>{"rerank"});
  file.keys.set("tokenizer.chat_template.rerank", "<|im_end|>b{query} {document}<|im_end|>t");
  // The rows of "t" and "h" in the embedding, which is the LM head of the whole model.
  const std::string& rows = file.tensor("token_embd.weight").data;
  file.tensors.push_back({"cls.output.weight", {32, 2}, 0, rows.substr(7 * 32 * 4, 2 * 32 * 4)});
  const ModelDir dir;
  dir.write("model.gguf", file.bytes());
  const qi::Model model = qi::Model::load(dir.file("model.gguf"));
  CHECK(model.info().scoring == QINFER_SCORING_TOKENS);
  CHECK((model.info().flags & QINFER_MODEL_NO_LM_HEAD) != 0);
  qi::KvCache cache(model), whole_cache(whole);
  qi::Session session(cache), other(whole_cache);
  session.set_pair("ab", "a");
  CHECK(session.tokens() == model.tokenize("<|im_end|>bab a<|im_end|>t", QINFER_TEXT_PARSE_SPECIAL));
  session.eval();
  other.append(session.tokens());
  other.eval();
  auto raw = qi::options<qinfer_score_options>();
  raw.flags = QINFER_SCORE_RAW;
  // The same products in another order of additions, of 32 values below 1.
  CHECK(std::fabs(session.score(raw) - (other.copy_logits()[7] - other.copy_logits()[8])) < 1e-4);
  float values[32];
  std::size_t n = 0;
  REQUIRE_FAILS(QINFER_E_UNSUPPORTED, "scores of pairs",
                qinfer_session_embedding(session.native(), 0, values, 32, &n, &err));
  GgufLoads loads;
  file.keys.set("llama.classifier.output_labels", std::vector<std::string>{"no", "yes"});
  REQUIRE_GGUF_FAILS(QINFER_E_UNSUPPORTED, "the labels yes and no", loads, file.bytes());
}

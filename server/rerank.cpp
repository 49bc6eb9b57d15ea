// rerank.cpp: see rerank.h. Pairs are evaluated between the steps of what draws tokens: a decoder's one by one, in a
// session that keeps what pairs have in common and has room reserved for the longest, an encoder's some at a time.
#include "rerank.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "engine.h"
#include "room.h"
#include "server/dialects/json_input.h"

namespace server {
namespace {

constexpr std::size_t kMostDocuments = 2048, kSessions = 8, kMostTokens = 2048;

/// Of each pair of a request together: each pair is tokenised.
constexpr std::uint64_t kMostBytes = 256 << 20;

struct Pair {
  std::string_view query;
  std::string document;
};

struct Scores {
  std::vector<float> values;
  std::uint64_t tokens = 0;
};

/// Options of a request, and what they point to.
struct Options {
  std::optional<std::string> instruction;
  qinfer_score_options native = qi::options<qinfer_score_options>();
};

void read_options(const Scorer& scorer, Fields& fields, Options& options) {
  fields.pass_over({"model", "user"});
  options.instruction = fields.text("instruction");
  if (!scorer.template_name.empty()) options.native.template_name = scorer.template_name.c_str();
  if (options.instruction) options.native.instruction = options.instruction->c_str();
  const auto most = fields.integer("truncate_prompt_tokens", -1, UINT32_MAX);
  if (!most) return;
  options.native.flags = QINFER_SCORE_TRUNCATE;
  options.native.max_tokens = *most <= 0 ? 0 : static_cast<std::uint32_t>(*most);
}

qi::Session session_of(const Scorer& scorer, std::uint32_t most) {
  auto options = qi::options<qinfer_session_options>();
  options.max_tokens = most;
  return qi::Session(scorer.engine.cache(), options);
}

/// Of an encoder, which keeps nothing. A group of sessions takes the next pairs as long as these have few tokens
/// together.
void score_together(const Scorer& scorer, const std::vector<Pair>& pairs, const Options& options,
                    const HasLeft& has_left, Scores& out) {
  std::vector<qi::Session> sessions;
  for (std::size_t i = 0; i < std::min(kSessions, pairs.size()); ++i)
    sessions.push_back(session_of(scorer, scorer.engine.model().info().embedding_tokens));
  while (out.values.size() < pairs.size()) {
    if (has_left()) throw refusal(503, "server_error", "The client has left");
    std::vector<qi::Session*> group;
    bool is_pending = false;
    for (std::size_t tokens = 0; group.size() < sessions.size() && tokens < kMostTokens;) {
      const std::size_t next = out.values.size() + group.size();
      if (next == pairs.size()) break;
      qi::Session& session = sessions[group.size()];
      session.set_pair(pairs[next].query, pairs[next].document, options.native);
      tokens += session.length();
      is_pending = is_pending || session.pending() != 0;
      group.push_back(&session);
    }
    if (is_pending) qi::eval(group);
    for (const qi::Session* session : group) {
      out.values.push_back(session->score(options.native));
      out.tokens += session->length();
    }
  }
}

/// The tokens of the longest pair, which all can be tokenised then.
std::uint32_t longest_of(const Scorer& scorer, const std::vector<Pair>& pairs, const Options& options,
                         const HasLeft& has_left) {
  qi::Session session = session_of(scorer, scorer.engine.model().info().embedding_tokens);
  std::size_t longest = 1;
  for (const Pair& pair : pairs) {
    if (has_left()) throw refusal(503, "server_error", "The client has left");
    session.set_pair(pair.query, pair.document, options.native);
    longest = std::max(longest, session.length());
  }
  return static_cast<std::uint32_t>(longest);
}

/// In one session, whose blocks wait their turn among the requests.
void score_in_turn(const Scorer& scorer, const std::vector<Pair>& pairs, const Options& options,
                   const HasLeft& has_left, Scores& out) {
  const std::uint32_t longest = longest_of(scorer, pairs, options, has_left);
  qi::Session session = session_of(scorer, longest);
  const std::shared_ptr<Room> room = Room::ask(scorer.engine, session, longest);
  const InRoom in_room(room);
  if (!room->wait(has_left)) throw refusal(503, "server_error", "The request was cancelled");
  for (const Pair& pair : pairs) {
    if (has_left()) throw refusal(503, "server_error", "The client has left");
    session.set_pair(pair.query, pair.document, options.native);
    if (session.pending() != 0) session.eval();
    out.values.push_back(session.score(options.native));
    out.tokens += session.length();
  }
}

Scores score_all(const Scorer& scorer, const std::vector<Pair>& pairs, const Options& options,
                 const HasLeft& has_left) try {
  std::uint64_t bytes = 0;
  for (const Pair& pair : pairs) bytes += pair.query.size() + pair.document.size();
  if (bytes > kMostBytes)
    refuse_request("The pairs have " + std::to_string(bytes) + " bytes together, at most " +
                   std::to_string(kMostBytes) + " are taken");
  Scores out;
  const bool is_encoder = (scorer.engine.model().info().flags & QINFER_MODEL_ENCODER) != 0;
  (is_encoder ? score_together : score_in_turn)(scorer, pairs, options, has_left, out);
  return out;
} catch (const qi::Error& error) {
  if (error.status() == QINFER_E_NOT_FOUND) throw refusal(400, "invalid_request_error", error.what());
  if (error.status() == QINFER_E_KV_FULL)  // it would never fit
    throw refusal(400, "invalid_request_error", error.what(), "context_length_exceeded");
  Refusal told = refusal_of(error);
  if (error.status() == QINFER_E_NO_MEMORY) told.status = 429;
  throw told;
}

Json usage_of(const Scores& scores) { return {{"prompt_tokens", scores.tokens}, {"total_tokens", scores.tokens}}; }

std::string new_id(const char* kind) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string id = std::string(kind) + "-";
  for (int i = 0; i < 3; ++i)
    for (std::uint32_t word = random(), n = 0; n < 8; ++n, word >>= 4) id += kDigits[word & 15];
  return id;
}

Response answer(const Json& json) { return {200, "application/json", text_of(json)}; }

/// A text, or an object with one.
std::string document_of(const Json& document, std::size_t i) {
  const std::string name = "documents[" + std::to_string(i) + "]";
  if (document.is_string()) return document.get<std::string>();
  if (!document.is_object()) refuse_value(name, document, "a text, or an object with \"text\"");
  return Fields(document, name).need_text("text");
}

/// A text, or a list of texts.
std::vector<std::string> texts_of(Fields& fields, const char* key) {
  constexpr const char* kForms = "a text, or a list of texts";
  const Json& given = fields.need(key, kForms);
  if (given.is_string()) return {given.get<std::string>()};
  if (!given.is_array() || given.empty() || given.size() > kMostDocuments) refuse_value(key, given, kForms);
  std::vector<std::string> texts;
  for (const Json& text : given) {
    if (!text.is_string()) refuse_value(key, text, kForms);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

Response rerank(const Scorer& scorer, const std::string& body, const HasLeft& has_left) {
  const Json asked = read_object(body);
  Fields fields(asked, "");
  Options options;
  read_options(scorer, fields, options);
  const std::string query = fields.need_text("query");
  const Json& documents = fields.need("documents", "a list of texts");
  if (!documents.is_array() || documents.empty() || documents.size() > kMostDocuments)
    refuse_value("documents", documents, "a list of 1 to " + std::to_string(kMostDocuments) + " texts");
  std::vector<Pair> pairs;
  for (const Json& document : documents) pairs.push_back({query, document_of(document, pairs.size())});
  const auto top_n = fields.integer("top_n", 1, INT64_MAX);
  const bool gives_documents = fields.boolean("return_documents").value_or(false);
  fields.check_all_known();
  const Scores scores = score_all(scorer, pairs, options, has_left);
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores.values[a] > scores.values[b]; });
  if (top_n) order.resize(std::min<std::size_t>(order.size(), static_cast<std::size_t>(*top_n)));
  Json results = Json::array();
  for (const std::size_t i : order) {
    Json result = {{"index", i}, {"relevance_score", scores.values[i]}};
    if (gives_documents) result["document"] = Json{{"text", pairs[i].document}};
    results.push_back(std::move(result));
  }
  return answer({{"id", new_id("rerank")},
                 {"object", "list"},
                 {"model", scorer.engine.name()},
                 {"results", std::move(results)},
                 {"usage", usage_of(scores)}});
}

Response score(const Scorer& scorer, const std::string& body, const HasLeft& has_left) {
  const Json asked = read_object(body);
  Fields fields(asked, "");
  Options options;
  read_options(scorer, fields, options);
  const std::vector<std::string> first = texts_of(fields, "text_1");
  std::vector<std::string> second = texts_of(fields, "text_2");
  fields.check_all_known();
  if (first.size() != 1 && first.size() != second.size())
    refuse_request("\"text_1\" has " + std::to_string(first.size()) + " texts and \"text_2\" " +
                   std::to_string(second.size()) + ", expected one, or as many");
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < second.size(); ++i)
    pairs.push_back({first[first.size() == 1 ? 0 : i], std::move(second[i])});
  const Scores scores = score_all(scorer, pairs, options, has_left);
  Json data = Json::array();
  for (std::size_t i = 0; i < pairs.size(); ++i)
    data.push_back(Json{{"index", i}, {"object", "score"}, {"score", scores.values[i]}});
  return answer({{"id", new_id("score")},
                 {"object", "list"},
                 {"model", scorer.engine.name()},
                 {"data", std::move(data)},
                 {"usage", usage_of(scores)}});
}

}  // namespace server

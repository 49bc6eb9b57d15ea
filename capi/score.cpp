// Scores of pairs of texts.
#include <qinfer/qinfer.h>

#include "engine/score.h"
#include "support.h"

using namespace qinfer;
using capi::guard;
using capi::usable;

namespace {

Result<engine::ScoreOptions> score_options(const qinfer_score_options* caller) {
  qinfer_score_options o;
  QINFER_TRY(capi::copy_in(caller, o, "qinfer_score_options"));
  QINFER_TRY(capi::unknown_flags(o.flags, QINFER_SCORE_TRUNCATE | QINFER_SCORE_RAW, "qinfer_score_options.flags"));
  if (o.template_name != nullptr && o.template_text != nullptr)
    return error(Code::invalid_argument, "both template_name and template_text are given, expected one of them");
  if (o.yes == nullptr && o.no != nullptr)
    return error(Code::invalid_argument, "no is given, but not yes, whose logit makes the score");
  engine::ScoreOptions out;
  if (o.template_name != nullptr) out.template_name = o.template_name;
  if (o.template_text != nullptr) out.template_text = o.template_text;
  if (o.instruction != nullptr) out.instruction = o.instruction;
  if (o.yes != nullptr) out.yes = o.yes;
  if (o.no != nullptr) out.no = o.no;
  out.truncate = (o.flags & QINFER_SCORE_TRUNCATE) != 0;
  out.raw = (o.flags & QINFER_SCORE_RAW) != 0;
  out.max_tokens = o.max_tokens;
  out.cancel = capi::flag_of(o.cancel);
  return out;
}

}  // namespace

extern "C" {

qinfer_status qinfer_session_set_pair(qinfer_session* session, const char* query, size_t query_len,
                                      const char* document, size_t document_len, const qinfer_score_options* options,
                                      uint64_t* out_cut, qinfer_error* err) {
  return guard(err, [&]() -> Status {
    if (out_cut != nullptr) *out_cut = 0;
    const capi::Exclusive exclusive(session);
    QINFER_ASSIGN(engine::Session * impl, usable(session, exclusive));
    QINFER_ASSIGN(const engine::ScoreOptions parsed, score_options(options));
    QINFER_ASSIGN(const std::string_view first, capi::text_argument(query, query_len, "query"));
    QINFER_ASSIGN(const std::string_view second, capi::text_argument(document, document_len, "document"));
    QINFER_ASSIGN(const std::uint64_t n_cut, engine::set_pair(*impl, first, second, parsed));
    if (out_cut != nullptr) *out_cut = n_cut;
    return Status();
  });
}

qinfer_status qinfer_session_score(const qinfer_session* session, const qinfer_score_options* options, float* out,
                                   qinfer_error* err) {
  return guard(err, [&]() -> Status {
    QINFER_REQUIRE(out);
    QINFER_ASSIGN(const engine::Session* impl, usable(session));
    QINFER_ASSIGN(const engine::ScoreOptions parsed, score_options(options));
    QINFER_ASSIGN(*out, engine::score_of(*impl, parsed));
    return Status();
  });
}

}  // extern "C"

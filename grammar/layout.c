/* layout.c - the structs of qinfer_grammar.h have the layout that the Rust side (grammar/src) declares for them. */
#include <qinfer/qinfer_grammar.h>

#define SAME(type, bytes) typedef char type##_has_##bytes##_bytes[sizeof(type) == (bytes) ? 1 : -1]

SAME(qinfer_grammar_vocab_options, 56);
SAME(qinfer_grammar_options, 48);
SAME(qinfer_grammar_info, 16);
SAME(qinfer_grammar_matcher_info, 16);
SAME(qinfer_logits_hook, 56);
SAME(qinfer_error, 256);
SAME(qinfer_full_error, 288);

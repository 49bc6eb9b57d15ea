/* clang-format off */
/*
 * qinfer_grammar.h - JSON schemas, regular expressions and Lark grammars for the logits hook of qinfer.h: the text that
 * a session draws fulfils the grammar, token by token, in qinfer_session_sample and qinfer_generate, alone and in
 * batches.
 *
 * It is a separate library, libqinfer_grammar (link with qinfer-grammar of pkg-config, or qinfer::grammar of CMake), so
 * that libqinfer does not depend on it. The rules at the top of qinfer.h hold here too, with the exceptions below. The
 * engine is llguidance, which is written in Rust:
 *
 * Process    A panic becomes QINFER_E_INTERNAL with its text, and nothing is printed: the panic hook belongs to the
 *            copy of Rust's runtime inside this library, so other Rust code of the process keeps its own. When the heap
 *            is exhausted Rust aborts the process, which nothing here can prevent: the limits below bound the memory of
 *            a grammar. A host for which that is not enough compiles grammars in a separate process. Rust's runtime
 *            reads the environment variables RUST_BACKTRACE and RUST_LIB_BACKTRACE. Do not dlclose() this library.
 * Memory     comes from the C heap, is not in any plan, and grows while masks are computed: a matcher keeps the states
 *            that it has seen, at most max_states of them.
 * Stack      Grammars are compiled and vocabularies made on a separate thread, which ends before the call does, with 16
 *            MiB of stack and 1 KiB for each byte of the text. The calling thread needs 64 KiB, as everywhere.
 * Threads    A vocabulary and a grammar may be used by many threads at once. A matcher locks itself. While it
 *            computes a mask or accepts a token a second thread sleeps, which stops a grammar that takes too long
 *            (mask_work) and ends by itself. Where the system starts no thread the call is QINFER_E_NO_MEMORY.
 */
#ifndef QINFER_GRAMMAR_H
#define QINFER_GRAMMAR_H

#include <qinfer/qinfer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qinfer_grammar_vocab   qinfer_grammar_vocab;   /* the tokens of a model as a trie; made once per model */
typedef struct qinfer_grammar         qinfer_grammar;         /* a compiled text; immutable */
typedef struct qinfer_grammar_matcher qinfer_grammar_matcher; /* where one text stands in a grammar */

/** As QINFER_VERSION, of the library that runs. */
QINFER_API uint32_t qinfer_grammar_version(void);

/* ---- Vocabulary --------------------------------------------------------------------------------------- */
/** The tokens, given in one of two ways: by qinfer_token_text and qinfer_token_flags of a model (or functions like
 *  them), or by arrays. A token without text, with more than 1000 bytes or with a byte 0xFF is never drawn. Nor is a
 *  control token (QINFER_TOKEN_CONTROL), except what a Lark grammar names as <|name|> or by its number; one whose text
 *  is like "[123]" or the beginning of that is never drawn. End tokens (QINFER_TOKEN_END) come where the grammar is
 *  complete and nowhere else: a Lark grammar that names one is QINFER_E_UNSUPPORTED. */
typedef struct qinfer_grammar_vocab_options {
    uint32_t             struct_size;
    uint32_t             n_tokens;     /* n_vocab of the model: one for each logit */
    const qinfer_model  *model;        /* passed to the functions; used during the call alone */
    const char        *(*token_text)(const qinfer_model *model, qinfer_token token, size_t *out_n);
    uint32_t           (*token_flags)(const qinfer_model *model, qinfer_token token); /* NULL: the array */
    const char *const   *texts;        /* n_tokens; without token_text */
    const size_t        *text_lens;    /* n_tokens; without token_text */
    const uint32_t      *flags;        /* n_tokens of QINFER_TOKEN_*; NULL: no token has any */
} qinfer_grammar_vocab_options;
/** Takes some 0.3 s and 60 MiB for 150,000 tokens. Without an end token a complete text cannot be ended by the model:
 *  masks are QINFER_E_STATE then. */
QINFER_STATUS qinfer_grammar_vocab_create(const qinfer_grammar_vocab_options *options, qinfer_grammar_vocab **out,
                                          qinfer_error *err);
QINFER_API void qinfer_grammar_vocab_free(qinfer_grammar_vocab *vocab);

/* ---- Grammars ----------------------------------------------------------------------------------------- */
enum {
    QINFER_GRAMMAR_JSON_SCHEMA = 1, /* draft 2020-12: the text is one document that fulfils it */
    QINFER_GRAMMAR_REGEX       = 2, /* in the syntax of Rust's regex crate; the whole text matches */
    QINFER_GRAMMAR_LARK        = 3  /* as llguidance reads Lark: a rule "start", rules in small letters, terminals in
                                       capitals */
};
enum {
    /** Of a JSON schema: any JSON white space between the parts of a document, as often as the model likes. Without it
     *  there is nothing, one or two blanks, or the end of a line and up to 40 blanks: a model that has begun to write
     *  white space cannot go on without end. */
    QINFER_GRAMMAR_ANY_SPACE = 1
};
/** Limits, against texts that come from strangers. 0 is the default. */
typedef struct qinfer_grammar_options {
    uint32_t struct_size;
    uint32_t flags;            /* QINFER_GRAMMAR_ANY_SPACE */
    uint64_t max_source_bytes; /* of the text; default 256 KiB, at most 1 MiB */
    uint32_t max_depth;        /* of brackets in the text; default 64, at most 120 */
    uint32_t max_states;       /* of the lexer; default 50,000, at most 10,000,000 */
    uint32_t max_symbols;      /* of the compiled grammar; default 200,000, at most 10,000,000 */
    uint32_t max_row_items;    /* of the parser, at one place of the text; default 2,000, at most 1,000,000. A grammar
                                  that has more wherever one of its rules begins is refused; a text that comes to more
                                  cannot go on */
    uint64_t compile_work;     /* steps of the regular expressions' compiler; default 1,000,000, at most 10^9 */
    uint64_t mask_work;        /* the same for one mask; default 200,000, at most 10^8. Also 5 us of CPU time for each,
                                  and 100 ms at least, for one mask or one token that is accepted */
} qinfer_grammar_options;

/** Compiles a text (text, len), which may be used by any number of matchers.
 *  QINFER_E_FORMAT: not JSON, no regular expression, no Lark grammar; detail: byte offset, where it is known.
 *  QINFER_E_INVALID_ARGUMENT: not UTF-8 or with a NUL (detail: its offset), or a schema that nothing fulfils.
 *  QINFER_E_UNSUPPORTED: something that a grammar cannot enforce or draw, or a limit; the message names the keyword and
 *  its place.
 *
 *  Of JSON schema: whatever text is drawn and ends is a document that fulfils the schema. Not every document that does
 *  can be drawn:
 *  - Properties come in the order of the schema. White space is bounded (QINFER_GRAMMAR_ANY_SPACE).
 *  - Characters stand for themselves or are escaped by one letter, never as \u0061: control characters that have no
 *    such letter do not occur, nor values that hold one.
 *  - Whole numbers are written without a fraction, numbers with bounds or multipleOf without an exponent; what is not
 *    "integer" is no number at all.
 *  - The elements that "contains" asks for come first, or after those of prefixItems. minProperties 1 together with
 *    properties asks for one of these properties.
 *  - In a schema with unevaluatedProperties or unevaluatedItems and an anyOf of more than three schemas, one of those
 *    schemas alone counts as fulfilled.
 *  - format date, date-time, duration, email, hostname, ipv4, ipv6, time, uri and uuid are enforced, others ignored.
 *  Each of the last three (of the formats, those ignored) that a schema makes use of counts as a warning (n_warnings).
 *
 *  Refused are:
 *  - references to other documents;
 *  - uniqueItems, unless there is at most one element;
 *  - minProperties above the number of required properties plus one; maxProperties together with optional properties;
 *  - whole numbers beyond 2^53;
 *  - patternProperties that may match the same name;
 *  - pattern, multipleOf, patternProperties, additionalProperties together with properties, unevaluatedProperties and
 *    unevaluatedItems: under not, under if, and in those schemas of a oneOf that are not recognised as excluding each
 *    other. They are recognised by types, const, enum and required properties that differ, through references too: the
 *    usual "kind" of an object is enough. */
QINFER_STATUS qinfer_grammar_compile(const qinfer_grammar_vocab *vocab, int32_t kind, const char *text, size_t len,
                                     const qinfer_grammar_options *options, qinfer_grammar **out, qinfer_error *err);
typedef struct qinfer_grammar_info {
    uint32_t struct_size;
    int32_t  kind;
    uint32_t n_tokens;
    uint32_t n_warnings; /* kinds of documents that fulfil a schema and are not drawn, and what the compiler says */
} qinfer_grammar_info;
QINFER_STATUS qinfer_grammar_get_info(const qinfer_grammar *grammar, qinfer_grammar_info *out, qinfer_error *err);
QINFER_API void qinfer_grammar_free(qinfer_grammar *grammar);

/* ---- Matchers ----------------------------------------------------------------------------------------- */
/** A matcher at the beginning of the grammar. It holds the grammar, and that its vocabulary. */
QINFER_STATUS qinfer_grammar_matcher_create(const qinfer_grammar *grammar, qinfer_grammar_matcher **out,
                                            qinfer_error *err);
/** A matcher at the same place; from there on the two are independent. */
QINFER_STATUS qinfer_grammar_matcher_clone(const qinfer_grammar_matcher *matcher, qinfer_grammar_matcher **out,
                                           qinfer_error *err);
QINFER_API void qinfer_grammar_matcher_free(qinfer_grammar_matcher *matcher);

/** Fills *out, whose struct_size the caller has set, for qinfer_session_set_logits_hook. The hook holds the matcher
 *  (which may be freed at once) until the session releases the hook; if the session does not take the hook, call
 *  out->release(out->user). One matcher is for one session.
 *  Sampling      The mask bans what cannot come next, and the token drawn is accepted.
 *  Fork          The fork gets a matcher at the same place.
 *  Truncate      Tokens that are taken back are taken back here too.
 *  Save, load    A snapshot holds no hook. After loading: a new matcher, qinfer_grammar_matcher_accept with the tokens
 *                that were drawn under the grammar, and its hook.
 *  Cancel        Nothing is lost: the session has the tokens that the matcher has.
 *  Failure       The call of qinfer.h ends with QINFER_E_CANCELLED, and qinfer_grammar_matcher_error says why. */
QINFER_STATUS qinfer_grammar_matcher_hook(const qinfer_grammar_matcher *matcher, qinfer_logits_hook *out,
                                          qinfer_error *err);

/** For hosts that sample themselves: bit (t % 32) of word t / 32 is 1 if token t may come next. *out_n is
 *  (n_tokens + 31) / 32. End tokens may come where the text is complete. Every token of the
 *  mask is accepted. QINFER_E_UNSUPPORTED as qinfer_grammar_matcher_error. */
QINFER_STATUS qinfer_grammar_matcher_mask(qinfer_grammar_matcher *matcher, uint32_t *words, size_t capacity,
                                          size_t *out_n, qinfer_error *err);
/** Accepts n tokens, all or none: QINFER_E_INVALID_ARGUMENT if one cannot come next (detail: its index). A token that
 *  leads beyond a limit is accepted, and the matcher fails then: what comes after it, a mask or another token, is
 *  QINFER_E_UNSUPPORTED. */
QINFER_STATUS qinfer_grammar_matcher_accept(qinfer_grammar_matcher *matcher, const qinfer_token *tokens, size_t n,
                                            qinfer_error *err);
/** Takes back the last n tokens; more than were accepted is QINFER_E_INVALID_ARGUMENT. A matcher that has failed works
 *  again if the failure came later. */
QINFER_STATUS qinfer_grammar_matcher_rewind(qinfer_grammar_matcher *matcher, size_t n, qinfer_error *err);

enum {
    QINFER_GRAMMAR_ACCEPTING = 1, /* the text is complete; it may go on all the same */
    QINFER_GRAMMAR_ENDED     = 2, /* it cannot go on: only an end token may come */
    QINFER_GRAMMAR_FAILED    = 4  /* see qinfer_grammar_matcher_error */
};
typedef struct qinfer_grammar_matcher_info {
    uint32_t struct_size;
    uint32_t flags;    /* QINFER_GRAMMAR_ACCEPTING, _ENDED, _FAILED */
    uint64_t n_tokens; /* accepted, end tokens included */
} qinfer_grammar_matcher_info;
QINFER_STATUS qinfer_grammar_matcher_get_info(qinfer_grammar_matcher *matcher, qinfer_grammar_matcher_info *out,
                                              qinfer_error *err);
/** QINFER_OK, or the failure that ended the matcher's work: QINFER_E_UNSUPPORTED where a limit was reached or no token
 *  of the vocabulary goes on, QINFER_E_INTERNAL where the engine panicked. */
QINFER_STATUS qinfer_grammar_matcher_error(const qinfer_grammar_matcher *matcher, qinfer_error *err);

#ifdef __cplusplus
}
#endif
#endif /* QINFER_GRAMMAR_H */

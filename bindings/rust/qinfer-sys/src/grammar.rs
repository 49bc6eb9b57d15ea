//! The declarations of qinfer_grammar.h, made out of it by generate.sh. Do not edit.
#![allow(missing_docs, non_camel_case_types, rustdoc::all, clippy::all)]
use crate::bindings::*;

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_grammar_vocab {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_grammar {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_grammar_matcher {
    _unused: [u8; 0],
}
#[doc = " The tokens, given in one of two ways: by qinfer_token_text and qinfer_token_flags of a model (or functions like\n  them), or by arrays. A token without text, with more than 1000 bytes or with a byte 0xFF is never drawn. Nor is a\n  control token (QINFER_TOKEN_CONTROL), except what a Lark grammar names as <|name|> or by its number; one whose text\n  is like \"[123]\" or the beginning of that is never drawn. End tokens (QINFER_TOKEN_END) come where the grammar is\n  complete and nowhere else: a Lark grammar that names one is QINFER_E_UNSUPPORTED."]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct qinfer_grammar_vocab_options {
    pub struct_size: u32,
    pub n_tokens: u32,
    pub model: *const qinfer_model,
    pub token_text: ::core::option::Option<
        unsafe extern "C" fn(
            model: *const qinfer_model,
            token: qinfer_token,
            out_n: *mut usize,
        ) -> *const ::core::ffi::c_char,
    >,
    pub token_flags: ::core::option::Option<
        unsafe extern "C" fn(model: *const qinfer_model, token: qinfer_token) -> u32,
    >,
    pub texts: *const *const ::core::ffi::c_char,
    pub text_lens: *const usize,
    pub flags: *const u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_grammar_vocab_options"]
        [::core::mem::size_of::<qinfer_grammar_vocab_options>() - 56usize];
    ["Alignment of qinfer_grammar_vocab_options"]
        [::core::mem::align_of::<qinfer_grammar_vocab_options>() - 8usize];
    ["Offset of field: qinfer_grammar_vocab_options::struct_size"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, struct_size) - 0usize];
    ["Offset of field: qinfer_grammar_vocab_options::n_tokens"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, n_tokens) - 4usize];
    ["Offset of field: qinfer_grammar_vocab_options::model"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, model) - 8usize];
    ["Offset of field: qinfer_grammar_vocab_options::token_text"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, token_text) - 16usize];
    ["Offset of field: qinfer_grammar_vocab_options::token_flags"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, token_flags) - 24usize];
    ["Offset of field: qinfer_grammar_vocab_options::texts"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, texts) - 32usize];
    ["Offset of field: qinfer_grammar_vocab_options::text_lens"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, text_lens) - 40usize];
    ["Offset of field: qinfer_grammar_vocab_options::flags"]
        [::core::mem::offset_of!(qinfer_grammar_vocab_options, flags) - 48usize];
};
impl Default for qinfer_grammar_vocab_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const QINFER_GRAMMAR_JSON_SCHEMA: u32 = 1;
pub const QINFER_GRAMMAR_REGEX: u32 = 2;
pub const QINFER_GRAMMAR_LARK: u32 = 3;
#[doc = " Of a JSON schema: any JSON white space between the parts of a document, as often as the model likes. Without it\n  there is nothing, one or two blanks, or the end of a line and up to 40 blanks: a model that has begun to write\n  white space cannot go on without end."]
pub const QINFER_GRAMMAR_ANY_SPACE: u32 = 1;
#[doc = " Limits, against texts that come from strangers. 0 is the default."]
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_grammar_options {
    pub struct_size: u32,
    pub flags: u32,
    pub max_source_bytes: u64,
    pub max_depth: u32,
    pub max_states: u32,
    pub max_symbols: u32,
    pub max_row_items: u32,
    pub compile_work: u64,
    pub mask_work: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_grammar_options"][::core::mem::size_of::<qinfer_grammar_options>() - 48usize];
    ["Alignment of qinfer_grammar_options"]
        [::core::mem::align_of::<qinfer_grammar_options>() - 8usize];
    ["Offset of field: qinfer_grammar_options::struct_size"]
        [::core::mem::offset_of!(qinfer_grammar_options, struct_size) - 0usize];
    ["Offset of field: qinfer_grammar_options::flags"]
        [::core::mem::offset_of!(qinfer_grammar_options, flags) - 4usize];
    ["Offset of field: qinfer_grammar_options::max_source_bytes"]
        [::core::mem::offset_of!(qinfer_grammar_options, max_source_bytes) - 8usize];
    ["Offset of field: qinfer_grammar_options::max_depth"]
        [::core::mem::offset_of!(qinfer_grammar_options, max_depth) - 16usize];
    ["Offset of field: qinfer_grammar_options::max_states"]
        [::core::mem::offset_of!(qinfer_grammar_options, max_states) - 20usize];
    ["Offset of field: qinfer_grammar_options::max_symbols"]
        [::core::mem::offset_of!(qinfer_grammar_options, max_symbols) - 24usize];
    ["Offset of field: qinfer_grammar_options::max_row_items"]
        [::core::mem::offset_of!(qinfer_grammar_options, max_row_items) - 28usize];
    ["Offset of field: qinfer_grammar_options::compile_work"]
        [::core::mem::offset_of!(qinfer_grammar_options, compile_work) - 32usize];
    ["Offset of field: qinfer_grammar_options::mask_work"]
        [::core::mem::offset_of!(qinfer_grammar_options, mask_work) - 40usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_grammar_info {
    pub struct_size: u32,
    pub kind: i32,
    pub n_tokens: u32,
    pub n_warnings: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_grammar_info"][::core::mem::size_of::<qinfer_grammar_info>() - 16usize];
    ["Alignment of qinfer_grammar_info"][::core::mem::align_of::<qinfer_grammar_info>() - 4usize];
    ["Offset of field: qinfer_grammar_info::struct_size"]
        [::core::mem::offset_of!(qinfer_grammar_info, struct_size) - 0usize];
    ["Offset of field: qinfer_grammar_info::kind"]
        [::core::mem::offset_of!(qinfer_grammar_info, kind) - 4usize];
    ["Offset of field: qinfer_grammar_info::n_tokens"]
        [::core::mem::offset_of!(qinfer_grammar_info, n_tokens) - 8usize];
    ["Offset of field: qinfer_grammar_info::n_warnings"]
        [::core::mem::offset_of!(qinfer_grammar_info, n_warnings) - 12usize];
};
pub const QINFER_GRAMMAR_ACCEPTING: u32 = 1;
pub const QINFER_GRAMMAR_ENDED: u32 = 2;
pub const QINFER_GRAMMAR_FAILED: u32 = 4;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct qinfer_grammar_matcher_info {
    pub struct_size: u32,
    pub flags: u32,
    pub n_tokens: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of qinfer_grammar_matcher_info"]
        [::core::mem::size_of::<qinfer_grammar_matcher_info>() - 16usize];
    ["Alignment of qinfer_grammar_matcher_info"]
        [::core::mem::align_of::<qinfer_grammar_matcher_info>() - 8usize];
    ["Offset of field: qinfer_grammar_matcher_info::struct_size"]
        [::core::mem::offset_of!(qinfer_grammar_matcher_info, struct_size) - 0usize];
    ["Offset of field: qinfer_grammar_matcher_info::flags"]
        [::core::mem::offset_of!(qinfer_grammar_matcher_info, flags) - 4usize];
    ["Offset of field: qinfer_grammar_matcher_info::n_tokens"]
        [::core::mem::offset_of!(qinfer_grammar_matcher_info, n_tokens) - 8usize];
};
unsafe extern "C" {
    #[doc = " As QINFER_VERSION, of the library that runs."]
    pub fn qinfer_grammar_version() -> u32;
    #[doc = " Takes some 0.3 s and 60 MiB for 150,000 tokens. Without an end token a complete text cannot be ended by the model:\n  masks are QINFER_E_STATE then."]
    pub fn qinfer_grammar_vocab_create(
        options: *const qinfer_grammar_vocab_options,
        out: *mut *mut qinfer_grammar_vocab,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_grammar_vocab_free(vocab: *mut qinfer_grammar_vocab);
    #[doc = " Compiles a text (text, len), which may be used by any number of matchers.\n  QINFER_E_FORMAT: not JSON, no regular expression, no Lark grammar; detail: byte offset, where it is known.\n  QINFER_E_INVALID_ARGUMENT: not UTF-8 or with a NUL (detail: its offset), or a schema that nothing fulfils.\n  QINFER_E_UNSUPPORTED: something that a grammar cannot enforce or draw, or a limit; the message names the keyword and\n  its place.\n\n  Of JSON schema: whatever text is drawn and ends is a document that fulfils the schema. Not every document that does\n  can be drawn:\n  - Properties come in the order of the schema. White space is bounded (QINFER_GRAMMAR_ANY_SPACE).\n  - Characters stand for themselves or are escaped by one letter, never as \\u0061: control characters that have no\n    such letter do not occur, nor values that hold one.\n  - Whole numbers are written without a fraction, numbers with bounds or multipleOf without an exponent; what is not\n    \"integer\" is no number at all.\n  - The elements that \"contains\" asks for come first, or after those of prefixItems. minProperties 1 together with\n    properties asks for one of these properties.\n  - In a schema with unevaluatedProperties or unevaluatedItems and an anyOf of more than three schemas, one of those\n    schemas alone counts as fulfilled.\n  - format date, date-time, duration, email, hostname, ipv4, ipv6, time, uri and uuid are enforced, others ignored.\n  Each of the last three (of the formats, those ignored) that a schema makes use of counts as a warning (n_warnings).\n\n  Refused are:\n  - references to other documents;\n  - uniqueItems, unless there is at most one element;\n  - minProperties above the number of required properties plus one; maxProperties together with optional properties;\n  - whole numbers beyond 2^53;\n  - patternProperties that may match the same name;\n  - pattern, multipleOf, patternProperties, additionalProperties together with properties, unevaluatedProperties and\n    unevaluatedItems: under not, under if, and in those schemas of a oneOf that are not recognised as excluding each\n    other. They are recognised by types, const, enum and required properties that differ, through references too: the\n    usual \"kind\" of an object is enough."]
    pub fn qinfer_grammar_compile(
        vocab: *const qinfer_grammar_vocab,
        kind: i32,
        text: *const ::core::ffi::c_char,
        len: usize,
        options: *const qinfer_grammar_options,
        out: *mut *mut qinfer_grammar,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_grammar_get_info(
        grammar: *const qinfer_grammar,
        out: *mut qinfer_grammar_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_grammar_free(grammar: *mut qinfer_grammar);
    #[doc = " A matcher at the beginning of the grammar. It holds the grammar, and that its vocabulary."]
    pub fn qinfer_grammar_matcher_create(
        grammar: *const qinfer_grammar,
        out: *mut *mut qinfer_grammar_matcher,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " A matcher at the same place; from there on the two are independent."]
    pub fn qinfer_grammar_matcher_clone(
        matcher: *const qinfer_grammar_matcher,
        out: *mut *mut qinfer_grammar_matcher,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_grammar_matcher_free(matcher: *mut qinfer_grammar_matcher);
    #[doc = " Fills *out, whose struct_size the caller has set, for qinfer_session_set_logits_hook. The hook holds the matcher\n  (which may be freed at once) until the session releases the hook; if the session does not take the hook, call\n  out->release(out->user). One matcher is for one session.\n  Sampling      The mask bans what cannot come next, and the token drawn is accepted.\n  Fork          The fork gets a matcher at the same place.\n  Truncate      Tokens that are taken back are taken back here too.\n  Save, load    A snapshot holds no hook. After loading: a new matcher, qinfer_grammar_matcher_accept with the tokens\n                that were drawn under the grammar, and its hook.\n  Cancel        Nothing is lost: the session has the tokens that the matcher has.\n  Failure       The call of qinfer.h ends with QINFER_E_CANCELLED, and qinfer_grammar_matcher_error says why."]
    pub fn qinfer_grammar_matcher_hook(
        matcher: *const qinfer_grammar_matcher,
        out: *mut qinfer_logits_hook,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " For hosts that sample themselves: bit (t % 32) of word t / 32 is 1 if token t may come next. *out_n is\n  (n_tokens + 31) / 32. End tokens may come where the text is complete. Every token of the\n  mask is accepted. QINFER_E_UNSUPPORTED as qinfer_grammar_matcher_error."]
    pub fn qinfer_grammar_matcher_mask(
        matcher: *mut qinfer_grammar_matcher,
        words: *mut u32,
        capacity: usize,
        out_n: *mut usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Accepts n tokens, all or none: QINFER_E_INVALID_ARGUMENT if one cannot come next (detail: its index). A token that\n  leads beyond a limit is accepted, and the matcher fails then: what comes after it, a mask or another token, is\n  QINFER_E_UNSUPPORTED."]
    pub fn qinfer_grammar_matcher_accept(
        matcher: *mut qinfer_grammar_matcher,
        tokens: *const qinfer_token,
        n: usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " Takes back the last n tokens; more than were accepted is QINFER_E_INVALID_ARGUMENT. A matcher that has failed works\n  again if the failure came later."]
    pub fn qinfer_grammar_matcher_rewind(
        matcher: *mut qinfer_grammar_matcher,
        n: usize,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    pub fn qinfer_grammar_matcher_get_info(
        matcher: *mut qinfer_grammar_matcher,
        out: *mut qinfer_grammar_matcher_info,
        err: *mut qinfer_error,
    ) -> qinfer_status;
    #[doc = " QINFER_OK, or the failure that ended the matcher's work: QINFER_E_UNSUPPORTED where a limit was reached or no token\n  of the vocabulary goes on, QINFER_E_INTERNAL where the engine panicked."]
    pub fn qinfer_grammar_matcher_error(
        matcher: *const qinfer_grammar_matcher,
        err: *mut qinfer_error,
    ) -> qinfer_status;
}

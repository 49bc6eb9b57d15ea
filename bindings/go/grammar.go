// Grammars: JSON schemas, regular expressions and Lark grammars, which the text that a session draws fulfils.

package qinfer

// #include "grammar_library.h"
import "C"

import (
	"encoding/json"
	"sync"
)

// GrammarKind says how the text of a grammar is written.
type GrammarKind int32

// The kinds of grammars.
const (
	GrammarJSONSchema GrammarKind = C.QGO_JSON_SCHEMA
	GrammarRegex      GrammarKind = C.QGO_REGEX
	GrammarLark       GrammarKind = C.QGO_LARK
)

// String is "JSON schema", "regular expression" or "Lark".
func (k GrammarKind) String() string {
	switch k {
	case GrammarJSONSchema:
		return "JSON schema"
	case GrammarRegex:
		return "regular expression"
	case GrammarLark:
		return "Lark"
	}
	return "unknown"
}

// GrammarOptions are limits, against texts that come from strangers; 0 = the default, which qinfer_grammar.h says.
type GrammarOptions struct {
	AnySpace       bool   // of a JSON schema: white space as often as the model likes
	MaxSourceBytes uint64 // of the text
	MaxDepth       uint32 // of brackets in the text
	MaxStates      uint32 // of the lexer
	MaxSymbols     uint32 // of the compiled grammar
	MaxRowItems    uint32 // of the parser, at one place of the text
	CompileWork    uint64 // steps of the compiler of regular expressions
	MaskWork       uint64 // the same for one token
}

func (o *GrammarOptions) native() C.qgo_limits {
	return C.qgo_limits{
		flags: flag(o.AnySpace, C.QGO_ANY_SPACE), max_depth: C.uint32_t(o.MaxDepth), max_states: C.uint32_t(o.MaxStates),
		max_symbols: C.uint32_t(o.MaxSymbols), max_row_items: C.uint32_t(o.MaxRowItems),
		max_source_bytes: C.uint64_t(o.MaxSourceBytes), compile_work: C.uint64_t(o.CompileWork),
		mask_work: C.uint64_t(o.MaskWork),
	}
}

// vocabulary has the tokens of a model as grammars need them. It is made with the model's first grammar, and tells
// models apart.
type vocabulary struct {
	mu sync.Mutex
	c  *C.qgo_vocab
}

// of gives the vocabulary of a model, which the caller uses.
func (v *vocabulary) of(m *Model, tokens int, e *C.qinfer_error) (*C.qgo_vocab, C.qinfer_status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.c != nil {
		return v.c, C.QINFER_OK
	}
	status := C.qgo_vocab_create(m.c, C.uint32_t(tokens), &v.c, e)
	return v.c, status
}

// free is for the end of the model. Grammars hold what they need.
func (v *vocabulary) free() {
	if v.c != nil {
		C.qgo_vocab_free(v.c)
	}
}

// Grammar is a compiled text. It never changes, and is for any number of sessions of its model, and of goroutines.
type Grammar struct {
	object *object
	c      *C.qgo_grammar
	vocab  *vocabulary
}

// JSONSchema compiles a schema: what is drawn is one document that fulfils it. The schema is JSON (a string, []byte or
// json.RawMessage), or anything that encoding/json makes a schema of. Properties come in its order, and that of a map is
// the alphabet's. [ErrUnsupported] names a keyword that no grammar enforces, [ErrFormat] has the offset of a mistake.
//
// Grammars need libqinfer_grammar, a separate library: [ErrNotFound] says where it was looked for.
func (m *Model) JSONSchema(schema any, o GrammarOptions) (*Grammar, error) {
	text := ""
	switch given := schema.(type) {
	case string:
		text = given
	case []byte:
		text = string(given)
	case json.RawMessage: // not through encoding/json, which changes the offsets of mistakes
		text = string(given)
	default:
		made, err := jsonOf("schema", schema)
		if err != nil {
			return nil, err
		}
		text = string(made)
	}
	return m.newGrammar(C.QGO_JSON_SCHEMA, text, o)
}

// Regex compiles a regular expression in the syntax of Rust's regex crate, which the whole text matches.
func (m *Model) Regex(pattern string, o GrammarOptions) (*Grammar, error) {
	return m.newGrammar(C.QGO_REGEX, pattern, o)
}

// Lark compiles a grammar as llguidance reads Lark: with a rule "start".
func (m *Model) Lark(text string, o GrammarOptions) (*Grammar, error) {
	return m.newGrammar(C.QGO_LARK, text, o)
}

func (m *Model) newGrammar(kind C.int32_t, text string, o GrammarOptions) (*Grammar, error) {
	info, err := m.Info()
	if err == nil {
		err = loadGrammarLibrary()
	}
	if err != nil {
		return nil, err
	}
	g, limits := &Grammar{vocab: m.vocab}, o.native()
	err = call(func(e *C.qinfer_error) C.qinfer_status {
		vocab, status := m.vocab.of(m, info.Vocab, e)
		if status != C.QINFER_OK {
			return status
		}
		return C.qgo_grammar_compile(vocab, kind, chars(text), C.size_t(len(text)), &limits, &g.c, e)
	}, m.used())
	if err != nil {
		return nil, err
	}
	made := g.c
	g.object = newObject(func() { C.qgo_grammar_free(made) })
	return g, nil
}

// used is for the calls that use the handle, which may be nil.
func (g *Grammar) used() use {
	if g == nil {
		return use{kind: "Grammar", from: "Model.JSONSchema, Regex or Lark", isNil: true}
	}
	return use{kind: "Grammar", from: "Model.JSONSchema, Regex or Lark", object: g.object}
}

// Close frees the grammar when no matcher has it. It always returns nil.
func (g *Grammar) Close() error {
	if g != nil {
		g.object.close()
	}
	return nil
}

// GrammarInfo describes a grammar.
type GrammarInfo struct {
	Kind     GrammarKind
	Tokens   int // of the vocabulary
	Warnings int // kinds of documents that fulfil a schema and are not drawn, and what the compiler says
}

// Info describes the grammar.
func (g *Grammar) Info() (GrammarInfo, error) {
	var about C.qgo_grammar_about
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qgo_grammar_get_about(g.c, &about, e) }, g.used())
	return GrammarInfo{
		Kind: GrammarKind(about.kind), Tokens: int(about.n_tokens), Warnings: int(about.n_warnings),
	}, err
}

// SetGrammar makes what is drawn from now on fulfil the grammar, from its beginning; nil: no grammar, and no LogitsHook.
// It takes the place of the session's LogitsHook. Forks and tokens that are taken back need nothing more. Where the
// grammar cannot go on, the call that draws returns [ErrCancelled], and errors.Is finds the reason, [ErrUnsupported].
func (s *Session) SetGrammar(g *Grammar) error {
	if g == nil {
		return s.SetLogitsHook(nil)
	}
	m, err := g.NewMatcher()
	if err != nil {
		return err
	}
	defer m.Close()
	return s.SetMatcher(m)
}

// Texts as vectors and scores: the prompts of a model, the tokens of a text, and pairs of texts.

package qinfer

// #include "trampolines.h"
import "C"

import "unsafe"

// Prompts are what the model's files have to go before a text, by what the text is: "query", "document".
func (m *Model) Prompts() (map[string]string, error) {
	var names []*C.char
	err := call(func(*C.qinfer_error) C.qinfer_status {
		for index := C.size_t(0); ; index++ {
			name := C.qinfer_model_prompt_name(m.c, index)
			if name == nil {
				return C.QINFER_OK
			}
			names = append(names, name) // they live as long as the model
		}
	}, m.used())
	prompts := make(map[string]string)
	for _, name := range names {
		text, failed := readText(256, func(text *C.char, capacity C.size_t, n *C.size_t) error {
			return call(func(e *C.qinfer_error) C.qinfer_status {
				return C.qinfer_model_prompt(m.c, name, text, capacity, n, e)
			}, m.used())
		})
		if failed != nil {
			return nil, failed
		}
		prompts[C.GoString(name)] = text
	}
	return prompts, err
}

// DefaultPrompt is the name of the prompt that the files call the default; "": none. Nothing goes before a text unless it
// is asked for.
func (m *Model) DefaultPrompt() (string, error) {
	found := ""
	err := call(func(*C.qinfer_error) C.qinfer_status {
		if name := C.qinfer_model_default_prompt(m.c); name != nil {
			found = C.GoString(name)
		}
		return C.QINFER_OK
	}, m.used())
	return found, err
}

// EmbeddingTextOptions say how a text becomes tokens.
type EmbeddingTextOptions struct {
	Prompt       string // the name of one of the model's, which goes before the text
	PromptText   string // this goes before it instead
	Truncate     bool   // a text that is too long is cut, instead of ErrContextFull
	ParseSpecial bool   // "<|im_end|>" in the text becomes one token
	MaxTokens    uint32 // at most; 0 = what the model takes
}

// EmbeddingTokens are the tokens that the embedding of a text is made of, and how many were cut off.
func (m *Model) EmbeddingTokens(text string, o EmbeddingTextOptions) ([]Token, uint64, error) {
	var t texts
	defer t.free()
	options := C.qinfer_embedding_text_options{
		flags:       flag(o.Truncate, C.QINFER_EMBED_TRUNCATE) | flag(o.ParseSpecial, C.QINFER_EMBED_PARSE_SPECIAL),
		prompt_name: t.optional("the prompt's name", o.Prompt), prompt: t.optional("the prompt", o.PromptText),
		max_tokens: C.uint32_t(o.MaxTokens),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	if t.err != nil {
		return nil, 0, t.err
	}
	var cut C.uint64_t
	tokens, err := readTokens(len(text)/2+16, func(tokens *C.qinfer_token, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_embedding_tokenize(m.c, chars(text), C.size_t(len(text)), &options, tokens, capacity, n, &cut, e)
		}, m.used())
	})
	return tokens, uint64(cut), err
}

// EmbeddingOptions say what EmbeddingWith gives; the zero value is Embedding(PoolDefault).
type EmbeddingOptions struct {
	Pooling  Pooling
	Unscaled bool   // not of length 1, but as pooling and the layers after it give it
	Dims     uint32 // the first so many values alone; 0 = all
}

// EmbeddingWith gives the session's embedding.
func (s *Session) EmbeddingWith(o EmbeddingOptions) ([]float32, error) {
	options := C.qinfer_embedding_options{
		flags: flag(o.Unscaled, C.QINFER_EMBEDDING_UNSCALED), pooling: C.int32_t(o.Pooling), dims: C.uint32_t(o.Dims),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return readAll(4096, func(values *float32, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_session_embedding_with(s.c, &options, (*C.float)(values), capacity, n, e)
		}, s.used())
	})
}

// ScoreOptions say how a pair of texts is written and what its score is; the zero value has what the model's files say.
type ScoreOptions struct {
	Template     string // "qwen3-reranker", where the files do not say how a pair is written
	TemplateText string // another one, in which {instruction}, {query} and, last, {document} stand for texts
	Instruction  string // what makes a document a good one, in words
	Yes, No      string // the tokens whose logits make the score
	Truncate     bool   // a pair that is too long is cut, instead of ErrContextFull
	Raw          bool   // the score itself, any number
	MaxTokens    uint32 // of a pair; 0 = what model and session take
}

func (o *ScoreOptions) native(t *texts) C.qinfer_score_options {
	options := C.qinfer_score_options{
		flags:         flag(o.Truncate, C.QINFER_SCORE_TRUNCATE) | flag(o.Raw, C.QINFER_SCORE_RAW),
		template_name: t.optional("the template's name", o.Template),
		template_text: t.optional("the template", o.TemplateText),
		instruction:   t.optional("the instruction", o.Instruction),
		yes:           t.optional("the token yes", o.Yes), no: t.optional("the token no", o.No),
		max_tokens: C.uint32_t(o.MaxTokens),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return options
}

// SetPair makes a query and a document the session's tokens, for Score, and tells how many tokens were cut off.
func (s *Session) SetPair(query, document string, o ScoreOptions) (uint64, error) {
	var t texts
	defer t.free()
	options := o.native(&t)
	if t.err != nil {
		return 0, t.err
	}
	var cut C.uint64_t
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_set_pair(s.c, chars(query), C.size_t(len(query)), chars(document),
			C.size_t(len(document)), &options, &cut, e)
	}, s.used())
	return uint64(cut), err
}

// Score tells how well the document answers the query, once both are evaluated.
func (s *Session) Score(o ScoreOptions) (float32, error) {
	var t texts
	defer t.free()
	options := o.native(&t)
	if t.err != nil {
		return 0, t.err
	}
	var score C.float
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_score(s.c, &options, &score, e)
	}, s.used())
	return float32(score), err
}

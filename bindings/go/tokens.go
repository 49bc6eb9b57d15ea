// Tokens: from text and back.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"strings"
	"unsafe"
)

// Token is an entry of a model's vocabulary.
type Token int32

// NoToken stands where text comes without a token of its own.
const NoToken Token = -1

// TokenizeOptions are those of [Model.Tokenize].
type TokenizeOptions struct {
	// Plain leaves out what the tokenizer puts around a text, such as a begin token.
	Plain bool
	// ParseSpecial makes one token of "<|im_end|>" in the text; never for text of others.
	ParseSpecial bool
}

// Tokenize gives the tokens of a text.
func (m *Model) Tokenize(text string, o TokenizeOptions) ([]Token, error) {
	flags := flag(!o.Plain, C.QINFER_TEXT_ADD_SPECIAL) | flag(o.ParseSpecial, C.QINFER_TEXT_PARSE_SPECIAL)
	return readTokens(len(text)/2+16, func(tokens *C.qinfer_token, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_tokenize(m.c, chars(text), C.size_t(len(text)), flags, tokens, capacity, n, e)
		}, m.used())
	})
}

// Detokenize gives the text of tokens, without control tokens. Bytes that are no characters become U+FFFD.
func (m *Model) Detokenize(tokens []Token) (string, error) {
	d, err := m.NewDetokenizer()
	if err != nil {
		return "", err
	}
	defer d.Close()
	var text strings.Builder
	for _, token := range tokens {
		piece, err := d.Push(token)
		if err != nil {
			return "", err
		}
		text.WriteString(piece)
	}
	rest, err := d.Finish()
	return text.String() + rest, err
}

// TokenInfo is one token: its bytes, perhaps part of a character, and what it is.
type TokenInfo struct {
	Text    []byte
	Control bool // markup, not text
	End     bool // ends a generation
	Byte    bool // stands for one byte
}

// Token describes a token. One that the model does not have is [ErrInvalidArgument].
func (m *Model) Token(token Token) (TokenInfo, error) {
	var info TokenInfo
	err := call(func(*C.qinfer_error) C.qinfer_status {
		var n C.size_t
		if text := C.qinfer_token_text(m.c, C.qinfer_token(token), &n); text != nil {
			info.Text = append([]byte{}, textAt(text, n)...)
		}
		flags := C.qinfer_token_flags(m.c, C.qinfer_token(token))
		info.Control, info.End = flags&C.QINFER_TOKEN_CONTROL != 0, flags&C.QINFER_TOKEN_END != 0
		info.Byte = flags&C.QINFER_TOKEN_BYTE != 0
		return C.QINFER_OK
	}, m.used())
	if err != nil || info.Text != nil {
		return info, err
	}
	// One without a text may still be a row of the model's vocabulary.
	about, err := m.Info()
	if err == nil && (token < 0 || int(token) >= about.Vocab) {
		err = newError(StatusInvalidArgument, "token is %d, expected 0 to %d", token, about.Vocab-1)
	}
	return info, err
}

// FindToken gives the token whose entry in the tokenizer is this text, or [ErrNotFound].
func (m *Model) FindToken(text string) (Token, error) {
	var token C.qinfer_token
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_token_find(m.c, chars(text), C.size_t(len(text)), &token, e)
	}, m.used())
	return Token(token), err
}

// EndTokens are the tokens that end a generation.
func (m *Model) EndTokens() ([]Token, error) {
	return readTokens(16, func(tokens *C.qinfer_token, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_model_end_tokens(m.c, tokens, capacity, n, e)
		}, m.used())
	})
}

// Detokenizer makes text of tokens one after another: whole characters, the rest is held back.
type Detokenizer struct {
	object *object
	c      *C.qinfer_detok
	room   []byte
}

// NewDetokenizer begins a text.
func (m *Model) NewDetokenizer() (*Detokenizer, error) {
	info, err := m.Info()
	if err != nil {
		return nil, err
	}
	d := &Detokenizer{room: make([]byte, info.MaxTokenBytes*3+16)} // always suffices
	err = call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_detok_create(m.c, &d.c, e) }, m.used())
	if err != nil {
		return nil, err
	}
	made := d.c
	d.object = newObject(func() { C.qinfer_detok_free(made) })
	d.object.alone = true
	return d, nil
}

// used is for the calls that use the handle, which may be nil.
func (d *Detokenizer) used() use {
	if d == nil {
		return use{kind: "Detokenizer", from: "Model.NewDetokenizer", isNil: true}
	}
	return use{kind: "Detokenizer", from: "Model.NewDetokenizer", object: d.object}
}

// Push gives the text that is complete with this token.
func (d *Detokenizer) Push(token Token) (string, error) {
	return d.read(func(text *C.char, capacity C.size_t, n *C.size_t, e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_detok_push(d.c, C.qinfer_token(token), text, capacity, n, e)
	})
}

// Finish gives what is held back, and starts over.
func (d *Detokenizer) Finish() (string, error) {
	return d.read(func(text *C.char, capacity C.size_t, n *C.size_t, e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_detok_finish(d.c, text, capacity, n, e)
	})
}

func (d *Detokenizer) read(
	f func(text *C.char, capacity C.size_t, n *C.size_t, e *C.qinfer_error) C.qinfer_status) (string, error) {
	text := ""
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		var n C.size_t
		status := f((*C.char)(unsafe.Pointer(unsafe.SliceData(d.room))), C.size_t(len(d.room)), &n, e)
		if status == C.QINFER_OK {
			text = string(d.room[:n])
		}
		return status
	}, d.used())
	return text, err
}

// Close frees the detokenizer. It always returns nil.
func (d *Detokenizer) Close() error {
	if d != nil {
		d.object.close()
	}
	return nil
}

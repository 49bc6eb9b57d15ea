// Conversations: what a model's chat template makes of messages.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"encoding/json"
	"fmt"
	"unsafe"
)

// Message is a plain message of a conversation. What else a template knows may be given as a map or json.RawMessage.
type Message struct {
	Role    string `json:"role"` // "system", "user", "assistant" and what else the template knows
	Content string `json:"content"`
}

// Conversation is what a prompt of a chat is made of. Messages, Tools and Variables are anything that encoding/json
// makes objects of; where the order of keys matters, as in the parameters of a tool, give structs or a
// json.RawMessage.
type Conversation struct {
	Messages  []any
	Tools     []any          // as {"type": "function", "function": {...}}
	Variables map[string]any // others of the template, such as "enable_thinking"

	Complete     bool   // the reply is not to begin at the end of the prompt
	PlainContent bool   // what messages say holds no added tokens at all
	TemplateName string // of the model; "" = "tool_use" if there is one and there are tools, else "default"
	TemplateText string // a template instead of the model's
	Now          string // what the template is told the date is, "2026-11-22"; "" = the system's clock
	NoReasoning  bool   // for [Model.NewReply]: nothing is taken for reasoning, even where the prompt ends with its marker
}

func (c *Conversation) json() (string, error) {
	variables := make(map[string]json.RawMessage, len(c.Variables)+2)
	for name, value := range c.Variables {
		if name == "messages" || name == "tools" && len(c.Tools) != 0 {
			return "", newError(StatusInvalidArgument, "Variables has %q, expected them in the Conversation alone", name)
		}
		text, err := jsonOf(fmt.Sprintf("Variables[%q]", name), value)
		if err != nil {
			return "", err
		}
		variables[name] = text
	}
	var err error
	if variables["messages"], err = jsonObjects("Messages", c.Messages); err != nil {
		return "", err
	}
	if len(c.Tools) != 0 {
		if variables["tools"], err = jsonObjects("Tools", c.Tools); err != nil {
			return "", err
		}
	}
	text, err := jsonOf("Variables", variables)
	return string(text), err
}

// run makes a call with the conversation as JSON, and the options.
func (c *Conversation) run(ctx context.Context, f func(text string, options *C.qinfer_chat_options) error) error {
	text, err := c.json()
	if err != nil {
		return err
	}
	var t texts
	defer t.free()
	options := C.qinfer_chat_options{
		flags: flag(!c.Complete, C.QINFER_CHAT_GENERATION_PROMPT) |
			flag(c.PlainContent, C.QINFER_CHAT_PLAIN_CONTENT),
		template_name: t.optional("the template's name", c.TemplateName),
		template_text: t.optional("the template", c.TemplateText),
		now:           t.optional("the date", c.Now),
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	if t.err != nil {
		return t.err
	}
	w, err := watch(ctx)
	if err != nil {
		return err
	}
	defer w.release()
	options.cancel = w.c
	return w.because(f(text, &options))
}

// RenderChat gives the text that the template makes of a conversation.
func (m *Model) RenderChat(ctx context.Context, c Conversation) (string, error) {
	var rendered string
	err := c.run(ctx, func(conversation string, options *C.qinfer_chat_options) (err error) {
		rendered, err = readText(4096, func(text *C.char, capacity C.size_t, n *C.size_t) error {
			return call(func(e *C.qinfer_error) C.qinfer_status {
				return C.qinfer_chat_render(m.c, chars(conversation), C.size_t(len(conversation)), options,
					text, capacity, n, nil, 0, nil, e)
			}, m.used())
		})
		return err
	})
	return rendered, err
}

// TokenizeChat gives the tokens of that text. Nothing that a message says becomes a control token.
func (m *Model) TokenizeChat(ctx context.Context, c Conversation) ([]Token, error) {
	var list []Token
	err := c.run(ctx, func(conversation string, options *C.qinfer_chat_options) (err error) {
		list, err = readTokens(1024, func(tokens *C.qinfer_token, capacity C.size_t, n *C.size_t) error {
			return call(func(e *C.qinfer_error) C.qinfer_status {
				return C.qinfer_chat_tokenize(m.c, chars(conversation), C.size_t(len(conversation)), options,
					tokens, capacity, n, e)
			}, m.used())
		})
		return err
	})
	return list, err
}

// ChatTemplate gives a template as it is written; name "": the default one. [ErrNotFound] if there is none.
func (m *Model) ChatTemplate(name string) (string, error) {
	var t texts
	defer t.free()
	native := t.optional("the template's name", name)
	if t.err != nil {
		return "", t.err
	}
	return readText(4096, func(text *C.char, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_model_chat_template(m.c, native, text, capacity, n, e)
		}, m.used())
	})
}

// ChatTemplateNames are the names of the model's chat templates, sorted.
func (m *Model) ChatTemplateNames() ([]string, error) {
	var names []string
	err := call(func(*C.qinfer_error) C.qinfer_status {
		for index := C.size_t(0); ; index++ {
			name := C.qinfer_model_chat_template_name(m.c, index)
			if name == nil {
				return C.QINFER_OK
			}
			names = append(names, C.GoString(name))
		}
	}, m.used())
	return names, err
}

// Replies: what a model answers, taken apart into content, reasoning and calls of tools.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"encoding/json"
	"unsafe"
)

// PartKind says what a part of a reply is.
type PartKind int32

// The kinds of parts.
const (
	PartContent   PartKind = C.QINFER_PART_CONTENT
	PartReasoning PartKind = C.QINFER_PART_REASONING
	PartCall      PartKind = C.QINFER_PART_CALL
)

// String is "content", "reasoning" or "call".
func (k PartKind) String() string {
	switch k {
	case PartContent:
		return "content"
	case PartReasoning:
		return "reasoning"
	case PartCall:
		return "call"
	}
	return "unknown"
}

// Part is a piece of a reply: new text of content or reasoning, or a whole call of a tool.
type Part struct {
	Kind PartKind
	Text string // of a call its arguments: a JSON object as the model wrote it
	Name string // of the tool that is called
	ID   string // of the call
}

// Reply takes a reply apart while it comes: in Push, or in a generation that has it ([GenerateOptions]). It is for one
// goroutine at a time.
type Reply struct {
	object *object
	c      *C.qinfer_reply
}

// NewReply is for the reply to a conversation, the one that the prompt was made of.
func (m *Model) NewReply(ctx context.Context, c Conversation) (*Reply, error) {
	r := &Reply{}
	err := c.run(ctx, func(conversation string, chat *C.qinfer_chat_options) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qgo_reply_create(m.c, chars(conversation), C.size_t(len(conversation)), chat,
				flag(c.NoReasoning, C.QINFER_REPLY_NO_REASONING), &r.c, e)
		}, m.used())
	})
	if err != nil {
		return nil, err
	}
	made := r.c
	r.object = newObject(func() { C.qinfer_reply_free(made) })
	r.object.alone = true
	return r, nil
}

// used is for the calls that use the handle, which may be nil.
func (r *Reply) used() use {
	if r == nil {
		return use{kind: "Reply", from: "Model.NewReply", isNil: true}
	}
	return use{kind: "Reply", from: "Model.NewReply", object: r.object}
}

// Push adds the next token, and gives the parts that are certain with it.
func (r *Reply) Push(token Token) ([]Part, error) {
	return r.parts(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_reply_push(r.c, C.qinfer_token(token), e) })
}

// Finish says that the reply is complete, and gives the parts that were held back.
func (r *Reply) Finish() ([]Part, error) {
	return r.parts(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_reply_finish(r.c, e) })
}

// parts makes a call, and reads the parts that there are after it: within one use of the handle, which their texts
// need.
func (r *Reply) parts(f func(e *C.qinfer_error) C.qinfer_status) ([]Part, error) {
	var parts []Part
	err := call(func(e *C.qinfer_error) (status C.qinfer_status) {
		if status = f(e); status == C.QINFER_OK {
			parts, status = nextParts(r.c, e)
		}
		return status
	}, r.used())
	return parts, err
}

// nextParts reads all parts that there are. The caller has the handle meanwhile.
func nextParts(reply *C.qinfer_reply, e *C.qinfer_error) (parts []Part, status C.qinfer_status) {
	for there := true; there && status == C.QINFER_OK; {
		var part Part
		if part, there, status = nextPart(reply, e); there {
			parts = append(parts, part)
		}
	}
	return parts, status
}

// nextPart reads the next part, if there is one. The caller has the handle meanwhile.
func nextPart(reply *C.qinfer_reply, e *C.qinfer_error) (part Part, there bool, status C.qinfer_status) {
	var p C.qinfer_reply_part
	p.struct_size = C.uint32_t(unsafe.Sizeof(p))
	status = C.qinfer_reply_next(reply, &p, e)
	if status != C.QINFER_OK || p.kind == C.QINFER_PART_NONE {
		return Part{}, false, status
	}
	name := textAt(p.name, C.size_t(p.name_len))
	return Part{Kind: PartKind(p.kind), Text: textAt(p.text, p.text_len), Name: name, ID: C.GoString(p.id)}, true, status
}

// InReasoning reports whether the reasoning has begun and not ended. What is drawn with Sample under a grammar is free
// until then.
func (r *Reply) InReasoning() (bool, error) {
	var reasons C.int32_t
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_reply_in_reasoning(r.c, &reasons, e)
	}, r.used())
	return reasons != 0, err
}

// Message gives what was pushed as a message, to add to the conversation's.
func (r *Reply) Message() (json.RawMessage, error) {
	text, err := readText(1024, func(text *C.char, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_reply_message(r.c, text, capacity, n, e)
		}, r.used())
	})
	return json.RawMessage(text), err
}

// Close frees the reply. It always returns nil.
func (r *Reply) Close() error {
	if r != nil {
		r.object.close()
	}
	return nil
}

// Chats: conversations of which each turn evaluates only what is new.

package qinfer

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Chat is a conversation with a model. Messages and the like may be changed between turns. While a reply is in its
// reasoning, the LogitsHook of the session rests, and so does the Grammar. It is for one goroutine at a time.
type Chat struct {
	Conversation
	Sampler            SamplerOptions // as it is at the first turn
	MaxTokens          uint32         // of a reply; 0 = no bound but the context's
	MaxReasoningTokens uint32         // of these; then the reasoning is ended, and the content begins; 0 = no bound
	Grammar            *Grammar       // that the content of a reply fulfils, instead of what the session's hook does; nil: none
	Result             Generated      // of the last turn

	model    *Model
	session  *Session
	enforced *hookState // of the last turn's Grammar
}

// NewChat begins a conversation with no messages.
func (m *Model) NewChat() *Chat {
	return &Chat{model: m}
}

// Close frees the chat's session. It always returns nil.
func (c *Chat) Close() error {
	if c != nil && c.session != nil {
		return c.session.Close()
	}
	return nil
}

// Session is the session that the chat evaluates; nil before the first turn.
func (c *Chat) Session() *Session {
	if c == nil {
		return nil
	}
	return c.session
}

// Send adds a message of the user and returns the content of the reply. Calls of tools are in the last of Messages.
func (c *Chat) Send(ctx context.Context, content string) (string, error) {
	var text strings.Builder
	for part, err := range c.Stream(ctx, content) {
		if err != nil {
			return text.String(), err
		}
		if part.Kind == PartContent {
			text.WriteString(part.Text)
		}
	}
	return text.String(), nil
}

// Stream adds a message of the user and gives the parts of the reply as they come. At the end the reply is the last of
// Messages, as far as it came where the loop is left before or ctx ends it. Where there is none, as after another error,
// the message of the user is taken back.
func (c *Chat) Stream(ctx context.Context, content string) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		if err := c.check(); err != nil {
			yield(Part{}, err)
			return
		}
		before := len(c.Messages)
		c.add(Message{Role: "user", Content: content})
		defer func() {
			if len(c.Messages) == before+1 {
				c.Messages = c.Messages[:before]
			}
		}()
		c.Reply(ctx)(yield)
	}
}

// Reply gives the parts of the reply to Messages as they are.
func (c *Chat) Reply(ctx context.Context) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		reply, err := c.prepare(ctx)
		if err != nil {
			yield(Part{}, err)
			return
		}
		defer reply.Close()
		takeTurns(func(emit func(Part) bool) error { return c.generate(ctx, reply, emit) }, yield)
	}
}

// check is for the calls of a Chat that may be nil or a zero value.
func (c *Chat) check() error {
	switch {
	case c == nil:
		return newError(StatusInvalidArgument, "the Chat is nil, expected a Chat of Model.NewChat")
	case c.model == nil:
		return newError(StatusInvalidArgument, "the Chat has no Model, expected a Chat of Model.NewChat")
	}
	return nil
}

// add adds a message, and leaves what others have in the memory after the messages.
func (c *Chat) add(message any) {
	c.Messages = append(slices.Clip(c.Messages), message)
}

// prepare gives the session the tokens of the conversation.
func (c *Chat) prepare(ctx context.Context) (*Reply, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	tokens, err := c.model.TokenizeChat(ctx, c.Conversation)
	if err != nil {
		return nil, err
	}
	if c.session == nil {
		session, err := c.model.NewSession(SessionOptions{})
		if err != nil {
			return nil, err
		}
		if err = session.SetSampler(c.Sampler); err != nil {
			session.Close()
			return nil, err
		}
		c.session = session
	}
	if err = c.enforce(tokens); err != nil {
		return nil, err
	}
	return c.model.NewReply(ctx, c.Conversation)
}

// enforce gives the session the tokens, and the grammar of this turn instead of the one of the turn before.
func (c *Chat) enforce(tokens []Token) error {
	if c.enforced != nil && c.session.hooked() == c.enforced {
		if err := c.session.SetLogitsHook(nil); err != nil {
			return err
		}
	}
	c.enforced = nil
	info, err := c.session.Info()
	if err != nil {
		return err
	}
	if len(tokens) >= info.MaxTokens {
		return &Error{Status: StatusContextFull, Detail: int64(len(tokens)),
			Message: fmt.Sprintf("the conversation has %d tokens, and a context of %d has no room for a reply: shorten or "+
				"remove messages", len(tokens), info.MaxTokens)}
	}
	if _, err := c.session.SetTokens(tokens); err != nil || c.Grammar == nil {
		return err
	}
	err = c.session.SetGrammar(c.Grammar)
	if err == nil {
		c.enforced = c.session.hooked()
	}
	return err
}

// generate emits the parts of the reply, and keeps it as a message, or what has come of it when it is ended from outside.
func (c *Chat) generate(ctx context.Context, reply *Reply, emit func(Part) bool) error {
	going := true
	give := func(part Part) bool {
		going = going && emit(part)
		return going
	}
	result, err := c.session.Generate(ctx, GenerateOptions{
		MaxTokens: c.MaxTokens, Reply: reply, MaxReasoningTokens: c.MaxReasoningTokens, OnPart: give,
	})
	c.Result = result
	if err != nil && (ctx.Err() == nil || result.NewTokens == 0) {
		return err
	}
	parts, unread := reply.Finish()
	if unread != nil {
		return unread
	}
	for _, part := range parts {
		give(part)
	}
	message, unread := reply.Message()
	if unread != nil {
		return unread
	}
	c.add(json.RawMessage(message))
	return err
}

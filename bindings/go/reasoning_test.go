// Replies that reason: the logits hook rests until the reasoning ends, its tokens are bounded, and who runs out inside
// of it is told.

package qinfer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"qinfer"
)

// thinking is a conversation whose template begins the reasoning.
var thinking = qinfer.Conversation{
	Messages:     []any{qinfer.Message{Role: "user", Content: "Hi"}},
	TemplateText: "{{ messages[0].content }}{% if add_generation_prompt %}<think>\n{% endif %}",
}

func tokenOf(t *testing.T, text string) qinfer.Token {
	t.Helper()
	tokens := must(chatModel.Tokenize(text, qinfer.TokenizeOptions{Plain: true, ParseSpecial: true}))(t)
	if len(tokens) != 1 {
		t.Fatalf("%q is the tokens %v", text, tokens)
	}
	return tokens[0]
}

// hookCalls count what a hook was asked and told.
type hookCalls struct {
	applied  int
	accepted []qinfer.Token
}

// onlyC lets nothing be drawn but "c".
func onlyC(t *testing.T, calls *hookCalls) *qinfer.LogitsHook {
	c := tokenOf(t, "c")
	return &qinfer.LogitsHook{
		Apply: func(logits []float32) error {
			calls.applied++
			for at := range logits {
				if qinfer.Token(at) != c {
					logits[at] = float32(math.Inf(-1))
				}
			}
			return nil
		},
		Accept: func(token qinfer.Token) error { calls.accepted = append(calls.accepted, token); return nil },
		Rewind: func(n int) error { calls.accepted = calls.accepted[:len(calls.accepted)-n]; return nil },
	}
}

// thinkingSession is a session with the prompt, which draws "b" where no hook says otherwise, and the reply to it. The
// end of the test closes both.
func thinkingSession(t *testing.T, conversation qinfer.Conversation) (*qinfer.Session, *qinfer.Reply) {
	t.Helper()
	session := must(chatModel.NewSession(qinfer.SessionOptions{}))(t)
	check(t, session.Append(must(chatModel.TokenizeChat(background, conversation))(t)...))
	check(t, session.SetBias(map[qinfer.Token]float32{tokenOf(t, "b"): 1e6}))
	reply := must(chatModel.NewReply(background, conversation))(t)
	t.Cleanup(func() { closeAll([]any{session, reply}) })
	return session, reply
}

// thinkingChat is a chat that draws "b", and has had a turn.
func thinkingChat(t *testing.T) *qinfer.Chat {
	t.Helper()
	chat := chatModel.NewChat()
	t.Cleanup(func() { chat.Close() })
	chat.TemplateText = thinking.TemplateText
	chat.MaxTokens = 1
	must(chat.Send(background, "Hi"))(t)
	chat.Messages = nil
	check(t, chat.Session().SetBias(map[qinfer.Token]float32{tokenOf(t, "b"): 1e6}))
	return chat
}

func joined(parts []qinfer.Part) string {
	text := ""
	var last qinfer.PartKind
	for _, part := range parts {
		if part.Kind != last {
			text += part.Kind.String() + ":"
			last = part.Kind
		}
		text += part.Text
	}
	return text
}

func TestTheHookOfAChatBeginsAfterTheReasoning(t *testing.T) {
	chat := thinkingChat(t)
	var calls hookCalls
	check(t, chat.Session().SetLogitsHook(onlyC(t, &calls)))
	chat.MaxTokens, chat.MaxReasoningTokens = 9, 4
	for range 2 {
		calls.applied = 0
		var parts []qinfer.Part
		for part, err := range chat.Stream(background, "Hi") {
			check(t, err)
			parts = append(parts, part)
		}
		if text := joined(parts); text != "reasoning:bbbbcontent:cccc" {
			t.Errorf("the parts are %s", text)
		}
		r := chat.Result
		if r.NewTokens != 9 || r.ReasoningTokens != 5 || r.InReasoning || r.Finish != qinfer.FinishLength {
			t.Errorf("ended with %+v", r)
		}
		if c := tokenOf(t, "c"); calls.applied != 4 || !slices.Equal(calls.accepted, []qinfer.Token{c, c, c, c}) {
			t.Errorf("the hook had %+v", calls)
		}
		chat.Messages = nil // the next prompt takes the reply back, and what the hook never had with it
	}
}

func TestAChatThatRunsOutInsideOfItsReasoningIsTold(t *testing.T) {
	chat := thinkingChat(t)
	for _, bound := range []uint32{0, 3, 100} {
		chat.Messages, chat.MaxTokens, chat.MaxReasoningTokens = nil, 3, bound
		if content := must(chat.Send(background, "Hi"))(t); content != "" {
			t.Errorf("replied %q", content)
		}
		r := chat.Result
		if !r.InReasoning || r.ReasoningTokens != 3 || r.Finish != qinfer.FinishLength {
			t.Errorf("with %d: ended with %+v", bound, r)
		}
	}
}

func TestAChatWithoutReasoningHasTheHookFromTheFirstTokenOn(t *testing.T) {
	chat := thinkingChat(t)
	var calls hookCalls
	check(t, chat.Session().SetLogitsHook(onlyC(t, &calls)))
	chat.NoReasoning = true
	chat.MaxTokens, chat.MaxReasoningTokens = 3, 1
	if content := must(chat.Send(background, "Hi"))(t); content != "ccc" {
		t.Errorf("replied %q", content)
	}
	if r := chat.Result; r.ReasoningTokens != 0 || r.InReasoning || calls.applied != 3 {
		t.Errorf("ended with %+v, the hook had %+v", r, calls)
	}
}

func TestAGenerationIsGivenItsReply(t *testing.T) {
	session, reply := thinkingSession(t, thinking)
	if !must(reply.InReasoning())(t) {
		t.Error("it does not reason")
	}
	var parts []qinfer.Part
	var inside []error
	options := qinfer.GenerateOptions{MaxTokens: 5, Reply: reply, MaxReasoningTokens: 2}
	options.OnPart = func(part qinfer.Part) bool {
		parts = append(parts, part)
		return true
	}
	options.OnToken = func(token qinfer.Token, _ string) bool {
		_, err := reply.Push(token)
		inside = append(inside, err)
		return true
	}
	r := must(session.Generate(background, options))(t)
	if text := joined(parts); text != "reasoning:bbcontent:bb" || r.ReasoningTokens != 3 || r.InReasoning {
		t.Errorf("the parts are %s, ended with %+v", text, r)
	}
	for _, err := range inside { // the generation has the reply
		expectStatus(t, err, qinfer.ErrState)
	}
	if len(inside) != 5 || must(reply.InReasoning())(t) {
		t.Errorf("%d tokens, or it reasons still", len(inside))
	}
	if rest := must(reply.Finish())(t); len(rest) != 0 {
		t.Errorf("left are %v", rest)
	}
	if r = generated(t, session, 2); r.ReasoningTokens != 0 || r.InReasoning {
		t.Errorf("without a reply ended with %+v", r)
	}
}

func TestOnPartEndsAGenerationAndFinishHasTheRest(t *testing.T) {
	session, reply := thinkingSession(t, thinking)
	options := qinfer.GenerateOptions{MaxTokens: 9, Reply: reply}
	options.OnPart = func(qinfer.Part) bool { return false }
	if r := must(session.Generate(background, options))(t); r.Finish != qinfer.FinishCallback || r.NewTokens != 1 {
		t.Errorf("ended with %+v", r)
	}
	options.OnPart = func(qinfer.Part) bool { panic(ownPanic) }
	if value := panicOf(func() { session.Generate(background, options) }); value != ownPanic {
		t.Errorf("panicked with %v", value)
	}
	options.OnPart, options.MaxTokens = nil, 2
	text := ""
	for piece, err := range session.Stream(background, options) {
		check(t, err)
		text += piece
	}
	if rest := must(reply.Finish())(t); text != "bb" || joined(rest) != "reasoning:bb" {
		t.Errorf("streamed %q, left are %v", text, rest)
	}
}

func TestAReplyThatDoesNotFitIsRefused(t *testing.T) {
	session, reply := thinkingSession(t, thinking)
	with := func(o qinfer.GenerateOptions) error {
		before := must(session.Len())(t)
		o.MaxTokens = 1
		_, err := session.Generate(background, o)
		if n := must(session.Len())(t); n != before {
			t.Errorf("%d tokens were added", n-before)
		}
		return err
	}
	says(t, "no reply", with(qinfer.GenerateOptions{MaxReasoningTokens: 3}), "max_reasoning_tokens is 3")
	onPart := func(qinfer.Part) bool { return true }
	says(t, "no reply", with(qinfer.GenerateOptions{OnPart: onPart}), "OnPart is set, but there is no Reply")
	says(t, "a zero value", with(qinfer.GenerateOptions{Reply: &qinfer.Reply{}}), "Reply is a zero value")
	story := must(model.NewReply(background, thinking))(t)
	defer story.Close()
	says(t, "another model", with(qinfer.GenerateOptions{Reply: story}), "the reply is of another model")
	must(reply.Finish())(t)
	expectStatus(t, with(qinfer.GenerateOptions{Reply: reply}), qinfer.ErrState)
	reply.Close()
	if err := with(qinfer.GenerateOptions{Reply: reply}); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestAReplyStaysUntilItsGenerationEnds(t *testing.T) {
	session, reply := thinkingSession(t, thinking)
	copied := *reply
	options := qinfer.GenerateOptions{MaxTokens: 3, Reply: &copied}
	options.OnToken = func(qinfer.Token, string) bool {
		copied = qinfer.Reply{}
		return reply.Close() == nil
	}
	var parts []qinfer.Part
	options.OnPart = func(part qinfer.Part) bool {
		parts = append(parts, part)
		return true
	}
	if r := must(session.Generate(background, options))(t); r.NewTokens != 3 || joined(parts) != "reasoning:bbb" {
		t.Errorf("ended with %+v, the parts are %v", r, parts)
	}
	if _, err := reply.InReasoning(); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestAChatThatIsCancelledInsideOfItsReasoningKeepsIt(t *testing.T) {
	chat := thinkingChat(t)
	chat.MaxTokens = 0
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	var parts []qinfer.Part
	var failed error
	for part, err := range chat.Stream(ctx, "Hi") {
		if failed = err; err == nil {
			parts = append(parts, part)
			cancel()
		}
	}
	if !errors.Is(failed, context.Canceled) || joined(parts) != "reasoning:b" || !chat.Result.InReasoning {
		t.Errorf("got %v, the parts are %v, the result is %+v", failed, parts, chat.Result)
	}
	if len(chat.Messages) != 2 || !strings.Contains(fmt.Sprintf("%s", chat.Messages[1]), `"reasoning_content": "b"`) {
		t.Errorf("the messages are %s", chat.Messages)
	}
}

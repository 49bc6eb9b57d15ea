// Chats: tools, turns that evaluate only what is new, templates, and replies taken apart by hand.

package qinfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"qinfer"
)

var weatherTool = json.RawMessage(`{"type": "function", "function": {"name": "get_weather",
	"description": "Get the weather in a city",
	"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}`)

func TestChatsGiveCallsOfTools(t *testing.T) {
	chat := chatModel.NewChat()
	defer chat.Close()
	chat.Tools = []any{weatherTool}
	var calls []qinfer.Part
	for part, err := range chat.Stream(background, "What is the weather in Paris?") {
		check(t, err)
		if part.Kind == qinfer.PartCall {
			calls = append(calls, part)
		}
	}
	if len(calls) != 1 || calls[0].Name != "get_weather" || calls[0].Text != `{"city": "Paris"}` || calls[0].ID == "" {
		t.Fatalf("the calls are %+v", calls)
	}
	var message struct {
		Role  string `json:"role"`
		Calls []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	}
	check(t, json.Unmarshal(chat.Messages[len(chat.Messages)-1].(json.RawMessage), &message))
	if message.Role != "assistant" || len(message.Calls) != 1 || message.Calls[0].ID != calls[0].ID {
		t.Errorf("the message is %+v", message)
	}
}

func TestConversationsThatFillTheContextHaveNoRoomForReplies(t *testing.T) {
	most := must(chatModel.Info())(t).ContextTokens
	content, room := "Hello", 0
	for room < most {
		content += " a"
		conversation := qinfer.Conversation{Messages: []any{qinfer.Message{Role: "user", Content: content}}}
		room = len(must(chatModel.TokenizeChat(background, conversation))(t))
	}
	chat := chatModel.NewChat()
	defer chat.Close()
	_, err := chat.Send(background, content)
	expectStatus(t, err, qinfer.ErrContextFull)
	if len(chat.Messages) != 0 {
		t.Errorf("the conversation has %d messages, expected none", len(chat.Messages))
	}
	must(chat.Send(background, "Hello!"))(t)
}

func TestTurnsEvaluateOnlyWhatIsNew(t *testing.T) {
	chat := chatModel.NewChat()
	defer chat.Close()
	must(chat.Send(background, "Hello!"))(t)
	before, length := must(chat.Session().Metrics())(t), must(chat.Session().Len())(t)
	c := cases.Chat[1]
	answer := must(chat.Send(background, c.Messages[0].(map[string]any)["content"].(string)))(t)
	if answer != c.Reply || chat.Result.NewTokens == 0 {
		t.Errorf("replied %q, want %q", answer, c.Reply)
	}
	after := must(chat.Session().Metrics())(t)
	evaluated := after.PrefillTokens + after.DecodeTokens - before.PrefillTokens - before.DecodeTokens
	// The end token of the first reply was never evaluated, nor is that of the second.
	if fresh := must(chat.Session().Len())(t) - length; evaluated != uint64(fresh) {
		t.Errorf("evaluated %d tokens, %d are new", evaluated, fresh)
	}
}

func TestChatsMayBeLeftAndGoOn(t *testing.T) {
	chat := chatModel.NewChat()
	defer chat.Close()
	for _, err := range chat.Stream(background, "Hello!") {
		check(t, err)
		break
	}
	if len(chat.Messages) != 2 {
		t.Fatalf("the messages are %s", chat.Messages)
	}
	var left struct{ Content string }
	check(t, json.Unmarshal(chat.Messages[1].(json.RawMessage), &left))
	if left.Content == "" || !strings.HasPrefix(cases.Chat[0].Reply, left.Content) {
		t.Errorf("what has come of the reply is %q", left.Content)
	}
	cancelled, cancel := context.WithCancel(background)
	cancel()
	for _, ctx := range []context.Context{cancelled, background} {
		if _, err := chat.Send(ctx, strings.Repeat("Hello! ", 2000)); err == nil || len(chat.Messages) != 2 {
			t.Errorf("%v, and the messages are %s", err, chat.Messages)
		}
	}
	chat.Messages = chat.Messages[:1]
	text := ""
	for part, err := range chat.Reply(background) {
		check(t, err)
		text += part.Text
	}
	if text != cases.Chat[0].Reply {
		t.Errorf("replied %q", text)
	}
	chat.Close()
	if _, err := chat.Send(background, "Again"); !errors.Is(err, qinfer.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestTemplatesAreRendered(t *testing.T) {
	template := must(chatModel.ChatTemplate(""))(t)
	if names := must(chatModel.ChatTemplateNames())(t); len(names) == 0 || template == "" {
		t.Errorf("templates %v, %q", names, template)
	}
	conversation := qinfer.Conversation{
		Messages:     []any{qinfer.Message{Role: "user", Content: "<b>é</b>"}, map[string]string{"content": "two"}},
		Variables:    map[string]any{"mood": "good"},
		TemplateText: "{{ mood }}: {% for m in messages %}{{ m.content }};{% endfor %}{{ strftime_now('%d') }}",
		Now:          "2026-11-22",
	}
	if text := must(chatModel.RenderChat(background, conversation))(t); text != "good: <b>é</b>;two;22" {
		t.Errorf("rendered %q", text)
	}
	tokens := must(chatModel.TokenizeChat(background, conversation))(t)
	if text := must(chatModel.Detokenize(tokens))(t); text != "good: <b>é</b>;two;22" {
		t.Errorf("tokenized %q", text)
	}
	conversation.TemplateText = "{{ raise_exception('roles must alternate') }}"
	_, err := chatModel.RenderChat(background, conversation)
	failed := expectStatus(t, err, qinfer.ErrInvalidArgument)
	if !strings.Contains(failed.Message, "roles must alternate") {
		t.Errorf("got %v", err)
	}
	conversation.Messages = []any{func() {}}
	if _, err = chatModel.RenderChat(background, conversation); err == nil {
		t.Error("a function became a message")
	}
	_, err = model.ChatTemplate("no such template")
	expectStatus(t, err, qinfer.ErrNotFound)
}

func TestRepliesAreTakenApartByHand(t *testing.T) {
	conversation := qinfer.Conversation{Messages: cases.Chat[0].Messages}
	reply := must(chatModel.NewReply(background, conversation))(t)
	defer reply.Close()
	text := ""
	special := qinfer.TokenizeOptions{ParseSpecial: true}
	for _, token := range must(chatModel.Tokenize("<think>why</think>Hi!", special))(t) {
		for _, part := range must(reply.Push(token))(t) {
			text += part.Kind.String() + ":" + part.Text + ";"
		}
	}
	for _, part := range must(reply.Finish())(t) {
		text += part.Kind.String() + ":" + part.Text + ";"
	}
	joined := regexp.MustCompile(`;(content|reasoning):`).ReplaceAllString(text, "")
	if !strings.HasPrefix(text, "reasoning:w") || joined != "reasoning:whyHi!;" {
		t.Errorf("the parts are %q", text)
	}
	message := string(must(reply.Message())(t))
	if !strings.Contains(message, `"reasoning_content"`) || !json.Valid([]byte(message)) {
		t.Errorf("the message is %s", message)
	}
	expectStatus(t, func() error { _, err := reply.Push(1); return err }(), qinfer.ErrState)
}

func TestAReplyThatEndsInsideACharacterHasItOnce(t *testing.T) {
	chat := chatModel.NewChat()
	defer chat.Close()
	must(chat.Send(background, "Hello!"))(t)
	half := qinfer.NoToken
	for token := qinfer.Token(0); half == qinfer.NoToken; token++ {
		if string(must(chatModel.Token(token))(t).Text) == "\xc3" {
			half = token
		}
	}
	check(t, chat.Session().SetBias(map[qinfer.Token]float32{half: 1e6}))
	chat.MaxTokens = 1
	if reply := must(chat.Send(background, "Again!"))(t); reply != "\uFFFD" || chat.Result.Text != reply {
		t.Errorf("replied %q, the text is %q", reply, chat.Result.Text)
	}
	if message := string(chat.Messages[len(chat.Messages)-1].(json.RawMessage)); strings.Count(message, "\uFFFD") != 1 {
		t.Errorf("the message is %s", message)
	}
}

func TestAChatWhoseSamplerIsWrongMayBeCorrected(t *testing.T) {
	replies := map[string]bool{}
	for seed := range uint64(8) {
		chat := chatModel.NewChat()
		chat.Sampler.Temperature = -1
		_, err := chat.Send(background, "Hello!")
		expectStatus(t, err, qinfer.ErrInvalidArgument)
		chat.Messages = nil
		chat.Sampler = qinfer.SamplerOptions{Temperature: 100, Seed: seed}
		chat.MaxTokens = 8
		replies[must(chat.Send(background, "Hello!"))(t)] = true
		chat.Close()
	}
	if len(replies) < 2 {
		t.Errorf("all seeds replied %v", replies)
	}
}

// Evaluating and sampling: logits, log probabilities, embeddings.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"context"
	"unsafe"
)

// SamplerOptions say how tokens are drawn; the zero value is greedy.
type SamplerOptions struct {
	Temperature      float32 // 0 = greedy
	TopK             uint32  // 0 = off
	TopP, MinP       float32 // 0 = off
	RepeatPenalty    float32 // a factor; 0 or 1 = off
	FrequencyPenalty float32 // subtracted for each time that a token occurs
	PresencePenalty  float32 // subtracted if a token occurs
	PenaltyTokens    uint32  // how far back penalties look; 0 = all
	Seed             uint64

	// qinfer.h defines these, and what 0 stands for.

	TypicalP         float32 // 0 or 1 = off
	TopNSigma        float32 // 0 = off
	DynatempRange    float32 // 0 = off
	DynatempExponent float32
	XtcProbability   float32 // 0 = off
	XtcThreshold     float32
	DryMultiplier    float32 // 0 = off; [Session.SetDryBreakers] has the breakers
	DryBase          float32
	DryAllowedLength uint32
	DryPenaltyTokens uint32 // how far back DRY looks; 0 = all
	Mirostat         uint32 // 0 = off; 2
	MirostatTau      float32
	MirostatEta      float32
	Steps            string // letters; "" = "edtskypmx"
}

// SetSampler says how tokens are drawn from now on, and reseeds. Without it a session is greedy.
func (s *Session) SetSampler(o SamplerOptions) error {
	options := C.qinfer_sampler_options{
		temperature: C.float(o.Temperature), top_k: C.uint32_t(o.TopK), top_p: C.float(o.TopP), min_p: C.float(o.MinP),
		repeat_penalty: C.float(o.RepeatPenalty), frequency_penalty: C.float(o.FrequencyPenalty),
		presence_penalty: C.float(o.PresencePenalty), penalty_tokens: C.uint32_t(o.PenaltyTokens), seed: C.uint64_t(o.Seed),
		typical_p: C.float(o.TypicalP), top_n_sigma: C.float(o.TopNSigma),
		dynatemp_range: C.float(o.DynatempRange), dynatemp_exponent: C.float(o.DynatempExponent),
		xtc_probability: C.float(o.XtcProbability), xtc_threshold: C.float(o.XtcThreshold),
		dry_multiplier: C.float(o.DryMultiplier), dry_base: C.float(o.DryBase),
		dry_allowed_length: C.uint32_t(o.DryAllowedLength), dry_penalty_tokens: C.uint32_t(o.DryPenaltyTokens),
		mirostat: C.uint32_t(o.Mirostat), mirostat_tau: C.float(o.MirostatTau), mirostat_eta: C.float(o.MirostatEta),
	}
	// Without a NUL at the end, which the library refuses, where there are too many.
	for at := 0; at < len(o.Steps) && at < len(options.steps); at++ {
		options.steps[at] = C.char(o.Steps[at])
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	return call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_set_sampler(s.c, &options, e)
	}, s.used())
}

// SetDryBreakers replaces the texts that no repetition of DRY reaches over, at most 16 of 1 to 40 bytes; none: no text.
// Without this call they are a line feed, a colon, a double quote and an asterisk.
func (s *Session) SetDryBreakers(breakers ...string) error {
	var in stopTexts
	defer in.copies.free()
	in.fill(breakers)
	return call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_set_dry_breakers(s.c, in.texts, in.lens, C.size_t(len(breakers)), e)
	}, s.used())
}

// SetBias adds to the logits of tokens; minus infinity bans one. It replaces what was set before; nil: no bias.
func (s *Session) SetBias(bias map[Token]float32) error {
	tokens, values := make([]Token, 0, len(bias)), make([]float32, 0, len(bias))
	for token, value := range bias {
		tokens, values = append(tokens, token), append(values, value)
	}
	return call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_set_bias(s.c, tokensOf(tokens), (*C.float)(unsafe.SliceData(values)),
			C.size_t(len(tokens)), e)
	}, s.used())
}

// EvaluateOptions are those of [Evaluate]; the zero value has the defaults.
type EvaluateOptions struct {
	MaxTokens  uint32 // evaluate at most so many in this call; 0 = all that are pending
	KeepLogits uint32 // for the last tokens of each session; 0 = 1
	NoLogits   bool   // compute none: for all chunks of a prompt but the last
}

// Evaluate evaluates the pending tokens of sessions of one cache as one batch. After an error no token is lost: call
// again to go on.
func Evaluate(ctx context.Context, sessions []*Session, o EvaluateOptions) error {
	used := make([]use, len(sessions))
	for at, s := range sessions {
		used[at] = s.used()
		used[at].place = at + 1
	}
	return evaluate(ctx, sessions, used, o)
}

func evaluate(ctx context.Context, sessions []*Session, used []use, o EvaluateOptions) error {
	w, err := watch(ctx)
	if err != nil {
		return err
	}
	defer w.release()
	options := C.qinfer_eval_options{
		max_tokens: C.uint32_t(o.MaxTokens), keep_logits: C.uint32_t(o.KeepLogits),
		flags: flag(o.NoLogits, C.QINFER_EVAL_NO_LOGITS), cancel: w.c,
	}
	options.struct_size = C.uint32_t(unsafe.Sizeof(options))
	natives := make([]*C.qinfer_session, len(sessions))
	for at, s := range sessions {
		if s != nil {
			natives[at] = s.c
		}
	}
	err = call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_eval(unsafe.SliceData(natives), C.size_t(len(natives)), &options, e)
	}, used...)
	return w.because(err)
}

// Evaluate evaluates the session's pending tokens.
func (s *Session) Evaluate(ctx context.Context, o EvaluateOptions) error {
	return evaluate(ctx, []*Session{s}, []use{s.used()}, o)
}

// Sample draws a token from the last logits, and appends it as pending.
func (s *Session) Sample() (Token, error) {
	var token C.qinfer_token
	err := call(func(e *C.qinfer_error) C.qinfer_status { return C.qinfer_session_sample(s.c, &token, e) }, s.used())
	return Token(token), s.finishHook(err)
}

// Logits gives a copy of the logits of the last evaluated token, or of the one that is back tokens earlier. [ErrState]
// if they are not kept.
func (s *Session) Logits(back int) ([]float32, error) {
	values := make([]float32, s.vocab())
	n, err := s.CopyLogits(back, values)
	if err != nil {
		return nil, err
	}
	return values[:n], nil
}

// CopyLogits copies them into values, and returns how many there are. [ErrBufferTooSmall] if that is more than fit.
func (s *Session) CopyLogits(back int, values []float32) (int, error) {
	if err := notNegative("back", back); err != nil {
		return 0, err
	}
	var n C.size_t
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_copy_logits(s.c, C.size_t(back), (*C.float)(unsafe.SliceData(values)),
			C.size_t(len(values)), &n, e)
	}, s.used())
	if err != nil {
		return 0, err
	}
	return int(n), nil
}

// Logprobs gives the log probabilities of tokens under the model, natural logarithms, for the row of Logits(back).
func (s *Session) Logprobs(back int, tokens ...Token) ([]float64, error) {
	if err := notNegative("back", back); err != nil {
		return nil, err
	}
	values := make([]float64, len(tokens))
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_logprobs(s.c, C.size_t(back), tokensOf(tokens), C.size_t(len(tokens)),
			(*C.double)(unsafe.SliceData(values)), e)
	}, s.used())
	if err != nil {
		return nil, err
	}
	return values, nil
}

// TokenLogprob is a token with its log probability.
type TokenLogprob struct {
	Token   Token
	Logprob float64
}

// TopLogprobs gives the n most likely tokens of that row, in descending order.
func (s *Session) TopLogprobs(back, n int) ([]TokenLogprob, error) {
	if err := notNegative("back", back); err != nil {
		return nil, err
	}
	if err := notNegative("n", n); err != nil {
		return nil, err
	}
	room := min(n, s.vocab()) // of more the library writes nothing
	tokens, values := make([]Token, room), make([]float64, room)
	err := call(func(e *C.qinfer_error) C.qinfer_status {
		return C.qinfer_session_top_logprobs(s.c, C.size_t(back), tokensOf(tokens),
			(*C.double)(unsafe.SliceData(values)), C.size_t(n), e)
	}, s.used())
	if err != nil {
		return nil, err
	}
	top := make([]TokenLogprob, n)
	for at := range top {
		top[at] = TokenLogprob{tokens[at], values[at]}
	}
	return top, nil
}

// Pooling says how the hidden states of tokens become one embedding.
type Pooling int32

// The ways of pooling.
const (
	PoolDefault Pooling = C.QINFER_POOL_DEFAULT // what the model's files say
	PoolLast    Pooling = C.QINFER_POOL_LAST
	PoolMean    Pooling = C.QINFER_POOL_MEAN
	PoolFirst   Pooling = C.QINFER_POOL_FIRST
)

// Embedding gives the session's embedding, of length 1. It needs SessionOptions.Embeddings or an encoder, and no
// pending tokens.
func (s *Session) Embedding(pooling Pooling) ([]float32, error) {
	return readAll(4096, func(values *float32, capacity C.size_t, n *C.size_t) error {
		return call(func(e *C.qinfer_error) C.qinfer_status {
			return C.qinfer_session_embedding(s.c, C.int32_t(pooling), (*C.float)(values), capacity, n, e)
		}, s.used())
	})
}

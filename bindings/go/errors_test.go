// Errors: those of the conformance cases, and how statuses, contexts and closed handles look.

package qinfer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"qinfer"
)

// failingFiles cannot open anything.
type failingFiles struct{ err error }

func (f failingFiles) Open(string, bool) (qinfer.File, error) { return nil, f.err }

var provocations = map[string]func(t *testing.T, c errorCase) error{
	"load": func(t *testing.T, c errorCase) error {
		_, err := loaded(c.Path)
		return err
	},
	"append": func(t *testing.T, c errorCase) error {
		return must(model.NewSession(qinfer.SessionOptions{}))(t).Append(1, c.Token)
	},
	"sample": func(t *testing.T, c errorCase) error {
		_, err := must(model.NewSession(qinfer.SessionOptions{}))(t).Sample()
		return err
	},
	"cpu_target": func(t *testing.T, c errorCase) error {
		_, err := qinfer.NewRuntime(qinfer.RuntimeOptions{CPUTarget: c.Name})
		return err
	},
	"files_io": func(t *testing.T, c errorCase) error {
		cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
		files := failingFiles{&qinfer.Error{Status: qinfer.StatusIO}}
		_, _, err := cache.LoadSession("a store of the host", qinfer.LoadSessionOptions{Files: files})
		return err
	},
	"buffer": func(t *testing.T, c errorCase) error {
		_, err := evaluated(t, "Once").CopyLogits(0, make([]float32, 1))
		return err
	},
	"budget": func(t *testing.T, c errorCase) error {
		_, err := qinfer.Load(background, filepath.Join(root, cases.Model), qinfer.LoadOptions{MemoryBudget: c.Bytes})
		return err
	},
	"kv_full": func(t *testing.T, c errorCase) error {
		cache := must(model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 1}))(t)
		session := must(cache.NewSession(qinfer.SessionOptions{}))(t)
		check(t, session.Append(make([]qinfer.Token, 100)...))
		return session.Evaluate(background, qinfer.EvaluateOptions{})
	},
	"context_full": func(t *testing.T, c errorCase) error {
		return must(model.NewSession(qinfer.SessionOptions{MaxTokens: 4}))(t).Append(1, 1, 1, 1, 1)
	},
	"cancelled": func(t *testing.T, c errorCase) error {
		ctx, cancel := context.WithCancel(background)
		cancel()
		return prompted(t, "Once").Evaluate(ctx, qinfer.EvaluateOptions{})
	},
	"ban_all": func(t *testing.T, c errorCase) error {
		session, bias := evaluated(t, "Once"), map[qinfer.Token]float32{}
		for token := range must(model.Info())(t).Vocab {
			bias[qinfer.Token(token)] = float32(math.Inf(-1))
		}
		check(t, session.SetBias(bias))
		_, err := session.Sample()
		return err
	},
	"snapshot": func(t *testing.T, c errorCase) error {
		cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
		_, _, err := cache.LoadSession(filepath.Join(root, c.Path), qinfer.LoadSessionOptions{})
		return err
	},
	"save": func(t *testing.T, c errorCase) error {
		return prompted(t, "Once").Save(filepath.Join(t.TempDir(), c.Path))
	},
}

func TestErrorsAreThoseOfTheCases(t *testing.T) {
	for _, c := range cases.Errors {
		t.Run(c.Call+" "+c.Status.String(), func(t *testing.T) {
			provoke := provocations[c.Call]
			if provoke == nil {
				t.Fatalf("this test does not know how to provoke %q", c.Call)
			}
			var failed *qinfer.Error
			if err := provoke(t, c); !errors.As(err, &failed) {
				t.Fatalf("got %v", err)
			}
			if failed.Status != c.Status || !strings.Contains(failed.Message, c.Says) || failed.Message == "" {
				t.Errorf("got %v", failed)
			}
			if c.Detail != nil && failed.Detail != *c.Detail {
				t.Errorf("detail is %d, want %d", failed.Detail, *c.Detail)
			}
		})
	}
}

func TestEveryStatusHasItsNameAndItsError(t *testing.T) {
	known := []struct {
		number   qinfer.Status
		name     string
		sentinel error
	}{
		{-1, "QINFER_E_INTERNAL", qinfer.ErrInternal}, {-2, "QINFER_E_INVALID_ARGUMENT", qinfer.ErrInvalidArgument},
		{-3, "QINFER_E_STATE", qinfer.ErrState}, {-4, "QINFER_E_UNSUPPORTED", qinfer.ErrUnsupported},
		{-5, "QINFER_E_NO_MEMORY", qinfer.ErrNoMemory}, {-6, "QINFER_E_IO", qinfer.ErrIO},
		{-7, "QINFER_E_NOT_FOUND", qinfer.ErrNotFound}, {-8, "QINFER_E_FORMAT", qinfer.ErrFormat},
		{-9, "QINFER_E_BUFFER_TOO_SMALL", qinfer.ErrBufferTooSmall}, {-10, "QINFER_E_KV_FULL", qinfer.ErrKvFull},
		{-11, "QINFER_E_CONTEXT_FULL", qinfer.ErrContextFull}, {-12, "QINFER_E_CANCELLED", qinfer.ErrCancelled},
		{-13, "QINFER_E_NUMERIC", qinfer.ErrNumeric},
	}
	for _, one := range known {
		err := fmt.Errorf("wrapped: %w", &qinfer.Error{Status: one.number, Message: "why", Detail: 5})
		if one.number.String() != one.name || !strings.Contains(err.Error(), one.name+": why") {
			t.Errorf("%d is %v: %v", one.number, one.number, err)
		}
		for _, other := range known {
			if errors.Is(err, other.sentinel) != (one.number == other.number) {
				t.Errorf("errors.Is(%v, %v) is wrong", err, other.sentinel)
			}
		}
	}
	unknown := &qinfer.Error{Status: -99, Message: "new"}
	if unknown.Status.String() == "" || errors.Is(unknown, qinfer.ErrInternal) {
		t.Errorf("an unknown status is %v", unknown)
	}
}

func TestFileErrorsAreErrnosToo(t *testing.T) {
	_, err := loaded("no/such/model")
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v", err)
	}
}

func TestLongMessagesAreWhole(t *testing.T) {
	long := strings.Repeat("x", 600)
	if _, err := loaded(long); err == nil || !strings.Contains(err.Error(), long) {
		t.Errorf("got %v", err)
	}
}

func TestTextsWithNulAreRefused(t *testing.T) {
	session := prompted(t, "Once")
	cache := must(model.NewKvCache(qinfer.KvCacheOptions{}))(t)
	path := "a\x00b"
	for name, f := range map[string]func() error{
		"load":          func() error { _, err := loaded(path); return err },
		"pack from":     func() error { return qinfer.Pack(background, path, "out", qinfer.LoadOptions{}) },
		"pack to":       func() error { return qinfer.Pack(background, root, path, qinfer.LoadOptions{}) },
		"plan":          func() error { _, err := qinfer.PlanMemory(path, qinfer.PlanOptions{}); return err },
		"save":          func() error { return session.Save(path) },
		"save to":       func() error { return session.SaveTo(newMemoryFiles(), path) },
		"load session":  func() error { _, _, err := cache.LoadSession(path, qinfer.LoadSessionOptions{}); return err },
		"cpu target":    func() error { _, err := qinfer.NewRuntime(qinfer.RuntimeOptions{CPUTarget: path}); return err },
		"chat template": func() error { _, err := chatModel.ChatTemplate(path); return err },
		"packed path": func() error {
			_, err := qinfer.Load(background, root, qinfer.LoadOptions{PackedPath: path})
			return err
		},
		"weight format": func() error {
			_, err := qinfer.Load(background, root, qinfer.LoadOptions{WeightFormat: path})
			return err
		},
		"template text": func() error {
			_, err := chatModel.RenderChat(background, qinfer.Conversation{TemplateText: path})
			return err
		},
	} {
		if err := f(); !errors.Is(err, qinfer.ErrInvalidArgument) || !strings.Contains(err.Error(), "has a NUL at byte") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestStopTextsMayHoldNul(t *testing.T) {
	options := qinfer.GenerateOptions{MaxTokens: 3, Stop: []string{"a\x00b"}}
	if done := must(prompted(t, "Once").Generate(background, options))(t); done.Finish != qinfer.FinishLength {
		t.Errorf("got %+v", done)
	}
	options.Stop = []string{"fine", ""}
	_, err := prompted(t, "Once").Generate(background, options)
	if failed := expectStatus(t, err, qinfer.ErrInvalidArgument); failed.Detail != 1 {
		t.Errorf("got %v, detail %d", failed, failed.Detail)
	}
}

func TestTextThatIsNotUtf8IsRefused(t *testing.T) {
	_, err := model.Tokenize("ab\xff", qinfer.TokenizeOptions{})
	if failed := expectStatus(t, err, qinfer.ErrInvalidArgument); failed.Detail != 2 {
		t.Errorf("got %v, detail %d", failed, failed.Detail)
	}
}

// What all tests share: the cases of bindings/conformance, the models, and helpers.

package qinfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"qinfer"
)

// root is the repository's, seen from this folder, where go test runs the tests.
const root = "../.."

type greedyCase struct {
	Prompt    string         `json:"prompt"`
	NewTokens uint32         `json:"new_tokens"`
	IDs       []qinfer.Token `json:"ids"`
	Text      string         `json:"text"`
	Stop      []string       `json:"stop"`
	Finish    string         `json:"finish"`
	Ban       qinfer.Token   `json:"ban"`
}

type errorCase struct {
	Call   string        `json:"call"`
	Path   string        `json:"path"`
	Name   string        `json:"name"`
	Token  qinfer.Token  `json:"token"`
	Bytes  uint64        `json:"bytes"`
	Status qinfer.Status `json:"status"`
	Says   string        `json:"says"`
	Detail *int64        `json:"detail"`
}

var cases struct {
	Model     string       `json:"model"`
	ChatModel string       `json:"chat_model"`
	Greedy    []greedyCase `json:"greedy"`
	Stop      []greedyCase `json:"stop"`
	Roundtrip []string     `json:"roundtrip"`
	Chat      []struct {
		Messages []any  `json:"messages"`
		Reply    string `json:"reply"`
	} `json:"chat"`
	Call struct {
		Text string `json:"text"`
		Name string `json:"name"`
	} `json:"call"`
	Schema json.RawMessage `json:"schema"`
	Hook   greedyCase      `json:"hook"`
	Prefix struct {
		Text         string `json:"text"`
		Times        int    `json:"times"`
		BudgetBlocks uint64 `json:"budget_blocks"`
	} `json:"prefix"`
	Snapshot struct {
		Prompt string `json:"prompt"`
		Before uint32 `json:"before"`
		After  uint32 `json:"after"`
		Name   string `json:"name"`
	} `json:"snapshot"`
	Concurrent struct {
		Sessions     int    `json:"sessions"`
		Rounds       int    `json:"rounds"`
		BudgetBlocks uint64 `json:"budget_blocks"`
		MaxTokens    uint32 `json:"max_tokens"`
	} `json:"concurrent"`
	Errors []errorCase `json:"errors"`
}

var (
	background       = context.Background()
	runtimeOfTests   *qinfer.Runtime
	model, chatModel *qinfer.Model
)

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare() (err error) {
	file, err := os.Open(filepath.Join(root, "bindings/conformance/cases.json"))
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields() // a new key needs a test here
	if err = decoder.Decode(&cases); err != nil {
		return err
	}
	if runtimeOfTests, err = qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1}); err != nil {
		return err
	}
	if model, err = loaded(cases.Model); err != nil {
		return err
	}
	chatModel, err = loaded(cases.ChatModel)
	return err
}

func loaded(path string) (*qinfer.Model, error) {
	return qinfer.Load(background, filepath.Join(root, path), qinfer.LoadOptions{Runtime: runtimeOfTests})
}

// must returns a value, or ends the test where there is an error.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prompted is a session of the story model with a prompt, which the end of the test closes.
func prompted(t *testing.T, prompt string) *qinfer.Session {
	t.Helper()
	session := must(model.NewSession(qinfer.SessionOptions{}))(t)
	t.Cleanup(func() { session.Close() })
	check(t, session.AppendText(prompt))
	return session
}

// needGrammars skips the test where there is no libqinfer_grammar.
func needGrammars(t *testing.T) {
	t.Helper()
	grammar, err := model.Regex("a", qinfer.GrammarOptions{})
	if errors.Is(err, qinfer.ErrNotFound) {
		t.Skipf("libqinfer_grammar is not there: %v", err)
	}
	check(t, err)
	grammar.Close()
}

func evaluated(t *testing.T, prompt string) *qinfer.Session {
	t.Helper()
	session := prompted(t, prompt)
	check(t, session.Evaluate(background, qinfer.EvaluateOptions{}))
	return session
}

func generated(t *testing.T, session *qinfer.Session, n uint32) qinfer.Generated {
	t.Helper()
	return must(session.Generate(background, qinfer.GenerateOptions{MaxTokens: n}))(t)
}

// expectStatus ends the test unless err is an *Error of that status, which errors.Is sees, too.
func expectStatus(t *testing.T, err error, want error) *qinfer.Error {
	t.Helper()
	var failed *qinfer.Error
	if !errors.As(err, &failed) || !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	return failed
}

// panicOf is what f panics with.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// memoryFiles are files in memory, the store of a program.
type memoryFiles struct {
	files map[string]*memoryFile
	open  int
}

type memoryFile struct {
	store *memoryFiles
	data  []byte
}

func newMemoryFiles() *memoryFiles {
	return &memoryFiles{files: make(map[string]*memoryFile)}
}

func (m *memoryFiles) Open(name string, write bool) (qinfer.File, error) {
	file := m.files[name]
	if file == nil {
		if !write {
			return nil, os.ErrNotExist
		}
		file = &memoryFile{store: m}
		m.files[name] = file
	}
	m.open++
	return file, nil
}

func (f *memoryFile) Size() (int64, error) { return int64(len(f.data)), nil }

func (f *memoryFile) ReadAt(data []byte, offset int64) (int, error) {
	return copy(data, f.data[offset:]), nil
}

func (f *memoryFile) WriteAt(data []byte, offset int64) (int, error) {
	if missing := int(offset) + len(data) - len(f.data); missing > 0 {
		f.data = append(f.data, make([]byte, missing)...)
	}
	return copy(f.data[offset:], data), nil
}

func (f *memoryFile) Truncate(size int64) error {
	f.data = f.data[:size]
	return nil
}

func (f *memoryFile) Sync() error { return nil }

func (f *memoryFile) Close() error {
	f.store.open--
	return nil
}

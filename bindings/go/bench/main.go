// Command bench measures what a token costs beyond C, when a model generates with a callback for each piece of text:
// in Go by OnText, and by a loop over Stream. One thread computes; the runs alternate, and medians are compared.
//
//	bench [-runs N] [-tokens N] MODEL
package main

// #cgo pkg-config: qinfer
// #include "plain.h"
import "C"

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"qinfer"
)

const prompt = "Once upon a time"

// way is one way to generate; run returns how many bytes of text it gave.
type way struct {
	name  string
	run   func(tokens uint32) (int, error)
	times []time.Duration
}

func main() {
	runs := flag.Int("runs", 100, "runs of each way")
	tokens := flag.Uint("tokens", 200, "tokens of a run")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: bench [-runs N] [-tokens N] MODEL")
		os.Exit(2)
	}
	if err := measure(flag.Arg(0), *runs, uint32(*tokens)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(path string, runs int, tokens uint32) error {
	ways, err := waysOf(path)
	if err != nil {
		return err
	}
	for range runs {
		for at := range ways {
			way := &ways[at]
			begin := time.Now()
			n, err := way.run(tokens)
			way.times = append(way.times, time.Since(begin))
			if err == nil && n == 0 {
				err = fmt.Errorf("%s gave no text", way.name)
			}
			if err != nil {
				return err
			}
		}
	}
	plain := perToken(ways[0].times, tokens)
	for _, way := range ways {
		one := perToken(way.times, tokens)
		fmt.Printf("%-10s %8.0f ns per token, %+7.0f beyond C\n", way.name, one, one-plain)
	}
	return nil
}

// perToken is the median, in nanoseconds.
func perToken(times []time.Duration, tokens uint32) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / float64(tokens)
}

func waysOf(path string) ([]way, error) {
	ctx := context.Background()
	session, begin, err := open(ctx, path)
	if err != nil {
		return nil, err
	}
	name := C.CString(path)
	plain := C.bench_open(name, C.CString(prompt))
	if plain == nil {
		return nil, fmt.Errorf("C cannot open %s", path)
	}
	restart := func() error { _, err := session.SetTokens(begin); return err }
	n := 0
	return []way{
		{name: "C", run: func(tokens uint32) (int, error) {
			return int(C.bench_run(plain, C.uint32_t(tokens))), nil
		}},
		{name: "OnText", run: func(tokens uint32) (int, error) {
			if err := restart(); err != nil {
				return 0, err
			}
			n = 0
			count := func(text string) bool { n += len(text); return true }
			_, err := session.Generate(ctx, qinfer.GenerateOptions{MaxTokens: tokens, OnText: count})
			return n, err
		}},
		{name: "Stream", run: func(tokens uint32) (int, error) {
			if err := restart(); err != nil {
				return 0, err
			}
			n = 0
			for text, err := range session.Stream(ctx, qinfer.GenerateOptions{MaxTokens: tokens}) {
				if err != nil {
					return 0, err
				}
				n += len(text)
			}
			return n, nil
		}},
	}, nil
}

// open makes the session of the Go side: greedy, and with end tokens banned, as that of C.
func open(ctx context.Context, path string) (*qinfer.Session, []qinfer.Token, error) {
	runtime, err := qinfer.NewRuntime(qinfer.RuntimeOptions{Threads: 1})
	if err != nil {
		return nil, nil, err
	}
	model, err := qinfer.Load(ctx, path, qinfer.LoadOptions{Runtime: runtime})
	if err != nil {
		return nil, nil, err
	}
	session, err := model.NewSession(qinfer.SessionOptions{})
	if err != nil {
		return nil, nil, err
	}
	ends, err := model.EndTokens()
	if err != nil {
		return nil, nil, err
	}
	bias := make(map[qinfer.Token]float32)
	for _, end := range ends {
		bias[end] = -1e30
	}
	if err := session.SetBias(bias); err != nil {
		return nil, nil, err
	}
	tokens, err := model.Tokenize(prompt, qinfer.TokenizeOptions{})
	return session, tokens, err
}

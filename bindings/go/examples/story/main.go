// Command story tells a story as it is made up, until its end or the interrupt key.
//
//	story [-seed N] [-tokens N] [MODEL [BEGINNING]]
//
// Without MODEL it is one of the repository, wherever the program runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"qinfer"
)

func main() {
	seed := flag.Uint64("seed", 1, "another seed tells another story")
	tokens := flag.Uint("tokens", 300, "the most tokens that the story has")
	flag.Parse()
	_, file, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(file), "../../../../examples/models/tiny-stories")
	beginning := "Once upon a time"
	switch flag.NArg() {
	case 2:
		beginning = flag.Arg(1)
		fallthrough
	case 1:
		path = flag.Arg(0)
	case 0:
	default:
		fmt.Fprintln(os.Stderr, "usage: story [-seed N] [-tokens N] [MODEL [BEGINNING]]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := tell(ctx, path, beginning, *seed, uint32(*tokens))
	if errors.Is(err, context.Canceled) {
		fmt.Println(" ...")
	} else if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tell prints a story that begins with the words given.
func tell(ctx context.Context, path, beginning string, seed uint64, tokens uint32) error {
	model, err := qinfer.Load(ctx, path, qinfer.LoadOptions{})
	if err != nil {
		return err
	}
	defer model.Close()
	session, err := model.NewSession(qinfer.SessionOptions{})
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.SetSampler(qinfer.SamplerOptions{Temperature: 0.8, TopP: 0.95, Seed: seed}); err != nil {
		return err
	}
	if err := session.AppendText(beginning); err != nil {
		return err
	}
	fmt.Print(beginning)
	for text, err := range session.Stream(ctx, qinfer.GenerateOptions{MaxTokens: tokens}) {
		if err != nil {
			return err
		}
		fmt.Print(text)
	}
	fmt.Println()
	metrics, err := session.Metrics()
	if err == nil && metrics.Decode > 0 {
		fmt.Printf("(%.0f tokens per second)\n", float64(metrics.DecodeTokens)/metrics.Decode.Seconds())
	}
	return err
}

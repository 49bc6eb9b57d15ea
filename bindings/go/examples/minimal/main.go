// Command minimal is the program that README.md shows: the beginning of a story, as it comes.
//
//	minimal [MODEL]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"

	"qinfer"
)

func main() {
	ctx := context.Background()
	model, err := qinfer.Load(ctx, modelPath(), qinfer.LoadOptions{})
	check(err)
	defer model.Close()
	session, err := model.NewSession(qinfer.SessionOptions{})
	check(err)
	defer session.Close()
	check(session.AppendText("Once upon a time"))
	for text, err := range session.Stream(ctx, qinfer.GenerateOptions{MaxTokens: 50}) {
		check(err)
		fmt.Print(text)
	}
	fmt.Println()
}

// modelPath is the first argument, or a model of the repository, wherever the program runs.
func modelPath() string {
	if len(os.Args) > 1 {
		return os.Args[1]
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../../../examples/models/tiny-stories")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

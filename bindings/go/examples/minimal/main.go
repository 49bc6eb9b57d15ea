// Command minimal is the program that README.md shows: the beginning of a story, as it comes.
package main

import (
	"context"
	"fmt"
	"log"

	"qinfer"
)

func main() {
	ctx := context.Background()
	model, err := qinfer.Load(ctx, "examples/models/tiny-stories", qinfer.LoadOptions{})
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
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

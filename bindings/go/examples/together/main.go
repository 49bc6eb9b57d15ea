// Command together is the program that README.md shows for engines: several stories, whose tokens are drawn as one
// batch.
//
//	together [MODEL]
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
	cache, err := model.NewKvCache(qinfer.KvCacheOptions{BudgetBlocks: 32})
	check(err)
	defer cache.Close()
	engine, err := cache.NewEngine(qinfer.EngineOptions{})
	check(err)
	defer engine.Close()
	var requests []*qinfer.Request
	for seed := range uint64(4) {
		session, err := cache.NewSession(qinfer.SessionOptions{MaxTokens: 64})
		check(err)
		check(session.AppendText("Once upon a time"))
		check(session.SetSampler(qinfer.SamplerOptions{Temperature: 0.8, Seed: seed}))
		request, err := engine.Submit(ctx, session, qinfer.GenerateOptions{MaxTokens: 50}, qinfer.RequestOptions{})
		check(err)
		session.Close() // it is freed when the request has ended
		requests = append(requests, request)
	}
	for _, request := range requests {
		fmt.Print("Once upon a time")
		for piece, err := range request.Stream() {
			check(err)
			fmt.Print(piece.Text)
		}
		fmt.Println()
	}
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

// Command schema is the program that README.md shows for grammars: a document that fulfils a JSON schema. It needs
// libqinfer_grammar.
//
//	schema [MODEL]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"

	"qinfer"
)

func main() {
	model, err := qinfer.Load(context.Background(), modelPath(), qinfer.LoadOptions{})
	check(err)
	defer model.Close()
	grammar, err := model.JSONSchema(`{"type": "object", "properties": {
		"name": {"enum": ["Lily", "Tom", "Sue"]}, "age": {"type": "integer", "minimum": 3, "maximum": 9}},
		"required": ["name", "age"], "additionalProperties": false}`, qinfer.GrammarOptions{})
	check(err)
	chat := model.NewChat()
	defer chat.Close()
	chat.Grammar = grammar
	reply, err := chat.Send(context.Background(), "Make up a child, as JSON with a name and an age.")
	check(err)
	var child struct {
		Name string
		Age  int
	}
	check(json.Unmarshal([]byte(reply), &child))
	fmt.Printf("%s is %d years old\n", child.Name, child.Age)
}

// modelPath is the first argument, or a model of the repository, wherever the program runs.
func modelPath() string {
	if len(os.Args) > 1 {
		return os.Args[1]
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../../../examples/models/tiny-chat")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

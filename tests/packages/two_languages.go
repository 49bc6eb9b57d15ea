// Package main is a shared library in Go over the binding of bindings/go, which a process of another language loads:
// check_languages.sh.
package main

/*
#include <stdint.h>
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"unsafe"

	"qinfer"
)

func tell(path, prompt string, tokens int) string {
	ctx := context.Background()
	model, err := qinfer.Load(ctx, path, qinfer.LoadOptions{})
	if err != nil {
		return err.Error()
	}
	defer model.Close()
	session, err := model.NewSession(qinfer.SessionOptions{MaxTokens: 128})
	if err != nil {
		return err.Error()
	}
	defer session.Close()
	if err := session.AppendText(prompt); err != nil {
		return err.Error()
	}
	out, err := session.Generate(ctx, qinfer.GenerateOptions{MaxTokens: uint32(tokens)})
	if err != nil {
		return err.Error()
	}
	return out.Text
}

// TellStory continues a text. What it returns is for FreeText.
//
//export TellStory
func TellStory(path, prompt *C.char, tokens C.int32_t) *C.char {
	return C.CString(tell(C.GoString(path), C.GoString(prompt), int(tokens)))
}

//export FreeText
func FreeText(text *C.char) { C.free(unsafe.Pointer(text)) }

// LibraryVersion is that of the qinfer that Go's part of the process uses.
//
//export LibraryVersion
func LibraryVersion() *C.char { return C.CString(qinfer.Version()) }

func main() {}

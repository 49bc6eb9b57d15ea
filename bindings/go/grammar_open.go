// Where libqinfer_grammar is looked for. It is loaded with the first grammar: programs without one do not need it.

package qinfer

// #cgo LDFLAGS: -ldl
// #include "grammar_library.h"
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// grammarVariable names the file of another library, as in the binding for Python.
const grammarVariable = "QINFER_GRAMMAR_LIBRARY"

var grammarLibrary struct {
	mu     sync.Mutex
	loaded bool
}

// loadGrammarLibrary loads it, if no call before has. One that was not there is looked for again.
func loadGrammarLibrary() error {
	grammarLibrary.mu.Lock()
	defer grammarLibrary.mu.Unlock()
	if grammarLibrary.loaded {
		return nil
	}
	if C.qgo_has_grammars() == 0 {
		return newError(StatusNotFound, "grammars need %s, and the program was built where there is no "+
			"qinfer/qinfer_grammar.h: install the library (it is built with qinfer where there is cargo, and a package of its "+
			"own) with its header, and build the program with go build -a", C.QGO_GRAMMAR_SONAME)
	}
	path, where := grammarLibraryPath()
	var t texts
	defer t.free()
	native := t.add(grammarVariable, path)
	if t.err != nil {
		return t.err
	}
	var why [1024]C.char
	if C.qgo_grammar_open(native, &why[0], C.size_t(len(why))) != 0 {
		return newError(StatusNotFound, "grammars need %s, which was looked for %s: %s; install it (it is built with qinfer "+
			"where there is cargo, and a package of its own), or name its file in the environment variable %s",
			C.QGO_GRAMMAR_SONAME, where, C.GoString(&why[0]), grammarVariable)
	}
	grammarLibrary.loaded = true
	return nil
}

// grammarLibraryPath is what to load, and that in words: what the environment names, or what is next to libqinfer, or what
// the system finds.
func grammarLibraryPath() (path, where string) {
	if path = os.Getenv(grammarVariable); path != "" {
		return path, fmt.Sprintf("where %s says (%s)", grammarVariable, path)
	}
	var library [4096]C.char
	C.qgo_library_path(&library[0], C.size_t(len(library)))
	found := C.GoString(&library[0])
	if !strings.Contains(found, "/") { // not known: this folder is none where programs look for libraries
		return C.QGO_GRAMMAR_SONAME, "where the system has its libraries"
	}
	folder := filepath.Dir(found)
	next := filepath.Join(folder, C.QGO_GRAMMAR_SONAME)
	if _, err := os.Stat(next); err == nil {
		return next, "next to libqinfer, in " + folder
	}
	return C.QGO_GRAMMAR_SONAME, fmt.Sprintf("next to libqinfer, in %s, and where the system has its libraries", folder)
}

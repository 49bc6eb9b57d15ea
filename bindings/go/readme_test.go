// The code that README.md shows is that of programs which test.sh runs.

package qinfer_test

import (
	"os"
	"strings"
	"testing"
)

func TestReadmeShowsTheProgramsThatAreRun(t *testing.T) {
	readme, script := string(must(os.ReadFile("README.md"))(t)), string(must(os.ReadFile("test.sh"))(t))
	for _, name := range []string{"minimal", "together", "schema"} {
		program := string(must(os.ReadFile("examples/" + name + "/main.go"))(t))
		_, rest, found := strings.Cut(program, "func main() {\n")
		body, _, ended := strings.Cut(rest, "\n}\n")
		if !found || !ended {
			t.Fatalf("%s has no main", name)
		}
		shown := strings.ReplaceAll("\n"+body+"\n", "\n\t", "\n")
		if !strings.Contains(readme, "```go"+shown+"```") {
			t.Errorf("README.md does not show%s", shown)
		}
		if !strings.Contains(script, "$work/bin/"+name+"\"") {
			t.Errorf("test.sh does not run %s", name)
		}
	}
}

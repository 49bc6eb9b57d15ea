// The code that README.md shows is that of a program which test.sh runs.

package qinfer_test

import (
	"os"
	"strings"
	"testing"
)

func TestReadmeShowsTheProgramThatIsRun(t *testing.T) {
	readme := string(must(os.ReadFile("README.md"))(t))
	program := string(must(os.ReadFile("examples/minimal/main.go"))(t))
	_, rest, found := strings.Cut(program, "func main() {\n")
	body, _, ended := strings.Cut(rest, "\n}\n")
	if !found || !ended {
		t.Fatal("the program has no main")
	}
	shown := strings.ReplaceAll("\n"+body+"\n", "\n\t", "\n")
	if !strings.Contains(readme, "```go"+shown+"```") {
		t.Errorf("README.md does not show%s", shown)
	}
}

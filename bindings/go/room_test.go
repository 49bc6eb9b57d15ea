// Room for what the library writes: grown where a call asks for more, and only there.

package qinfer_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"qinfer"
)

func TestASizeThatFitsIsAnError(t *testing.T) {
	tooSmall := &qinfer.Error{Status: qinfer.StatusBufferTooSmall, Message: "the room is too small"}
	asked := []int{}
	read := func(sizes ...uint64) ([]byte, error) {
		asked = nil
		return qinfer.ReadRoom(4, func(values []byte) (uint64, error) {
			asked = append(asked, len(values))
			if len(asked) > len(sizes) {
				return uint64(copy(values, "enough")), nil
			}
			return sizes[len(asked)-1], tooSmall
		})
	}
	if text := must(read(5, 6))(t); string(text) != "enough" || !slices.Equal(asked, []int{4, 5, 6}) {
		t.Errorf("read %q with room for %v", text, asked)
	}
	for _, size := range []uint64{0, 3, 4, 1 << 50, math.MaxUint64} {
		_, err := read(size)
		if !errors.Is(err, qinfer.ErrBufferTooSmall) && !errors.Is(err, qinfer.ErrNoMemory) || len(asked) != 1 {
			t.Errorf("got %v after room for %v", err, asked)
		}
	}
	_, err := qinfer.ReadRoom(4, func([]byte) (uint64, error) { return 5, nil })
	expectStatus(t, err, qinfer.ErrInternal)
}

// Errors: every failed call of the library is an *Error.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
)

// Status says what kind of failure it is. The numbers are those of the C ABI; a later library may have more of them.
type Status int32

// The statuses of the library.
const (
	StatusInternal        Status = C.QINFER_E_INTERNAL         // a bug in qinfer: the handles involved can only be closed
	StatusInvalidArgument Status = C.QINFER_E_INVALID_ARGUMENT // Detail: index of the element at fault, if any
	StatusState           Status = C.QINFER_E_STATE            // the right call at the wrong time
	StatusUnsupported     Status = C.QINFER_E_UNSUPPORTED      // an architecture, format, CPU or option
	StatusNoMemory        Status = C.QINFER_E_NO_MEMORY        // of the system or a budget; Detail: bytes needed, if known
	StatusIO              Status = C.QINFER_E_IO               // Detail: errno
	StatusNotFound        Status = C.QINFER_E_NOT_FOUND        // Detail: errno, where a file is missing
	StatusFormat          Status = C.QINFER_E_FORMAT           // damaged input; Detail: the byte offset, or -1
	StatusBufferTooSmall  Status = C.QINFER_E_BUFFER_TOO_SMALL // Detail: elements needed
	StatusKvFull          Status = C.QINFER_E_KV_FULL          // Detail: the index of the first session without room
	StatusContextFull     Status = C.QINFER_E_CONTEXT_FULL     // the session is at its limit of tokens
	StatusCancelled       Status = C.QINFER_E_CANCELLED        // by a context or a callback
	StatusNumeric         Status = C.QINFER_E_NUMERIC          // logits that are not finite, or none left to draw from
)

// String is the name in the C ABI, such as "QINFER_E_IO".
func (s Status) String() string {
	return C.GoString(C.qinfer_status_name(C.qinfer_status(s)))
}

// Error is a call that failed. errors.Is compares it with ErrKvFull and the others by status; it also finds the end of
// a context, the error that a callback returned, and the errno of a file.
type Error struct {
	Status  Status
	Message string // what the library says; of more than 16 KiB with "..." for its middle
	Detail  int64  // as the constant of the status says, else 0

	causes []error
	closed bool // ErrClosed, too
}

// Errors to compare with, by errors.Is.
var (
	ErrInternal        error = &Error{Status: StatusInternal}
	ErrInvalidArgument error = &Error{Status: StatusInvalidArgument}
	ErrState           error = &Error{Status: StatusState}
	ErrUnsupported     error = &Error{Status: StatusUnsupported}
	ErrNoMemory        error = &Error{Status: StatusNoMemory}
	ErrIO              error = &Error{Status: StatusIO}
	ErrNotFound        error = &Error{Status: StatusNotFound}
	ErrFormat          error = &Error{Status: StatusFormat}
	ErrBufferTooSmall  error = &Error{Status: StatusBufferTooSmall}
	ErrKvFull          error = &Error{Status: StatusKvFull}
	ErrContextFull     error = &Error{Status: StatusContextFull}
	ErrCancelled       error = &Error{Status: StatusCancelled}
	ErrNumeric         error = &Error{Status: StatusNumeric}
)

// ErrClosed is what errors.Is finds in the error of a call that was given a handle after its Close, or one that no
// function of this package made.
var ErrClosed = errors.New("qinfer: the handle is closed")

func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := "qinfer: " + e.Status.String()
	if e.Message != "" {
		text += ": " + e.Message
	}
	for _, cause := range e.causes {
		text += ": " + cause.Error()
	}
	return text
}

// Is reports whether target is the Err variable of this status, or ErrClosed where a handle was.
func (e *Error) Is(target error) bool {
	if e == nil {
		return false
	}
	if target == ErrClosed {
		return e.closed
	}
	t, ok := target.(*Error)
	return ok && t != nil && t.Message == "" && t.causes == nil && t.Status == e.Status
}

// Unwrap gives what made the call fail: the error of a context or a callback, and a syscall.Errno where Detail is one.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil
	}
	causes := e.causes
	if (e.Status == StatusIO || e.Status == StatusNotFound) && e.Detail > 0 {
		causes = append([]error{syscall.Errno(e.Detail)}, causes...)
	}
	return causes
}

// because adds a cause to an error of the library that has this status.
func because(err error, status Status, cause error) error {
	var failed *Error
	if cause != nil && errors.As(err, &failed) && failed.Status == status {
		failed.causes = append(failed.causes, cause)
	}
	return err
}

func newError(status Status, format string, arguments ...any) error {
	return &Error{Status: status, Message: fmt.Sprintf(format, arguments...)}
}

// Files of the program in place of the operating system's.

package qinfer

// #include "trampolines.h"
import "C"

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"runtime/cgo"
	"unsafe"
)

// Files opens files, so that models and snapshots can come from an archive, an encrypted store or memory. Weights are
// read into private memory. Names are what the call was given as a path, or that with "/config.json" and the like.
//
// An [*Error] that is returned becomes that status of the call, another error [ErrIO]; errors.Is finds it in what the
// call returns. An error that is fs.ErrNotExist says that there is no such file.
type Files interface {
	// Open opens a file. With write it is for reading and writing, and made if there is none; then the File must also be
	// a [WritableFile].
	Open(name string, write bool) (File, error)
}

// File is a file that [Files] opened. It is used by one goroutine at a time, and closed once.
type File interface {
	io.ReaderAt
	io.Closer
	// Size is asked once, after opening: in bytes.
	Size() (int64, error)
}

// WritableFile is a file that snapshots are saved to. If it also has Truncate(size int64) error, what is of no use any
// more is cut off.
type WritableFile interface {
	File
	io.WriterAt
	// Sync returns when all that was written will last.
	Sync() error
}

// filesCall is the user pointer of the files of one call. All files are closed before the call ends.
type filesCall struct {
	caught
	files  Files
	open   []File // C knows a file as its place here
	status Status // that the last error became
	failed bool   // a callback failed; not: a file was missing where one may be
}

// run runs a callback. Only where it opens a file the file may be missing.
func (c *filesCall) run(opening bool, callback func() error) C.qinfer_status {
	if c.caught.run(callback) {
		return C.QINFER_OK
	}
	c.status = StatusIO
	var failed *Error
	switch {
	case c.panicked:
	case errors.As(c.err, &failed) && failed != nil && failed.Status < 0 && failed.Status != StatusInternal:
		c.status = failed.Status
	case errors.Is(c.err, fs.ErrNotExist):
		c.status = StatusNotFound
	}
	if !opening && c.status == StatusNotFound {
		c.status = StatusIO
	}
	c.failed = c.failed || c.status != StatusNotFound
	return C.qinfer_status(c.status)
}

func filesOf(user C.uintptr_t) *filesCall {
	return cgo.Handle(user).Value().(*filesCall)
}

//export qgoFileOpen
func qgoFileOpen(user C.uintptr_t, name *C.char, mode C.int32_t, out *C.uintptr_t) C.qinfer_status {
	c := filesOf(user)
	return c.run(true, func() error {
		file, err := c.files.Open(C.GoString(name), mode == C.QINFER_FILE_WRITE)
		if err == nil && file == nil {
			err = newError(StatusInvalidArgument, "Open gave no file and no error")
		}
		if err != nil {
			return err
		}
		*out = C.uintptr_t(len(c.open))
		c.open = append(c.open, file)
		return nil
	})
}

//export qgoFileSize
func qgoFileSize(user, file C.uintptr_t, out *C.uint64_t) C.qinfer_status {
	c := filesOf(user)
	return c.run(false, func() error {
		size, err := c.open[file].Size()
		if err == nil && size < 0 {
			err = newError(StatusIO, "Size gave %d, expected 0 or more", size)
		}
		*out = C.uint64_t(size)
		return err
	})
}

//export qgoFileReadAt
func qgoFileReadAt(user, file C.uintptr_t, offset C.uint64_t, data unsafe.Pointer, n C.size_t) C.qinfer_status {
	c := filesOf(user)
	return c.run(false, func() error {
		read, err := c.open[file].ReadAt(unsafe.Slice((*byte)(data), n), int64(offset))
		if read == int(n) {
			return nil // at the end of the file ReadAt may say so
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

//export qgoFileWriteAt
func qgoFileWriteAt(user, file C.uintptr_t, offset C.uint64_t, data unsafe.Pointer, n C.size_t) C.qinfer_status {
	c := filesOf(user)
	return c.run(false, func() error {
		to, ok := c.open[file].(WritableFile)
		if !ok || offset > math.MaxInt64 {
			return newError(StatusUnsupported, "the file is not a WritableFile")
		}
		written, err := to.WriteAt(unsafe.Slice((*byte)(data), n), int64(offset))
		if err == nil && written != int(n) {
			err = io.ErrShortWrite
		}
		return err
	})
}

//export qgoFileSync
func qgoFileSync(user, file C.uintptr_t) C.qinfer_status {
	c := filesOf(user)
	return c.run(false, func() error {
		if to, ok := c.open[file].(WritableFile); ok {
			return to.Sync()
		}
		return nil
	})
}

//export qgoFileTruncate
func qgoFileTruncate(user, file C.uintptr_t, size C.uint64_t) C.qinfer_status {
	c := filesOf(user)
	return c.run(false, func() error {
		if to, ok := c.open[file].(interface{ Truncate(size int64) error }); ok {
			return to.Truncate(int64(size))
		}
		return nil
	})
}

//export qgoFileClose
func qgoFileClose(user, file C.uintptr_t) C.qinfer_status {
	c := filesOf(user)
	// Also after a panic of another callback: the file is open, and nothing else will close it.
	if err := c.protect(func() error { return c.open[file].Close() }); err != nil {
		if !c.failed { // else the file was closed because of that
			c.err, c.status, c.failed = err, StatusIO, true
		}
		return C.QINFER_E_IO
	}
	return C.QINFER_OK
}

// withFiles makes a call with the handle of the files, which is 0 for nil.
func withFiles(files Files, f func(user C.uintptr_t) error, discard func()) error {
	if files == nil {
		return f(0)
	}
	c := &filesCall{files: files}
	user := cgo.NewHandle(c)
	defer user.Delete()
	err := f(C.uintptr_t(user))
	return c.finish(err, c.status, discard)
}

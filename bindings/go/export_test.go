// What the tests of the package's inside need.

package qinfer

// ReadRoom is what reads every text and list of the library.
var ReadRoom = readRoom[byte]

// OnFree has a function called when the matcher is freed.
func OnFree(m *Matcher, freed func()) {
	free := m.object.free
	m.object.free = func() {
		free()
		freed()
	}
}

// What the tests of the package's inside need.

package qinfer

// ReadRoom is what reads every text and list of the library.
var ReadRoom = readRoom[byte]

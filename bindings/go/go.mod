// The Go binding of qinfer. The name claims no host: programs that use it say in their go.mod where it is (README.md).
module qinfer

go 1.23

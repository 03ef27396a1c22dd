//go:build !amd64 && !arm64

package prefetch

func Read(uintptr) {}

func Write(uintptr) {}

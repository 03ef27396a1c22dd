// Command weir limits how much callers may do: a daemon, a proxy, and the tools
// around them. Run "weir help" for what it can do.
package main

import (
	"os"

	"github.com/weirhq/weir/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}

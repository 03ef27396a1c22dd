//go:build !unix

package loadgen

import "time"

// processCPU cannot be told here.
func processCPU() time.Duration { return 0 }

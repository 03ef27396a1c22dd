#include "textflag.h"

// func prefetch(address uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	PREFETCHT0 (AX)
	RET

#include "textflag.h"

// func prefetch(address uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVD address+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func prefetchOwned(address uintptr)
TEXT ·prefetchOwned(SB), NOSPLIT, $0-8
	MOVD address+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET

#include "textflag.h"

// func prefetch(address uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func prefetchOwned(address uintptr)
TEXT ·prefetchOwned(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler has no word for
	RET

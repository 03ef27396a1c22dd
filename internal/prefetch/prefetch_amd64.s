#include "textflag.h"

// func Read(address uintptr)
TEXT ·Read(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Write(address uintptr)
TEXT ·Write(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08 // PREFETCHW (AX), which the assembler has no word for
	RET

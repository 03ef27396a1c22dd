#include "textflag.h"

// func Read(address uintptr)
TEXT ·Read(SB), NOSPLIT, $0-8
	MOVD address+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func Write(address uintptr)
TEXT ·Write(SB), NOSPLIT, $0-8
	MOVD address+0(FP), R0
	PRFM (R0), PSTL1KEEP
	RET

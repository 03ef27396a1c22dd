package regions

import (
	_ "embed"

	"github.com/redis/rueidis"
)

var (
	//go:embed lua/post.lua
	postText string
	//go:embed lua/finish.lua
	finishText string
	//go:embed lua/leave.lua
	leaveText string
	//go:embed lua/shares.lua
	sharesText string

	postScript   = rueidis.NewLuaScript(postText)
	finishScript = rueidis.NewLuaScript(finishText)
	leaveScript  = rueidis.NewLuaScript(leaveText)
	sharesScript = rueidis.NewLuaScript(sharesText)
)

package regions

import (
	_ "embed"

	"github.com/redis/rueidis"
)

var (
	//go:embed lua/post.lua
	postText string
	//go:embed lua/leave.lua
	leaveText string
	//go:embed lua/shares.lua
	sharesText string

	postScript   = rueidis.NewLuaScript(postText)
	leaveScript  = rueidis.NewLuaScript(leaveText)
	sharesScript = rueidis.NewLuaScript(sharesText)
)

package resp

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error)      { return len(b), nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkAnswer is 16 commands from the buffer to the write.
func BenchmarkAnswer(b *testing.B) {
	l, err := weir.New(weir.Options{})
	must(b, err)
	c := &conn{Conn: sink{}, server: New(Options{Limiter: l}), proto: 2, trusted: true}
	texts := make([]string, 1000)
	for i := range texts {
		var s strings.Builder
		for j := range 16 {
			key := fmt.Sprintf("user:%d", i*16+j)
			fmt.Fprintf(&s, "*5\r\n$11\r\nCL.THROTTLE\r\n$%d\r\n%s\r\n$4\r\n9999\r\n$4\r\n9999\r\n$2\r\n60\r\n", len(key), key)
		}
		texts[i] = s.String()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.buf = append(make([]byte, 0, 4096)[:0:4096], texts[i%len(texts)]...)
		must(b, c.answer())
	}
}

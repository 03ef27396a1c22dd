package regions

import (
	"context"

	"github.com/weirhq/weir/redisstore"
)

// Add notes a debit of a limit that regions share. Front does it for those who
// have a Layer; it is for who has none.
func (e *Exchange) Add(c redisstore.Consumption) { e.add(c) }

// Payload returns the letter as it is put into the peer's stream.
func (l *Letter) Payload() []byte { return l.payload }

// HearPayload is Hear for a letter's payload.
func (e *Exchange) HearPayload(ctx context.Context, from string, payload []byte) error {
	taken, err := decode(payload)
	if err != nil {
		return err
	}
	return e.Hear(ctx, from, taken)
}

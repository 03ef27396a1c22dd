package regions

import "context"

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

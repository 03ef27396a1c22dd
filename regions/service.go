package regions

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/redisstore"
)

// Options configures a Service.
type Options struct {
	Region string // this region's name; letters, digits, . _ -
	// Peers are the other regions and the URLs of their stores, as
	// redisstore.Open takes them.
	Peers map[string]string
	// Interval is how often changed keys are told, 200 ms if 0; 100 to 500 ms is
	// usual.
	Interval time.Duration
	// Lag is how long a message takes one way, as far as the promise counts on
	// it; 250 ms if 0.
	Lag time.Duration

	// Forget is how long a key is kept track of that nobody uses; a minute if 0.
	Forget time.Duration

	Store *redisstore.Store  // this region's
	URL   string             // where it is
	Conn  redisconn.Settings // what the URLs cannot carry, for all of them
	// OnError is told of what went wrong, once when a kind of fault begins and
	// once (with nil) when it has ended, or nil.
	OnError func(what string, err error)
}

// The defaults of Options.
const (
	DefaultInterval = 200 * time.Millisecond
	DefaultLag      = 250 * time.Millisecond
)

// Service carries an Exchange's letters between regions, over streams in their
// stores. It is safe for concurrent use.
type Service struct {
	*Exchange
	o        Options
	id       string // of this instance among the region's
	home     *redisconn.Conn
	away     map[string]*redisconn.Conn
	stream   string
	stop     context.CancelFunc
	done     sync.WaitGroup
	stopping chan struct{}
	told     chan struct{} // closed when the last letters have gone
	faults   sync.Map      // what → *atomic.Bool
}

var regionName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Bounds of what is on its way.
const (
	inFlight  = 8       // letters to one peer
	streamLen = 100_000 // letters that wait in a region's stream, about
	block     = 500 * time.Millisecond
	patience  = 5 * time.Second // for a letter's acknowledgement; then it is due again
	reclaim   = 5 * time.Second // letters that an instance took and did not finish
	group     = "weir"
	readBatch = 64
	farewell  = time.Second
)

// Start begins to exchange. A peer that cannot be reached is no error: what it
// must hear waits. The caller closes the service, and after that the store.
func Start(o Options) (*Service, error) {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Lag <= 0 {
		o.Lag = DefaultLag
	}
	settings := Settings{Region: o.Region, Interval: o.Interval, Lag: o.Lag, Forget: o.Forget}
	for name := range o.Peers {
		settings.Peers = append(settings.Peers, name)
	}
	for _, name := range append([]string{o.Region}, settings.Peers...) {
		if !regionName.MatchString(name) {
			return nil, fmt.Errorf("regions: %q is no name of a region; use letters, digits, . _ and -", name)
		}
	}
	id := make([]byte, 9)
	rand.Read(id) // never fails: see crypto/rand
	s := &Service{
		Exchange: NewExchange(o.Store, settings), o: o, id: base64.RawURLEncoding.EncodeToString(id),
		away: map[string]*redisconn.Conn{}, stream: o.Store.Prefix() + "1:{regions}in", stopping: make(chan struct{}), told: make(chan struct{}),
	}
	o.Conn.Response = max(o.Conn.Response, patience)
	var err error
	if s.home, err = redisconn.Open(o.URL, o.Conn); err != nil {
		return nil, fmt.Errorf("regions: %w", err)
	}
	o.Conn.Dial = patience
	for name, url := range o.Peers {
		if s.away[name], err = redisconn.Open(url, o.Conn); err != nil {
			return nil, errors.Join(fmt.Errorf("regions: %s: %w", name, err), s.closeConns())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.done.Go(func() { s.tell(ctx) })
	s.done.Go(func() { s.listen(ctx) })
	s.done.Go(func() { s.keepShares(ctx) })
	return s, nil
}

// tell collects and sends, every interval, until the service closes; then once
// more, so that what was admitted last is known elsewhere.
func (s *Service) tell(ctx context.Context) {
	defer close(s.told)
	tick := time.NewTicker(s.o.Interval)
	defer tick.Stop()
	var sending sync.WaitGroup
	room := map[string]chan struct{}{}
	for name := range s.away {
		room[name] = make(chan struct{}, inFlight)
	}
	round := func(ctx context.Context) {
		s.report("what was taken cannot be added to this region's counters", s.Collect(ctx))
		for name := range s.away {
			s.sendAll(ctx, name, room[name], &sending)
		}
	}
	for {
		select {
		case <-tick.C:
			round(ctx)
			s.report("what came early cannot be debited", s.Again(ctx))
		case <-s.stopping:
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			round(last)
			sending.Wait()
			return
		}
	}
}

// sendAll sends a peer what is due to it, as far as there is room on the way.
func (s *Service) sendAll(ctx context.Context, name string, room chan struct{}, sending *sync.WaitGroup) {
	for {
		select {
		case room <- struct{}{}:
		default:
			return
		}
		l := s.Letter(name)
		if l == nil {
			<-room
			return
		}
		sending.Go(func() {
			defer func() { <-room }()
			err := s.send(ctx, l)
			s.Done(l, err == nil)
			s.report("region "+name+" does not take messages; they wait", err)
		})
	}
}

// send puts a letter into the peer's stream.
func (s *Service) send(ctx context.Context, l *Letter) error {
	body := string(encode(nil, l.Taken))
	s.count(len(body))
	return s.post(ctx, l.Peer, "b", body)
}

// post adds a message to a peer's stream.
func (s *Service) post(ctx context.Context, name, kind, body string) error {
	client, err := s.away[name].Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return client.Do(ctx, client.B().Xadd().Key(s.stream).Maxlen().Almost().Threshold(fmt.Sprint(streamLen)).Id("*").
		FieldValue().FieldValue("f", s.o.Region).FieldValue("k", s.o.Store.Fingerprint()).FieldValue(kind, body).Build()).Error()
}

// report tells OnError when a kind of fault begins and when it has ended.
func (s *Service) report(what string, err error) {
	if s.o.OnError == nil || errors.Is(err, context.Canceled) {
		return
	}
	v, _ := s.faults.LoadOrStore(what, new(atomic.Bool))
	if v.(*atomic.Bool).CompareAndSwap(err == nil, err != nil) {
		s.o.OnError(what, err)
	}
}

// listen hears the letters in this region's stream, which its instances share.
func (s *Service) listen(ctx context.Context) {
	claimed := time.Now()
	for ctx.Err() == nil {
		client, err := s.home.Client()
		if err == nil {
			if time.Since(claimed) > reclaim {
				claimed = time.Now()
				err = s.claim(ctx, client)
			} else {
				err = s.read(ctx, client)
			}
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if strings.Contains(err.Error(), "NOGROUP") { // at first, and after a flush
			err = client.Do(ctx, client.B().XgroupCreate().Key(s.stream).Group(group).Id("0").Mkstream().Build()).Error()
			if err == nil || strings.Contains(err.Error(), "BUSYGROUP") {
				continue
			}
		}
		s.report("this region's stream cannot be read", err)
		select {
		case <-ctx.Done():
		case <-time.After(block):
		}
	}
}

// read waits for letters and hears them.
func (s *Service) read(ctx context.Context, client rueidis.Client) error {
	streams, err := client.Do(ctx, client.B().Xreadgroup().Group(group, s.id).Count(readBatch).Block(block.Milliseconds()).
		Streams().Key(s.stream).Id(">").Build()).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.report("this region's stream cannot be read", nil)
	return s.hearAll(ctx, client, streams[s.stream])
}

// claim takes over letters that another instance took and did not finish.
func (s *Service) claim(ctx context.Context, client rueidis.Client) error {
	reply, err := client.Do(ctx, client.B().Xautoclaim().Key(s.stream).Group(group).Consumer(s.id).
		MinIdleTime(fmt.Sprint(reclaim.Milliseconds())).Start("0-0").Count(readBatch).Build()).ToArray()
	if err != nil || len(reply) < 2 {
		return err
	}
	entries, err := reply[1].AsXRange()
	if err != nil {
		return err
	}
	return s.hearAll(ctx, client, entries)
}

// hearAll hears letters and takes them out of the stream. While this region's
// store fails they stay, for whoever can.
func (s *Service) hearAll(ctx context.Context, client rueidis.Client, entries []rueidis.XRangeEntry) error {
	if len(entries) == 0 {
		return nil
	}
	var ids []string
	var errs []error
	for _, entry := range entries {
		err := s.hear(ctx, entry.FieldValues)
		if unread := (*letterError)(nil); err == nil || errors.As(err, &unread) {
			s.report("messages of a region are not understood", err)
			ids = append(ids, entry.ID)
			continue
		}
		errs = append(errs, err)
	}
	if len(ids) > 0 {
		for _, answer := range client.DoMulti(ctx,
			client.B().Xack().Key(s.stream).Group(group).Id(ids...).Build(),
			client.B().Xdel().Key(s.stream).Id(ids...).Build()) {
			errs = append(errs, answer.Error())
		}
	}
	return errors.Join(errs...)
}

// letterError is a letter that will not be understood later either.
type letterError struct{ err error }

func (e *letterError) Error() string { return e.err.Error() }

// hear hears one letter.
func (s *Service) hear(ctx context.Context, fields map[string]string) error {
	if fields["k"] != s.o.Store.Fingerprint() {
		return &letterError{errors.New("the region " + fields["f"] + " has another key secret")}
	}
	if body, ok := fields["s"]; ok {
		return s.heardShares(ctx, fields["f"], body)
	}
	taken, err := decode([]byte(fields["b"]))
	if err != nil {
		return &letterError{err}
	}
	return s.Exchange.Hear(ctx, fields["f"], taken)
}

// Close tells what was taken last, as far as a second allows, and ends the
// exchange. The store stays open.
func (s *Service) Close() error {
	close(s.stopping)
	<-s.told
	s.stop()
	s.done.Wait()
	return s.closeConns()
}

func (s *Service) closeConns() error {
	errs := []error{s.home.Close()}
	for _, c := range s.away {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

package resp

import (
	"bytes"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// command is one that the door knows. Arity is that of Redis: the number of
// words, or at least so many if it is negative.
type command struct {
	arity int
	keys  bool // the second word is a key
	open  bool // may come before AUTH
	run   func(c *conn, b *batch, args [][]byte)
}

var commands map[string]command

func init() { // refers to what refers to it
	commands = map[string]command{
		"cl.throttle": {arity: -1, keys: true, run: (*conn).clThrottle}, // says itself how it is used
		"weir.take":   {arity: -3, keys: true, run: (*conn).weirTake},
		"ping":        {arity: -1, run: (*conn).ping},
		"echo":        {arity: 2, run: func(_ *conn, b *batch, args [][]byte) { b.bulk(args[1]) }},
		"hello":       {arity: -1, open: true, run: (*conn).hello},
		"auth":        {arity: -2, open: true, run: (*conn).auth},
		"select":      {arity: 2, run: (*conn).selectDB},
		"quit":        {arity: -1, open: true, run: func(c *conn, b *batch, _ [][]byte) { b.ok(); c.ending = true }},
		"command":     {arity: -1, run: (*conn).command},
		"info":        {arity: -1, run: (*conn).info},
		"client":      {arity: -2, run: (*conn).client},
		"cluster":     {arity: -2, run: func(_ *conn, b *batch, _ [][]byte) { b.fail("ERR This instance has cluster support disabled") }},
	}
}

// longest is longer than the name of any command.
const longest = 16

// execute runs one command: it adds its reply to the batch.
func (c *conn) execute(b *batch, args [][]byte) {
	var room [longest]byte
	name := room[:0]
	for _, ch := range args[0][:min(len(args[0]), longest)] {
		if ch >= 'A' && ch <= 'Z' {
			ch += 'a' - 'A'
		}
		name = append(name, ch)
	}
	cmd, known := commands[string(name)]
	switch {
	case known && len(args[0]) < longest && !c.trusted && !cmd.open:
		b.fail("NOAUTH Authentication required.")
	case known && len(args[0]) < longest:
		if cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity {
			b.fail("ERR wrong number of arguments for '" + string(name) + "' command")
			return
		}
		cmd.run(c, b, args)
	case bytes.EqualFold(args[0], []byte("host:")) || bytes.EqualFold(args[0], []byte("post")):
		// Somebody speaks HTTP: a browser that was tricked into it. It is told
		// nothing, not even what its lines before this one came to.
		b.ops, b.text, b.used = b.ops[:0], b.text[:0], 0
		c.ending = true
	case !c.trusted:
		b.fail("NOAUTH Authentication required.")
	default:
		var given strings.Builder
		for _, arg := range args[1:] {
			if given.Len() >= 128 {
				break
			}
			given.WriteString("'" + printable(arg) + "' ")
		}
		b.fail("ERR unknown command '" + printable(args[0]) + "', with args beginning with: " + given.String())
	}
}

func (b *batch) bulk(s []byte) { b.reply(func(to []byte) []byte { return appendBulk(to, s) }) }

func (c *conn) ping(b *batch, args [][]byte) {
	switch len(args) {
	case 1:
		b.raw("+PONG\r\n")
	case 2:
		b.bulk(args[1])
	default:
		b.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) selectDB(b *batch, args [][]byte) {
	switch n, ok := integer(args[1]); {
	case !ok:
		b.fail("ERR value is not an integer or out of range")
	case n != 0:
		b.fail("ERR DB index is out of range")
	default:
		b.ok()
	}
}

// auth is AUTH [user] password.
func (c *conn) auth(b *batch, args [][]byte) {
	if len(args) > 3 {
		b.fail("ERR syntax error")
		return
	}
	if problem := c.login(args[1:]); problem != "" {
		b.fail(problem)
		return
	}
	b.ok()
}

// login takes [user] password and returns why it is refused, or nothing.
func (c *conn) login(words [][]byte) string {
	if c.server.Token == "" {
		if len(words) == 2 {
			return "" // as the default user of a Redis without a password
		}
		return "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	}
	password := words[len(words)-1]
	right := subtle.ConstantTimeCompare(password, []byte(c.server.Token)) == 1
	if !right || len(words) == 2 && string(words[0]) != "default" {
		return "WRONGPASS invalid username-password pair or user is disabled."
	}
	c.trusted = true
	return ""
}

// version is that of the Redis whose clients find what they expect.
const version = "7.4.0"

// hello is HELLO [protover [AUTH user password] [SETNAME name]].
func (c *conn) hello(b *batch, args [][]byte) {
	proto := c.proto
	if len(args) > 1 {
		n, ok := integer(args[1])
		switch {
		case !ok:
			b.fail("ERR Protocol version is not an integer or out of range")
			return
		case n != 2 && n != 3:
			b.fail("NOPROTO unsupported protocol version")
			return
		}
		proto = int(n)
	}
	name := c.name
	for rest := args[min(2, len(args)):]; len(rest) > 0; {
		switch {
		case len(rest) >= 3 && bytes.EqualFold(rest[0], []byte("AUTH")):
			if problem := c.login(rest[1:3]); problem != "" {
				b.fail(problem)
				return
			}
			rest = rest[3:]
		case len(rest) >= 2 && bytes.EqualFold(rest[0], []byte("SETNAME")):
			var ok bool
			if name, ok = clientName(rest[1]); !ok {
				b.fail(badName)
				return
			}
			rest = rest[2:]
		default:
			b.fail("ERR Syntax error in HELLO option '" + printable(rest[0]) + "'")
			return
		}
	}
	if !c.trusted {
		b.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.proto, c.name = proto, name
	b.reply(func(to []byte) []byte {
		to = appendCount(to, '%', 7, proto)
		for _, pair := range [][2]string{{"server", "redis"}, {"version", version}} {
			to = appendBulk(appendBulk(to, pair[0]), pair[1])
		}
		to = appendInteger(appendBulk(to, "proto"), int64(proto))
		to = appendInteger(appendBulk(to, "id"), c.id)
		for _, pair := range [][2]string{{"mode", "standalone"}, {"role", "master"}} {
			to = appendBulk(appendBulk(to, pair[0]), pair[1])
		}
		return appendCount(appendBulk(to, "modules"), '*', 0, proto)
	})
}

// info is INFO [section…]; there is one section.
func (c *conn) info(b *batch, _ [][]byte) {
	c.server.mu.Lock()
	clients := len(c.server.conns)
	c.server.mu.Unlock()
	text := fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nserver_name:weir\r\nweir_version:%s\r\nuptime_in_seconds:%d\r\n"+
		"# Clients\r\nconnected_clients:%d\r\n", version, c.server.Version, int64(time.Since(c.server.began).Seconds()), clients)
	b.reply(func(to []byte) []byte {
		if c.proto == 3 {
			to = append(strconv.AppendInt(append(to, '='), int64(len(text)+4), 10), "\r\ntxt:"...)
			return append(append(to, text...), '\r', '\n')
		}
		return appendBulk(to, text)
	})
}

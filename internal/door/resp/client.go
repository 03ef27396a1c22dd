package resp

import (
	"fmt"
	"slices"
	"strings"
)

// client is CLIENT: what clients tell of themselves when they connect. Nothing
// here can be cached, so that tracking is promised and there is never anything
// to invalidate.
func (c *conn) client(b *batch, args [][]byte) {
	sub := strings.ToUpper(printable(args[1]))
	words := args[2:]
	arity, known := map[string]int{
		"SETNAME": 1, "GETNAME": 0, "ID": 0, "SETINFO": 2, "INFO": 0, "LIST": -1, "NO-EVICT": 1, "NO-TOUCH": 1,
		"TRACKING": -1, "CACHING": 1, "REPLY": 1, "HELP": 0,
	}[sub]
	switch {
	case !known:
		b.fail("ERR unknown subcommand '" + printable(args[1]) + "'. Try CLIENT HELP.")
		return
	case arity >= 0 && len(words) != arity:
		b.fail("ERR wrong number of arguments for 'client|" + strings.ToLower(sub) + "' command")
		return
	}
	switch sub {
	case "SETNAME":
		name, ok := clientName(words[0])
		if !ok {
			b.fail(badName)
			return
		}
		c.name = name
	case "SETINFO":
		switch strings.ToUpper(string(words[0])) {
		case "LIB-NAME":
			c.library[0] = printable(words[1])
		case "LIB-VER":
			c.library[1] = printable(words[1])
		default:
			b.fail("ERR Unrecognized option '" + printable(words[0]) + "'")
			return
		}
	case "REPLY":
		if !strings.EqualFold(string(words[0]), "ON") {
			b.fail("ERR replies cannot be switched off here")
			return
		}
	case "GETNAME":
		if c.name == "" {
			b.reply(func(to []byte) []byte { return appendNull(to, c.proto) })
			return
		}
		b.bulk([]byte(c.name))
		return
	case "ID":
		b.reply(func(to []byte) []byte { return appendInteger(to, c.id) })
		return
	case "INFO", "LIST":
		b.bulk(fmt.Appendf(nil, "id=%d name=%s resp=%d lib-name=%s lib-ver=%s\n", c.id, c.name, c.proto, c.library[0], c.library[1]))
		return
	case "HELP":
		b.reply(func(to []byte) []byte {
			to = appendCount(to, '*', 1, c.proto)
			return append(to, "+CLIENT GETNAME | ID | INFO | LIST | NO-EVICT | SETINFO | SETNAME | TRACKING\r\n"...)
		})
		return
	}
	b.ok()
}

const badName = "ERR Client names cannot contain spaces, newlines or special characters."

// clientName returns what is kept of the name that a client gives itself.
func clientName(word []byte) (name string, ok bool) {
	return printable(word), !strings.ContainsAny(string(word), " \r\n")
}

// command is COMMAND: which there are. redis-cli asks for the documents of all of
// them, and there are none.
func (c *conn) command(b *batch, args [][]byte) {
	sub := ""
	if len(args) > 1 {
		sub = strings.ToUpper(printable(args[1]))
	}
	names := make([]string, 0, len(commands))
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	switch sub {
	case "DOCS":
		b.reply(func(to []byte) []byte { return appendCount(to, '%', 0, c.proto) })
		return
	case "COUNT":
		b.reply(func(to []byte) []byte { return appendInteger(to, int64(len(names))) })
		return
	case "LIST":
		b.reply(func(to []byte) []byte {
			to = appendCount(to, '*', len(names), c.proto)
			for _, name := range names {
				to = appendBulk(to, name)
			}
			return to
		})
		return
	case "":
	case "INFO":
		if len(args) > 2 {
			names = names[:0]
			for _, arg := range args[2:] {
				names = append(names, strings.ToLower(string(arg)))
			}
		}
	default:
		b.fail("ERR unknown subcommand '" + printable(args[1]) + "'. Try COMMAND HELP.")
		return
	}
	b.reply(func(to []byte) []byte {
		to = appendCount(to, '*', len(names), c.proto)
		for _, name := range names {
			to = appendCommand(to, name, c.proto)
		}
		return to
	})
}

// appendCommand describes a command as Redis 7 does: name, arity, flags, first
// and last key and the step between, categories, tips, keys, subcommands.
func appendCommand(to []byte, name string, proto int) []byte {
	cmd, known := commands[name]
	if !known {
		return append(to, map[int]string{2: "*-1\r\n", 3: "_\r\n"}[proto]...)
	}
	key := int64(0)
	flags := "fast"
	if cmd.keys {
		key, flags = 1, "write"
	}
	to = appendCount(to, '*', 10, proto)
	to = appendInteger(appendBulk(to, name), int64(cmd.arity))
	to = append(appendCount(to, '*', 1, proto), "+"+flags+"\r\n"...)
	to = appendInteger(appendInteger(appendInteger(to, key), key), key)
	for range 4 {
		to = appendCount(to, '*', 0, proto)
	}
	return to
}

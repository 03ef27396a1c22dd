package migrate

import (
	"fmt"
	"strings"
)

// directive is one of an nginx configuration.
type directive struct {
	line  int
	words []string
	block []directive // of server { … } and the like
}

func (d *directive) name() string { return d.words[0] }
func (d *directive) text() string { return strings.Join(d.words, " ") }

// parseNginx takes a configuration apart: words, which may stand in quotes, ended
// by ; or by a block.
func parseNginx(text []byte) ([]directive, error) {
	p := &nginxParser{text: string(text), line: 1}
	list, err := p.list(0)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line, err)
	}
	return list, nil
}

type nginxParser struct {
	text string
	at   int
	line int
}

// maxDepth bounds blocks within blocks.
const maxDepth = 64

func (p *nginxParser) list(depth int) (list []directive, err error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d blocks within each other", maxDepth)
	}
	var d directive
	for {
		word, mark, err := p.next()
		if err != nil {
			return nil, err
		}
		switch {
		case mark == 0:
			if len(d.words) == 0 {
				d.line = p.line
			}
			d.words = append(d.words, word)
		case mark == ';' && len(d.words) > 0:
			list, d = append(list, d), directive{}
		case mark == '{' && len(d.words) > 0:
			if d.block, err = p.list(depth + 1); err != nil {
				return nil, err
			}
			list, d = append(list, d), directive{}
		case mark == '}' && depth > 0 && len(d.words) == 0, mark == 'E' && depth == 0 && len(d.words) == 0:
			return list, nil
		case mark == 'E':
			return nil, fmt.Errorf("the file ends within a directive or block")
		default:
			return nil, fmt.Errorf("%q stands where it cannot", string(mark))
		}
	}
}

// next returns a word, or a mark: ; { } or E at the end.
func (p *nginxParser) next() (word string, mark byte, err error) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case '\n':
			p.line++
			p.at++
		case ' ', '\t', '\r':
			p.at++
		case '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		case ';', '{', '}':
			p.at++
			return "", c, nil
		case '"', '\'':
			word, err = p.quoted(c)
			return word, 0, err
		default:
			from := p.at
			for p.at < len(p.text) && !strings.ContainsRune(" \t\r\n;", rune(p.text[p.at])) {
				// ${name} is part of a word.
				if p.text[p.at] == '{' && p.text[p.at-1] != '$' {
					break
				}
				if p.text[p.at] == '}' && !strings.Contains(p.text[from:p.at], "${") {
					break
				}
				p.at++
			}
			return p.text[from:p.at], 0, nil
		}
	}
	return "", 'E', nil
}

// quoted returns the text in quotes that begins here. A backslash keeps a quote from
// ending it, as in the JSON that many answers are.
func (p *nginxParser) quoted(quote byte) (string, error) {
	var word []byte
	for at := p.at + 1; at < len(p.text); at++ {
		switch c := p.text[at]; {
		case c == quote:
			p.line += strings.Count(p.text[p.at:at], "\n")
			p.at = at + 1
			return string(word), nil
		case c == '\\' && at+1 < len(p.text) && strings.IndexByte(`"'\`, p.text[at+1]) >= 0:
			at++
			word = append(word, p.text[at])
		default:
			word = append(word, c)
		}
	}
	return "", fmt.Errorf("a quote without its end")
}

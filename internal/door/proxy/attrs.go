package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/identity"
)

// What a rule may be counted by that stands in the body
//
// A login is limited by account, and the account is a field of a form or of a
// JSON object. So, if asked to, the proxy reads the beginning of a body, up to
// attrRoom bytes, before it decides, and passes it on as it came.
//
// The upstream may read the body differently, and a caller would pick the
// balance if it could show us another account than the upstream. So a field that
// is given twice is missing, also in another spelling that some decoder does not
// tell from it, and so is one that the query names too, since many upstreams read
// the query first. So is one in a charset that not every upstream would decode, one
// in a part whose head is out of the ordinary, and a number that is not written as
// whole: 42, 42.0 and 4.2e1 are one account. A body that does not end within attrRoom
// has no attributes: what is not seen could name the field again. A missing attribute
// is what the rule's on_missing says: the caller's address, unless told otherwise.

const (
	attrRoom   = 8 << 10
	attrWithin = 10 * time.Second // for the beginning of a body to arrive
)

// BodyAttr is an attribute that is read from a field of a body.
type BodyAttr struct {
	Name  string // as in attr:NAME
	JSON  bool   // of a JSON object; else of a form
	Field string
}

// ParseBodyAttr reads NAME=form:FIELD or NAME=json:FIELD.
func ParseBodyAttr(s string) (BodyAttr, error) {
	name, from, ok := strings.Cut(s, "=")
	kind, field, found := strings.Cut(from, ":")
	a := BodyAttr{Name: name, JSON: kind == "json", Field: field}
	if !ok || !found || name == "" || field == "" || kind != "json" && kind != "form" {
		return a, errors.New("write NAME=form:FIELD or NAME=json:FIELD, such as account=form:email")
	}
	return a, nil
}

// is reports whether some upstream may take name for the field.
func (a BodyAttr) is(name string) bool { return identity.MayName(name, a.Field) }

// of returns a value of the field, and how many it has.
func (a BodyAttr) of(values url.Values) (found string, times int) {
	for name, given := range values {
		if a.is(name) {
			found = given[0]
			times += len(given)
		}
	}
	return found, times
}

// readAttrs returns the attributes of the body of r, which it leaves to be read
// from the start.
func readAttrs(w http.ResponseWriter, r *http.Request, attrs []BodyAttr) map[string]string {
	if len(attrs) == 0 || r.Body == nil || r.Body == http.NoBody || r.ContentLength > attrRoom {
		return nil
	}
	fields := fieldsOf(r.Header)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if fields == nil || err != nil {
		return nil
	}
	start, whole := beginning(w, r)
	if !whole {
		return nil
	}
	found := map[string]string{}
	for _, a := range attrs {
		if _, times := a.of(query); times > 0 {
			continue
		}
		if value := fields(start, a); value != "" {
			found[a.Name] = value
		}
	}
	return found
}

// beginning reads the body as far as there is room, and reports whether that was
// all of it.
func beginning(w http.ResponseWriter, r *http.Request) (start []byte, whole bool) {
	// A client that sends slowly is waited for no longer than one that sends its
	// header slowly. Doors without deadlines, as those of tests, refuse to set one.
	control := http.NewResponseController(w)
	limited := control.SetReadDeadline(time.Now().Add(attrWithin)) == nil
	start, err := io.ReadAll(io.LimitReader(r.Body, attrRoom+1))
	if limited {
		_ = control.SetReadDeadline(time.Time{}) // it was set a moment ago
	}
	r.Body = &resumed{Reader: io.MultiReader(bytes.NewReader(start), failing{err}, r.Body), Closer: r.Body}
	return start, err == nil && len(start) <= attrRoom
}

// resumed is a body whose beginning has been read.
type resumed struct {
	io.Reader
	io.Closer
}

// failing hands on the error that reading ended with, if there was one.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// fieldsOf returns what finds a field in a body of the type that h announces, or
// nil for a type without fields.
func fieldsOf(h http.Header) func(body []byte, a BodyAttr) string {
	if len(h["Content-Encoding"]) > 0 || len(h["Content-Type"]) != 1 {
		return nil
	}
	media, params, err := mime.ParseMediaType(h["Content-Type"][0])
	switch {
	case err != nil, !everybodys(params["charset"]):
		return nil
	case media == "application/x-www-form-urlencoded":
		return formField
	case media == "multipart/form-data":
		return func(body []byte, a BodyAttr) string { return partField(body, params["boundary"], a) }
	case media == "application/json", strings.HasSuffix(media, "+json"):
		return jsonField
	}
	return nil
}

// everybodys reports whether every upstream reads text in this charset alike.
func everybodys(charset string) bool {
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii":
		return true
	}
	return false
}

func formField(body []byte, a BodyAttr) string {
	if a.JSON {
		return ""
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return ""
	}
	found, times := a.of(values)
	if times != 1 {
		return ""
	}
	return found
}

func partField(body []byte, boundary string, a BodyAttr) string {
	if a.JSON || boundary == "" {
		return ""
	}
	found, times := "", 0
	for parts := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return ""
		}
		name, plain := headOf(part)
		if name == "" {
			return "" // it could be the field's, to somebody
		}
		if !a.is(name) {
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil || !plain {
			return ""
		}
		found = string(value)
		times++
	}
	if times != 1 {
		return ""
	}
	return found
}

// headOf returns the name of a part, or "" where servers may disagree on it, and
// whether what is in the part is text as it stands.
func headOf(part *multipart.Part) (name string, plain bool) {
	head := part.Header["Content-Disposition"]
	if len(head) != 1 || strings.Contains(head[0], `\`) ||
		strings.Contains(strings.ReplaceAll(strings.ToLower(head[0]), "filename*", ""), "name*") {
		return "", false
	}
	kind, params, err := mime.ParseMediaType(head[0])
	if err != nil || kind != "form-data" {
		return "", false
	}
	_, file := params["filename"]
	plain = !file
	for _, encoding := range part.Header["Content-Transfer-Encoding"] {
		switch strings.ToLower(encoding) {
		case "7bit", "8bit", "binary":
		default:
			plain = false
		}
	}
	for _, text := range part.Header["Content-Type"] {
		_, params, err := mime.ParseMediaType(text)
		plain = plain && err == nil && everybodys(params["charset"])
	}
	return params["name"], plain
}

// jsonField returns a string or whole number at the top of an object.
func jsonField(body []byte, a BodyAttr) string {
	if !a.JSON || !utf8.Valid(body) {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	found, times := "", 0
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return ""
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return ""
		}
		if text, ok := name.(string); !ok || !a.is(text) {
			continue
		}
		times++
		switch v := value.(type) {
		case string:
			found = v
		case json.Number:
			if found = v.String(); found == "-0" || strings.ContainsAny(found, ".eE") {
				return ""
			}
		}
	}
	if _, err := d.Token(); err != nil || times != 1 { // the end of the object
		return ""
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ""
	}
	return found
}

package accesslog

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestSamples reads a log of each format; what was read stands beside it, to be
// read as a whole.
func TestSamples(t *testing.T) {
	names, err := filepath.Glob("testdata/*.log")
	if err != nil || len(names) < 7 {
		t.Fatalf("samples are missing: %v %v", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := tell(readAll(t, name))
			golden := strings.TrimSuffix(name, ".log") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func tell(w *whole) string {
	var b strings.Builder
	for _, r := range w.records {
		fmt.Fprintf(&b, "%d %s", r.Line, time.UnixMicro(r.At).UTC().Format("2006-01-02T15:04:05.999999Z"))
		if r.Took > 0 {
			fmt.Fprintf(&b, " (took %v)", time.Duration(r.Took)*time.Microsecond)
		}
		if r.Coarse {
			b.WriteString(" coarse")
		}
		for _, f := range []struct{ name, value string }{
			{"client", r.Client}, {"method", r.Method}, {"path", r.Path}, {"query", r.Query}, {"host", r.Host},
			{"agent", r.Agent}, {"referer", r.Referer}, {"forwarded", r.Forwarded},
		} {
			if f.value != "" {
				fmt.Fprintf(&b, " %s=%q", f.name, f.value)
			}
		}
		if r.IP.IsValid() {
			b.WriteString(" address")
		}
		b.WriteByte('\n')
	}
	for _, bad := range w.examples {
		fmt.Fprintf(&b, "%d: %s\n", bad.Line, bad.Why)
	}
	fmt.Fprintf(&b, "%d read, %d not read, %d aside\n", w.Requests, w.Bad, w.Aside)
	return b.String()
}

// TestMixed reads all samples as one log, in which every line is of another
// format than the one before.
func TestMixed(t *testing.T) {
	var all [][]byte
	want := int64(0)
	for _, name := range []string{"combined", "json", "envoy", "alb", "haproxy"} {
		want += readAll(t, "testdata/"+name+".log").Requests
		data, err := os.ReadFile("testdata/" + name + ".log")
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			for len(all) <= i {
				all = append(all, nil)
			}
			all[i] = append(append(all[i], line...), '\n')
		}
	}
	if got := readStream(t, bytes.NewReader(bytes.Join(all, nil)), ""); got.Requests != want {
		t.Errorf("%d read of %d", got.Requests, want)
	}
}

// TestCompressed: gzip, also in several members, and zstd are read as what they
// hold; a stream that is cut off gives what came before, and an error.
func TestCompressed(t *testing.T) {
	data, err := os.ReadFile("testdata/combined.log")
	if err != nil {
		t.Fatal(err)
	}
	want := tell(readStream(t, bytes.NewReader(data), ""))
	var gz, zst bytes.Buffer
	for _, part := range [][]byte{data[:300], data[300:]} {
		z := gzip.NewWriter(&gz)
		z.Write(part)
		z.Close()
	}
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(data)
	z.Close()
	for name, compressed := range map[string][]byte{"gzip": gz.Bytes(), "zstd": zst.Bytes()} {
		if got := tell(readStream(t, bytes.NewReader(compressed), "")); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		file := filepath.Join(t.TempDir(), "cut."+name)
		if err := os.WriteFile(file, compressed[:len(compressed)-12], 0o600); err != nil {
			t.Fatal(err)
		}
		files, err := Open([]string{file}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		drain(t, files)
		if s := files.Summary(); len(s.Broken) != 1 || !strings.Contains(s.Broken[0].Error(), "unexpected EOF") {
			t.Errorf("%s cut off: %+v", name, s)
		}
		files.Close()
	}
}

// TestFormat: a format that is asked for is the only one that is read.
func TestFormat(t *testing.T) {
	data, err := os.ReadFile("testdata/envoy.log")
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]int64{"envoy": 3, "": 3, "combined": 0, "caddy": 0} {
		if got := readStream(t, bytes.NewReader(data), format); got.Requests != want {
			t.Errorf("as %q: %d read", format, got.Requests)
		}
	}
	if _, err := NewReader(bytes.NewReader(data), 0, Options{Format: "cobol"}); err == nil || !strings.Contains(err.Error(), "there are alb apache caddy") {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestStrange: what is no access log says what it is.
func TestStrange(t *testing.T) {
	for line, want := range map[string]string{
		`2026/03/02 10:00:00 [error] 31#31: *46 limiting requests, excess: 5.4 by zone "z", client: 192.0.2.1`: "error log",
		`[Mon Mar 02 10:00:00 2026] [core:error] [pid 10] [client 192.0.2.1:1] AH1`:                            "error log",
		`<Event xmlns="x"><System/></Event>`:                                                                   "XML",
		"time:2026-03-02T10:00:00+01:00\tmethod:GET\turi:/":                                                    "LTSV",
		"2026-03-02\t10:00:00" + strings.Repeat("\t1", 20):                                                     "#Fields",
		`{"a":1}`: "no time in the JSON",
		`hello`:   "not a line of a known format",
		`192.0.2.1 - - [02/Mar/2026:10:00:00 +0100] "x`: "no status",
	} {
		got := readStream(t, strings.NewReader(line+"\n"), "")
		if got.Requests != 0 || len(got.examples) != 1 || !strings.Contains(got.examples[0].Why, want) {
			t.Errorf("%s: %+v", line, got.examples)
		}
	}
}

// TestLongLine: a line longer than any request is passed over, and memory stays.
func TestLongLine(t *testing.T) {
	good := `192.0.2.1 - - [02/Mar/2026:10:00:00 +0100] "GET / HTTP/1.1" 200 1` + "\n"
	long := strings.Repeat("x", 9<<20) + "\n"
	r, err := NewReader(strings.NewReader(good+long+good+long), 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var room [10]Record
	if n, err := r.Read(room[:]); n != 2 || err != nil || r.Bad != 2 || r.Examples[0] != (Bad{0, 2, "longer than 1 MiB"}) {
		t.Errorf("%d read, %v, %+v", n, err, r.Examples)
	}
	if cap(r.lines.block) > 4<<20 {
		t.Errorf("a block of %d bytes", cap(r.lines.block))
	}
}

// TestADateOfNothingIsNone: also where it is the first.
func TestADateOfNothingIsNone(t *testing.T) {
	for _, line := range []string{
		`{"time":"0000-00-00T00:00:00Z","method":"GET","uri":"/"}`,
		`192.0.2.1 - - [00/xxx/0000:00:00:00 +0000] "GET / HTTP/1.1" 200 5`,
	} {
		r, err := NewReader(strings.NewReader(line+"\n"), 0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var room [1]Record
		if n, err := r.Read(room[:]); n != 0 || r.Bad != 1 {
			t.Errorf("%s: %+v, %v", line, room[0], err)
		}
	}
}

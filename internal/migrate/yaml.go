package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
)

// maxText bounds what is read: a configuration is no larger.
const maxText = 4 << 20

// documents decodes every document of a YAML text into a value that make
// returns. The library is not ours: a text that it stumbles over is an error.
func documents(text []byte, make func() any) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it cannot be read as YAML")
		}
	}()
	if len(text) > maxText {
		return fmt.Errorf("larger than %d MiB", maxText>>20)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		err = d.Decode(make())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New(yaml.FormatError(err, false, false))
		}
	}
}

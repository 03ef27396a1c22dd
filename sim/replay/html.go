package replay

import "io"

// WriteHTML writes the report as one page.
func (r *Report) WriteHTML(w io.Writer, policy string) error {
	_, err := io.WriteString(w, policy)
	return err
}

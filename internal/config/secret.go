package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
)

// secretFix is what to do with a secret that stands in the file.
const secretFix = `write it as "${NAME}", from the environment, or as {file: /run/secrets/name}`

// maxSecretBytes bounds a secret's file; the largest real ones are private keys.
const maxSecretBytes = 64 << 10

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// A part is a piece of a text of the file: literal, or the name of a variable.
type part struct {
	literal string
	name    string // "" for a literal
}

// parts splits a text at its references. `$${` stands for a literal `${`; a lone
// $ is itself.
func parts(text string) ([]part, error) {
	var out []part
	for text != "" {
		i := strings.Index(text, "${")
		if i < 0 {
			return append(out, part{literal: text}), nil
		}
		if i > 0 && text[i-1] == '$' {
			out, text = append(out, part{literal: text[:i-1] + "${"}), text[i+2:]
			continue
		}
		name, rest, closed := strings.Cut(text[i+2:], "}")
		if !closed || !variableName.MatchString(name) {
			return nil, errors.New("has a ${ that names no variable; write ${NAME} with letters, digits and _, or $${ for the two signs themselves")
		}
		out, text = append(out, part{literal: text[:i]}, part{name: name}), rest
	}
	return out, nil
}

// expand is n's text with its references resolved, and how many there are. It
// reports every reference that resolves to nothing and is then not ok.
func (d *decoder) expand(n *node, path string) (text string, refs int, ok bool) {
	pieces, err := parts(n.text)
	if err != nil {
		d.bad(path, err.Error())
		return "", 0, false
	}
	ok = true
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.literal)
		if p.name == "" {
			continue
		}
		refs++
		value, set := d.env(p.name)
		if strings.TrimSpace(value) == "" {
			d.unresolved(path, p.name, set)
			ok = false
		}
		b.WriteString(strings.TrimRight(value, "\r\n"))
	}
	return b.String(), refs, ok
}

func (d *decoder) unresolved(path, name string, set bool) {
	why := "is not set in the environment"
	if set {
		why = "is set in the environment but empty"
	}
	value := "${" + name + "}"
	if looksSecret(name) {
		value = hidden
	}
	fix := why + "; set the variable"
	if path == databaseURLPath {
		fix += " to the URL of a Postgres database, or write embedded as the url to let nightaudit run a Postgres of its own"
	}
	d.badValue(path, value, fix)
}

// secret resolves a secret position: "${NAME}", or {file: path}. A literal is
// refused, except in database URLs, whose own check refuses literal passwords.
// No message shows what is written.
func (d *decoder) secret(n *node, path string) providers.Secret {
	switch {
	case n.kind == mappingKind:
		return d.secretFile(n, path)
	case n.kind != scalarKind:
		d.bad(path, fmt.Sprintf("is %s; a secret is one value: %s", n.called(), secretFix))
		return ""
	}
	d.written[path] = n.text
	text, refs, ok := d.expand(n, path)
	switch {
	case !ok:
		return ""
	case refs == 0 && !isDatabaseURL(path):
		d.bad(path, "holds a secret in plain text; take it out of the file and "+secretFix)
		return ""
	case strings.TrimSpace(text) == "":
		d.bad(path, "is blank; "+secretFix)
		return ""
	}
	return providers.Secret(text)
}

// secretFile reads {file: path}. Relative paths start at the config's folder.
func (d *decoder) secretFile(n *node, path string) providers.Secret {
	file := n.find("file")
	if len(n.entries) != 1 || file == nil || file.kind != scalarKind {
		d.bad(path, "is a mapping other than {file: path}; "+secretFix)
		return ""
	}
	below := path + ".file"
	d.lines[below] = n.entries[0].line
	name, _, ok := d.expand(file, below)
	if !ok {
		return ""
	}
	secret, err := readSecret(d.resolve(name))
	if err != nil {
		d.badValue(below, shownFile(file.text), err.Error())
	}
	return secret
}

// resolve is a path of the config as the process can open it.
func (d *decoder) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(d.dir, path)
}

// readSecret is the content of a file without its trailing line ends. The error
// says what is wrong and what to do, without the path, which the caller shows.
func readSecret(path string) (providers.Secret, error) {
	if info, err := os.Stat(path); err != nil {
		return "", fileProblem(err)
	} else if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file; give the path of the file that holds the secret")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fileProblem(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	switch text := strings.TrimRight(string(data), "\r\n"); {
	case err != nil:
		return "", fileProblem(err)
	case len(data) > maxSecretBytes:
		return "", fmt.Errorf("is larger than %d KiB; give the path of the file that holds nothing but the secret", maxSecretBytes>>10)
	case strings.TrimSpace(text) == "":
		return "", errors.New("is an empty file; write the secret into it")
	default:
		return providers.Secret(text), nil
	}
}

// fileProblem says what to do about a file that cannot be read.
func fileProblem(err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("does not exist; create the file or correct the path")
	case errors.Is(err, os.ErrPermission):
		return errors.New("may not be read by this user; give nightaudit's user read permission")
	}
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("cannot be read (%w); correct the path", err)
}

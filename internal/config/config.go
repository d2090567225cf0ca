package config

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A Config is the whole file, checked and with its references resolved.
type Config struct {
	Database  Database               `yaml:"database"`  // nightaudit's own
	Databases map[string]AppDatabase `yaml:"databases"` // the application's, by the name that ledgers use
	Timezone  *time.Location         `yaml:"timezone"`  // of dates on the command line that have none; never nil
	Sources   []Source               `yaml:"sources"`   // at least one, names unique

	places *places
}

func (c *Config) setDefaults() {
	c.Database.setDefaults()
	c.Timezone = time.UTC
}

// Load reads the config at path. env looks up environment variables
// (os.LookupEnv). The adapters say which providers there are, and each checks
// its own sources' settings; without any, neither is checked. A config with
// mistakes is an *Error that lists all of them, and no Config.
func Load(path string, env func(string) (string, bool), adapters ...providers.Adapter) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, &Error{Problems: []Problem{{File: path, Fix: err.Error()}}}
	}
	return parse(path, data, env, adapters)
}

// readFile is the content of the config, one byte more than allowed at most.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileProblem(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fileProblem(err)
	}
	return data, nil
}

func parse(file string, data []byte, env func(string) (string, bool), adapters []providers.Adapter) (*Config, error) {
	root, problems := parseTree(file, data)
	if root == nil {
		return nil, newError(problems)
	}
	if root.kind == nullKind {
		root.kind = mappingKind // an empty file lacks what is missing, and nothing else
	}
	d := newDecoder(file, filepath.Dir(file), env)
	d.problems = problems
	c := &Config{places: d.places}
	d.value(root, reflect.ValueOf(c).Elem(), "")
	if root.kind == mappingKind {
		c.validate(d, adapters)
	}
	if len(d.problems) > 0 {
		hideSecrets(d.problems, c.Secrets())
		return nil, newError(d.problems)
	}
	return c, nil
}

func (c *Config) validate(d *decoder, adapters []providers.Adapter) {
	c.Database.validate(d)
	validateAppDatabases(d, c.Databases)
	if len(c.Sources) == 0 && d.fine("sources") {
		d.bad("sources", "has no source; add one with name, provider, credentials and ledger")
	}
	first := map[string]string{}
	for i := range c.Sources {
		path, s := sourcePath(i), &c.Sources[i]
		s.validate(d, path, c.Databases)
		s.validateProvider(d, path, adapters)
		if other, twice := first[s.Name]; twice && s.Name != "" {
			d.wrong(path+".name", "is the name of "+other+" too; give each source its own")
		} else {
			first[s.Name] = path
		}
	}
}

// Secrets is every secret in the config, once each: credentials, webhook secrets,
// the passwords in database URLs as they are and as they are escaped, and the
// values in the query of an endpoint's URL. Whatever leaves the process is
// redacted by them.
func (c *Config) Secrets() []providers.Secret {
	all := passwords(c.Database.URL)
	for _, db := range c.Databases {
		all = append(all, passwords(db.URL)...)
	}
	for _, s := range c.Sources {
		for _, credential := range s.Credentials {
			all = append(all, credential)
		}
		for _, e := range s.Endpoints {
			all = append(all, e.Secrets...)
			all = append(all, queryValues(e.URL)...)
			all = append(all, queryValues(e.PublicURL)...)
		}
	}
	all = slices.DeleteFunc(all, func(s providers.Secret) bool { return s == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// Warnings is what is allowed and probably not meant, in the order of the file:
// schedules whose two day fields are both restricted.
func (c *Config) Warnings() []Problem {
	var all []Problem
	for i, s := range c.Sources {
		if why := scheduleWarning(s.Schedule); why != "" {
			path := sourcePath(i) + ".schedule"
			all = append(all, c.places.problem(path, shown(c.places.written[path]), why))
		}
	}
	return all
}

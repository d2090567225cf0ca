package config

import (
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/providers"
)

// Embedded is the database URL that stands for a Postgres which nightaudit runs
// itself.
const Embedded = "embedded"

// A Database is where nightaudit keeps its own memory.
type Database struct {
	URL      providers.Secret `yaml:"url"`       // of a Postgres, or Embedded; never ""
	Schema   string           `yaml:"schema"`    // "nightaudit" if the file does not say
	Migrate  string           `yaml:"migrate"`   // MigrateAuto (the default) or MigrateOff
	StateDir string           `yaml:"state_dir"` // the embedded server's folder; "" if the database is not embedded and the file does not say
}

// When the schema is brought up to date: at each start, or only by
// `nightaudit migrate`.
const (
	MigrateAuto = "auto"
	MigrateOff  = "off"
)

// An AppDatabase is one in which the application's own tables live. nightaudit
// only reads there.
type AppDatabase struct {
	URL providers.Secret `yaml:"url"`
}

const (
	databaseURLPath = "database.url"
	bothDatabases   = `write database: { url: "${DATABASE_URL}" } for a Postgres of yours, or database: { url: embedded } to let nightaudit run its own`
)

// IsEmbedded reports whether nightaudit runs the database itself.
func (db Database) IsEmbedded() bool { return db.URL == Embedded }

func (db *Database) setDefaults() {
	db.Schema = "nightaudit"
	db.Migrate = MigrateAuto
}

func (db *Database) validate(d *decoder) {
	switch {
	case !d.has("database"):
		d.bad("database", "is missing; "+bothDatabases)
		return
	case !d.fine("database"):
	case !d.has(databaseURLPath):
		d.bad(databaseURLPath, "is missing; "+bothDatabases)
	case !db.IsEmbedded():
		checkDatabaseURL(d, databaseURLPath, db.URL)
	}
	if d.has("database.schema") && d.fine("database.schema") && !validSchema(db.Schema) {
		d.wrong("database.schema", "is no name for the schema; write lower-case letters, digits and _, at most 63, not beginning with a digit or pg_")
	}
	d.oneOf("database.migrate", db.Migrate, MigrateAuto, MigrateOff)
	db.placeState(d)
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// validSchema reports whether the name needs no quotes and is not the server's own.
func validSchema(name string) bool {
	return schemaName.MatchString(name) && !strings.HasPrefix(name, "pg_") && name != "information_schema"
}

// placeState decides where an embedded server keeps its data: the config's
// state_dir (from the config's folder on), else the service manager's
// STATE_DIRECTORY (systemd.exec, "RuntimeDirectory="; the first one if there are
// several), else the user's state home (XDG Base Directory Specification).
func (db *Database) placeState(d *decoder) {
	const path = "database.state_dir"
	if d.has(path) {
		if strings.TrimSpace(db.StateDir) == "" && d.fine(path) {
			d.bad(path, "is blank; write a folder, or remove the key")
		} else if db.StateDir != "" {
			db.StateDir = d.resolve(db.StateDir)
		}
		return
	}
	if !db.IsEmbedded() {
		return
	}
	service, _ := d.env("STATE_DIRECTORY")
	xdg, _ := d.env("XDG_STATE_HOME")
	home, _ := d.env("HOME")
	first, _, _ := strings.Cut(service, ":")
	switch {
	case first != "":
		db.StateDir = first
	case filepath.IsAbs(xdg):
		db.StateDir = filepath.Join(xdg, "nightaudit")
	case filepath.IsAbs(home):
		db.StateDir = filepath.Join(home, ".local", "state", "nightaudit")
	default:
		d.bad(path, "is missing and neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME is set; write the folder for the embedded database's data")
	}
}

func validateAppDatabases(d *decoder, all map[string]AppDatabase) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := join("databases", name)
		at := path + ".url"
		switch {
		case !d.fine(path):
		case !d.need(at, `write url: "${APP_DATABASE_URL}"`):
		case all[name].URL == Embedded:
			d.wrong(at, "is nightaudit's own database; remove the entry, and leave ledger.database out where the table is in it")
		default:
			checkDatabaseURL(d, at, all[name].URL)
		}
	}
}

// isDatabaseURL reports whether path is that of a database's URL.
func isDatabaseURL(path string) bool {
	return path == databaseURLPath || strings.HasPrefix(path, "databases.") && strings.HasSuffix(path, ".url")
}

// checkDatabaseURL reports a URL that Postgres could not be reached by, or that
// holds a password in plain text.
func checkDatabaseURL(d *decoder, path string, u providers.Secret) {
	if holdsPassword(d.written[path]) {
		d.bad(path, "holds a password in plain text; write it as postgres://user:${DB_PASSWORD}@host/name, or put the whole URL into one variable")
		return
	}
	if _, err := pgxpool.ParseConfig(u.Reveal()); err != nil {
		d.wrong(path, databaseURLFix(err))
	}
}

// databaseURLFix names the cause only where the library's text cannot hold a
// piece of the URL.
func databaseURLFix(err error) string {
	if strings.Contains(err.Error(), "sslmode is invalid") {
		return "has an unknown sslmode; write disable, prefer, require, verify-ca or verify-full"
	}
	return "is no database URL; write postgres://user:${DB_PASSWORD}@host:5432/name (in a password, write / as %2F, ? as %3F, # as %23, @ as %40 and % as %25)"
}

// stand is put in the place of a reference to look at the rest of a URL. It has
// digits alone, so that it may stand for a port too.
const stand = "7305918246"

var passwordWord = regexp.MustCompile(`(?i)(?:^|[\s?&])(?:ssl)?password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]*)`)

// holdsPassword reports whether a database URL or keyword string, as it is
// written, has a password that comes from no variable.
func holdsPassword(written string) bool {
	pieces, err := parts(written)
	if err != nil {
		return false // reported where it was expanded
	}
	var b strings.Builder
	for _, p := range pieces {
		if p.name != "" {
			b.WriteString(stand)
		}
		b.WriteString(p.literal)
	}
	text := b.String()
	literal := func(password string) bool {
		return strings.Trim(password, "'") != "" && !strings.Contains(password, stand)
	}
	for _, m := range passwordWord.FindAllStringSubmatch(text, -1) {
		if literal(m[1]) {
			return true
		}
	}
	return literal(urlPassword(text))
}

// urlPassword is the password in a URL's user info, as it is written; also that
// of a URL which a sign in the password breaks.
func urlPassword(text string) string {
	_, authority, _ := strings.Cut(text, "://")
	if _, err := url.Parse(text); err == nil {
		if end := strings.IndexAny(authority, "/?#"); end >= 0 {
			authority = authority[:end]
		}
	}
	at := strings.LastIndex(authority, "@")
	if at < 0 {
		return ""
	}
	_, password, _ := strings.Cut(authority[:at], ":")
	return password
}

// passwords is the passwords in a database's URL: as they are, and as the URL
// escapes them.
func passwords(u providers.Secret) []providers.Secret {
	if u == "" || u == Embedded {
		return nil
	}
	all := []providers.Secret{providers.Secret(urlPassword(u.Reveal()))}
	if c, err := pgxpool.ParseConfig(u.Reveal()); err == nil {
		all = append(all, providers.Secret(c.ConnConfig.Password))
	}
	for _, m := range passwordWord.FindAllStringSubmatch(u.Reveal(), -1) {
		all = append(all, providers.Secret(strings.Trim(m[1], "'")))
	}
	return all
}

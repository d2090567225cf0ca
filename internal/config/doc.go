// Package config turns the one YAML file into a typed Config. Load reports every
// mistake of the file at once, each with file, line, key and the fix, and no
// message ever carries a secret.
//
// The file is read in three steps: tree.go parses YAML into a small tree of
// nodes with lines, decode.go fills the structs by their yaml tags, and each
// section's validate method checks what the types alone cannot say.
package config

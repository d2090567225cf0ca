// Package migrations holds the numbered SQL of nightaudit's own schema. A
// migration that was released is never changed; a new one is added.
package migrations

import "embed"

// FS holds the migrations in the order of their numbers, written for the schema
// named nightaudit; package store gives them another name where the config does.
//
//go:embed *.sql
var FS embed.FS

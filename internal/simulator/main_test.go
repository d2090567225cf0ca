package simulator_test

import (
	"os"
	"testing"

	"github.com/nightaudit/nightaudit/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

package embedded

import "testing"

func TestServerEndsWhenItsProcessIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts helperOptions
	}{
		{"data to keep", helperOptions{}},
		{"ephemeral", helperOptions{Ephemeral: true}},
		{"as an ordinary user", helperOptions{Unprivileged: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.opts.Dir = stateDir(t)
			h := startHelper(t, c.opts)
			h.kill(t)
			eventually(t, "the server of a killed process ends", func() bool { return !running(h.serverPID) })
		})
	}
}

func TestStartBehindAKilledProcessGetsALastingServer(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	h := startHelper(t, helperOptions{Dir: dir})
	h.kill(t)
	server := start(t, Options{Dir: dir})
	if server.PID() == h.serverPID {
		t.Errorf("start while the old server shuts down: got the old one, pid %d, want a new one", h.serverPID)
	}
	if got := ask(t, server, `SELECT 'yes'`); got != "yes" {
		t.Errorf("got %q, want yes", got)
	}
}

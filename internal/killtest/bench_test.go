package killtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nightaudit/nightaudit/internal/pgtest"
)

// mostMemory is what a run may take at its peak, in MiB, however many events it
// lists: payloads go as soon as they are compared.
const mostMemory = 120

// BenchmarkListing100k reconciles an account of 100,000 events, of which one in a
// thousand is missing, with the real program. It fails if that takes more memory
// than mostMemory.
func BenchmarkListing100k(b *testing.B) { benchmarkListing(b, 100_000) }

// BenchmarkListing10k is the same with a tenth of the events: the two of them show
// how memory grows.
func BenchmarkListing10k(b *testing.B) { benchmarkListing(b, 10_000) }

func benchmarkListing(b *testing.B, events int) {
	b.Helper()
	ledger := pgtest.URL(b)
	env := simulate(b, ledger, events)
	w := &world{t: b, dir: b.TempDir()}
	program := built.path(b, "cmd/nightaudit")
	var peak, seconds float64
	for b.Loop() {
		b.StopTimer()
		own := pgtest.URL(b)
		w.env = env
		w.write(databases{own: own, reader: ledger})
		pool := pgtest.Connect(b, own)
		b.StartTimer()
		p := start(b, w.env, program, "-c", w.config(), "reconcile", "--since", "75h")
		p.wholeRun(pool, events)
		usage := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
		peak = max(peak, float64(usage.Maxrss)/1024) // in KiB on Linux (getrusage(2))
		seconds = b.Elapsed().Seconds()
	}
	b.ReportMetric(peak, "MiB-peak")
	b.ReportMetric(float64(events)*float64(b.N)/seconds, "events/s")
	if peak > mostMemory {
		b.Fatalf("peak memory of a run over %d events: got %.0f MiB, want at most %d", events, peak, mostMemory)
	}
}

// wholeRun waits for the end of a run that must list so many events, some of them
// missing.
func (p *process) wholeRun(own *pgxpool.Pool, events int) {
	p.t.Helper()
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 2 {
		p.t.Fatalf("run over %d events: got exit code %d, want 2; it said:\n%s", events, code, p.out.String())
	}
	if got := one[int](p.t, own, `SELECT sum(listed) FROM nightaudit.windows`); got != events {
		p.t.Fatalf("listed events: got %d, want %d", got, events)
	}
}

// simulate runs the provider as a process of its own, whose memory is not
// counted, and gives the config's environment.
func simulate(b *testing.B, ledger string, events int) []string {
	b.Helper()
	cmd := exec.Command(built.path(b, "internal/simulator/cmd/simulator"),
		"--events", fmt.Sprint(events), "--drop", "0.001", "--database-url", ledger)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		b.Fatalf("the simulator did not start: %v", err)
	}
	var ready struct {
		StripeURL string `json:"stripe_url"`
		Key       string `json:"key"`
		AppURL    string `json:"app_url"`
		Secret    string `json:"secret"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		b.Fatal(err)
	}
	return []string{"STRIPE=" + ready.StripeURL, "STRIPE_KEY=" + ready.Key, "APP=" + ready.AppURL, "STRIPE_SECRET=" + ready.Secret}
}

package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTokens_WhoWaitsLendsTheToken: work that waits lets others go on after a while, and no token is lost or given back twice.
func TestTokens_WhoWaitsLendsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tok := make(tokens, 1)
		started := time.Now()
		waits := make(chan error, 1)
		go func() {
			waits <- tok.do(t.Context(), func() error { time.Sleep(time.Minute); return nil })
		}()
		synctest.Wait()
		for range 3 {
			if err := tok.do(t.Context(), func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(started); took != tokenPatience {
			t.Errorf("others went on after %s, not %s", took, tokenPatience)
		}
		if err := <-waits; err != nil {
			t.Fatal(err)
		}
		if len(tok) != 0 {
			t.Errorf("%d tokens are out at the end", len(tok))
		}
		wrong := errors.New("wrong")
		if err := tok.do(t.Context(), func() error { return wrong }); !errors.Is(err, wrong) {
			t.Errorf("the work's error came back as %v", err)
		}
		tok <- struct{}{}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(wrong)
		if err := tok.do(ctx, func() error { t.Error("ran without a token"); return nil }); !errors.Is(err, wrong) {
			t.Errorf("the wait's end came back as %v", err)
		}
	})
}

// TestMorePatience: only a starved process has more, and never for ever.
func TestMorePatience(t *testing.T) {
	if more := morePatience(tokenPatience, 0); more != 0 {
		t.Errorf("in a process that is not starved: %s", more)
	}
	steps, all := 0, tokenPatience
	for p := tokenPatience; p > 0; p = morePatience(p, time.Minute) {
		if steps++; steps > 20 {
			t.Fatal("a starved process has patience for ever")
		}
		all += p
	}
	if all < time.Second || all > 3*maxTokenPatience {
		t.Errorf("a starved process has a patience of %s in all", all)
	}
}

package enginetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"gridnode/engine"
	"gridnode/engine/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemStore(t *testing.T) {
	enginetest.RunStore(t, func(*testing.T) engine.Store { return enginetest.NewMemStore() })
}

package grid

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func TestSentinels_CodesAreUnique(t *testing.T) {
	seen := map[uint16]*Error{}
	for _, e := range sentinels {
		if other := seen[e.Code()]; other != nil {
			t.Errorf("code %d belongs to %q and %q", e.Code(), e, other)
		}
		seen[e.Code()] = e
		if e.Code() == 0 || e.Error() == "" {
			t.Errorf("sentinel %+v without a code or a text", e)
		}
		if got := ErrorOf(e.Code()); got != e {
			t.Errorf("code %d of %q leads to %q", e.Code(), e, got)
		}
		wrapped := fmt.Errorf("partition 3: %w", e)
		if got := SentinelOf(wrapped); got != e {
			t.Errorf("SentinelOf(%q) = %q, want %q", wrapped, got, e)
		}
		if got := KindOf(wrapped); got != e.Kind() {
			t.Errorf("KindOf(%q) = %s, want %s", wrapped, got, e.Kind())
		}
	}
}

// A sentinel that is declared but not listed could not be told from its code.
func TestSentinels_AllAreListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			declared += len(spec.Names)
		}
		return true
	})
	if declared == 0 || declared != len(sentinels) {
		t.Errorf("%d sentinels are declared, %d listed", declared, len(sentinels))
	}
}

func TestErrorOf_UnknownCodeClaimsNothing(t *testing.T) {
	if got := ErrorOf(65535); got != ErrIndeterminate {
		t.Errorf("ErrorOf(65535) = %q, want %q", got, ErrIndeterminate)
	}
}

func TestKindOf_ForeignErrors(t *testing.T) {
	for _, test := range []struct {
		err      error
		kind     Kind
		sentinel *Error
	}{
		{fmt.Errorf("call: %w", context.Canceled), Indeterminate, ErrInternal},
		{fmt.Errorf("call: %w", context.DeadlineExceeded), Indeterminate, ErrInternal},
		{errors.New("no such thing"), Definite, ErrInternal},
		{errors.Join(context.Canceled, ErrNoLease), Retryable, ErrNoLease},
	} {
		if got := KindOf(test.err); got != test.kind {
			t.Errorf("KindOf(%q) = %s, want %s", test.err, got, test.kind)
		}
		if got := SentinelOf(test.err); got != test.sentinel {
			t.Errorf("SentinelOf(%q) = %q, want %q", test.err, got, test.sentinel)
		}
	}
}

func TestKind_String(t *testing.T) {
	for kind, want := range map[Kind]string{Definite: "definite", Retryable: "retryable", Indeterminate: "indeterminate"} {
		if got := kind.String(); got != want {
			t.Errorf("%d is %q, want %q", kind, got, want)
		}
	}
}

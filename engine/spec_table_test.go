package engine

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// spec says which tests hold each rule (S), scenario (T), invariant (I) and crash point (K) of the life cycle's specification. The first one names
// it in its comment.
var spec = map[string][]string{
	"S1":  {"TestSpecT12SecondEndIsNoEnd", "TestTerminalStateIsWrittenOnce"},
	"S2":  {"TestSpecT13RegrantWithoutAnEnd", "TestSpecT15ThousandTerms"},
	"S3":  {"TestSpecT08NothingIsDeclaredBeforeTheCloseSettles"},
	"S4":  {"TestSpecT08NothingIsDeclaredBeforeTheCloseSettles"},
	"S5":  {"TestSpecNamedOrders", "TestSpecEveryOrderOfAnEnd"},
	"S6":  {"TestSpecT01EndWhileLeading", "TestSpecEveryOrderOfAnEnd"},
	"S7":  {"TestSpecNamedOrders", "TestSpecEveryOrderOfAnEnd"},
	"S8":  {"TestSpecT21NoTermBesideAnother", "TestSpecT28StoredEndIsShown", "TestSpecNamedOrders"},
	"S9":  {"TestSpecT17CloseTwice", "TestSpecT16CloseWithoutAnything"},
	"S10": {"TestSpecT25UnreadableConfigIsNotKept", "TestSpecT26DriverInTrouble"},
	"S11": {"TestSpecT20OlderTermHasNoEffect"},
	"S12": {"TestSpecT12SecondEndIsNoEnd"},
	"S13": {"TestSpecT29CancelBeforeAnythingRuns", "TestSpecT31ShownWhenStored"},
	"S14": {"TestSpecT31ShownWhenStored"},
	"S15": {"TestSpecT20OlderTermHasNoEffect", "TestTxnGuards"},

	"T1": {"TestSpecT01EndWhileLeading"}, "T2": {"TestSpecNamedOrders"}, "T3": {"TestSpecNamedOrders"}, "T4": {"TestSpecNamedOrders"},
	"T5": {"TestSpecNamedOrders"}, "T6": {"TestSpecNamedOrders"}, "T7": {"TestSpecNamedOrders"},
	"T8": {"TestSpecT08NothingIsDeclaredBeforeTheCloseSettles"}, "T9": {"TestSpecNamedOrders"},
	"T10": {"TestSpecT10CloseSettlesWithAnError"}, "T11": {"TestSpecT11ObservationAfterTheClose"}, "T12": {"TestSpecT12SecondEndIsNoEnd"},
	"T13": {"TestSpecT13RegrantWithoutAnEnd"}, "T14": {"TestSpecNamedOrders"}, "T15": {"TestSpecT15ThousandTerms"},
	"T16": {"TestSpecT16CloseWithoutAnything"}, "T17": {"TestSpecT17CloseTwice"}, "T18": {"TestSpecT18RevokeAndCloseWithoutAnEnd"},
	"T19": {"TestSpecT16CloseWithoutAnything"}, "T20": {"TestSpecT20OlderTermHasNoEffect"}, "T21": {"TestSpecT21NoTermBesideAnother"},
	"T22": {"TestSpecT22SecondReportWhileTheFirstIsFlushed"},
	"T23": {"TestSpecT23CutOffMasterLoses", "gridtest:TestSpecJob_CutOffMaster"},
	"T24": {"TestSpecT24CutOffMasterHadWritten", "gridtest:TestSpecJob_CutOffMaster"},
	"T25": {"TestSpecT25UnreadableConfigIsNotKept"}, "T26": {"TestSpecT26DriverInTrouble"},
	"T27": {"TestSpecT27StoreCannotBeReadAtTheGrant", "TestStoreOutage"}, "T28": {"TestSpecT28StoredEndIsShown"},
	"T29": {"TestSpecT29CancelBeforeAnythingRuns"}, "T30": {"TestSpecT30NobodyHangs"}, "T31": {"TestSpecT31ShownWhenStored"},
	"T32": {"TestSpecT28StoredEndIsShown", "TestSpecI07ResultWithTheStatus"}, "T33": {"TestSpecEveryOrderOfAnEnd"}, "T34": {"TestSpecRandomTerms"},

	"I1":  {"TestSpecKMasterDiesAfterEachStep", "TestTombstoneSurvivesTwoMasters", "TestSpecRandomFaults"},
	"I2":  {"TestTerminalStateIsWrittenOnce", "TestSpecRandomFaults", "TestDecideKeepsItsRules"},
	"I3":  {"TestSpecI10EndedJobsAreNeverListed", "TestSpecT31ShownWhenStored"},
	"I4":  {"TestSpecT18RevokeAndCloseWithoutAnEnd", "TestSpecRandomFaults"},
	"I5":  {"TestSpecI05NothingIsRemovedBeforeTheCommit"},
	"I6":  {"TestSpecT31ShownWhenStored"},
	"I7":  {"TestSpecI07ResultWithTheStatus"},
	"I8":  {"TestSpecKMasterDiesAfterEachStep", "gridtest:TestJob_TwoMastersDieInsideTheCleanupDelay"},
	"I9":  {"TestSpecK6EntriesApart"},
	"I10": {"TestSpecI10EndedJobsAreNeverListed", "TestTombstoneSurvivesTwoMasters", "TestCountsAddUp"},
	"I11": {"TestSpecI11SecondIncarnation", "TestTxnGuards"},
	"I12": {"TestSpecT23CutOffMasterLoses", "TestTxnGuards", "TestTerminalStateIsWrittenOnce"},
	"I13": {"TestSpecT20OlderTermHasNoEffect", "TestDecideKeepsItsRules", "TestSpecStaleReports"},
	"I14": {"TestSpecT23CutOffMasterLoses", "TestSpecEveryOrderOfAnEnd"},
	"I15": {"TestSpecStaleReports", "TestSpecRandomFaults"},
	"I16": {"TestSpecKMasterDiesAfterEachStep"},
	"I17": {"TestSpecI17CleanupProgress", "TestCleanupIsRepeated"},
	"I18": {"TestMasterDeposedAtEveryMoment", "TestLapsedLease", "TestSpecRandomFaults"},
	"I19": {"TestSpecI19OneJobOfManySubmits", "TestRequests"},
	"I20": {"TestSpecI20AcceptedMeansDurable"},
	"I21": {"TestSpecI21OneBadJobHoldsUpNoOther"},
	"I22": {"TestSpecT27StoreCannotBeReadAtTheGrant", "TestStoreOutage"},
	"I23": {"TestHistoryIsBounded"},
	"I24": {"TestSpecI24RetentionByStatus", "TestSavepoint_StartAfterFailure", "TestCheckpointIndexRetained"},
	"I25": {"TestCancelAtEveryMoment", "TestSpecT29CancelBeforeAnythingRuns"},
	"I26": {"TestSpecT15ThousandTerms"},

	"K0": {"TestSpecKMasterDiesAfterEachStep"}, "K1": {"TestJobWithoutStateIsRepaired", "TestSpecKMasterDiesAfterEachStep"},
	"K2": {"TestSpecKMasterDiesAfterEachStep"}, "K3": {"TestSpecKMasterDiesAfterEachStep"}, "K4": {"TestSpecKMasterDiesAfterEachStep"},
	"K5": {"TestSpecKMasterDiesAfterEachStep"}, "K6": {"TestSpecK6EntriesApart", "TestTerminalJobWithoutRecordIsSettled"},
	"K7": {"TestSpecKMasterDiesAfterEachStep"}, "K8": {"TestSpecKMasterDiesAfterEachStep"}, "K9": {"TestSpecKMasterDiesAfterEachStep"},
	"K10": {"TestSpecKMasterDiesAfterEachStep"},
}

// Every id of the specification has a test that is there and names it.
func TestSpecIsComplete(t *testing.T) {
	tests := map[string]string{} // name to comment
	for prefix, dir := range map[string]string{"": ".", "gridtest:": "../internal/gridtest", "e2e:": "../e2e"} {
		for name, doc := range testsIn(t, dir) {
			tests[prefix+name] = doc
		}
	}
	var all []string
	for letter, n := range map[string]int{"S": 15, "T": 34, "I": 26} {
		for i := range n {
			all = append(all, fmt.Sprint(letter, i+1))
		}
	}
	for i := range 11 {
		all = append(all, fmt.Sprint("K", i))
	}
	for _, id := range all {
		if len(spec[id]) == 0 {
			t.Errorf("%s has no test", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(spec)) {
		if !slices.Contains(all, id) {
			t.Errorf("%s is not in the specification", id)
		}
		for i, name := range spec[id] {
			doc, ok := tests[name]
			switch {
			case !ok:
				t.Errorf("%s: there is no %s", id, name)
			case i == 0 && !names(doc, id):
				t.Errorf("%s: the comment of %s does not name it", id, name)
			}
		}
	}
}

var ranges = regexp.MustCompile(`\b([A-Z])(\d+) to ([A-Z])(\d+)\b`)

// names reports whether a comment names an id, by itself or in a range such as K0 to K10.
func names(doc, id string) bool {
	if regexp.MustCompile(`\b` + id + `\b`).MatchString(doc) {
		return true
	}
	for _, m := range ranges.FindAllStringSubmatch(doc, -1) {
		var from, to, n int
		_, err := fmt.Sscan(m[2]+" "+m[4]+" "+id[1:], &from, &to, &n)
		if err == nil && m[1] == id[:1] && from <= n && n <= to {
			return true
		}
	}
	return false
}

// testsIn returns the test functions of a package with their comments.
func testsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", dir, err)
	}
	out := map[string]string{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, b, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				out[fn.Name.Name] = strings.Join(strings.Fields(fn.Doc.Text()), " ")
			}
		}
	}
	return out
}

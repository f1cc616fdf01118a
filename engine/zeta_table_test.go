package engine

import (
	"maps"
	"slices"
	"testing"
)

// zetaRow is a situation that SeaTunnel Zeta's own tests put a cluster in, or one that they leave out (ZA to ZK), and the tests that do so here. The first one
// names the row in its comment.
type zetaRow struct {
	what  string
	tests []string
}

// Where members restart with what they had on disk there is no row: members keep nothing on disk but checkpoints, see Z3. A change of data while a source is
// read (CDC) has none either: there is no such source.
var zetaRows = map[string]zetaRow{
	"Z1":  {"batch and streaming jobs on two members that do everything: nobody, a worker or the master dies", []string{"gridtest:TestZeta_FaultTolerance", "e2e:TestThreeMembers_MasterKilled", "e2e:TestThreeMembers_WorkerKilled"}},
	"Z2":  {"the same with two pipelines, and with masters and workers apart", []string{"gridtest:TestZeta_FaultTolerance"}},
	"Z3":  {"all members die and start again", []string{"TestStorage_AllMembersLost", "gridtest:TestCheckpoint_SavepointOutlivesTheCluster", "TestStorage_FinishedJobIsOver"}},
	"Z4":  {"many pipelines compete for the slots that a dead worker leaves", []string{"TestZetaManyPipelinesWaitForSlots", "TestQueueRestartsTakeWhatThereIs"}},
	"Z5":  {"a job waits for slots, and the master dies", []string{"TestZetaPendingJobThroughFailover", "TestSlotsAfterFailover", "gridtest:TestJob_MastersAndWorkersApart_SlotsAndTags"}},
	"Z6":  {"the job that holds the slots is canceled", []string{"TestSlotsWait", "e2e:TestC016_PendingJobs"}},
	"Z7":  {"a tombstone and a waiting job, no worker, and the master dies", []string{"gridtest:TestZeta_TerminalJobNeedsNoWorker"}},
	"Z8":  {"masters die one after the other, without rest", []string{"TestZetaMastersDieWithoutRest", "gridtest:TestC167_KilledAndStarted_TwentyTimes"}},
	"Z9":  {"the first job of the queue can never fit", []string{"TestQueueOvertakingIsBounded", "TestQueueNobodyWaitsForStreams", "TestSlotsWait"}},
	"Z10": {"thirty streams, and the master dies", []string{"TestZetaManyJobsTakenOver", "gridtest:TestMeasure_MasterDies"}},
	"Z11": {"a failed job without history and record, and the master dies", []string{"TestTerminalJobWithoutRecordIsSettled", "TestSpecK6EntriesApart"}},
	"Z12": {"no retries, and a worker dies: a defined end", []string{"gridtest:TestJob_NoRetries_WorkerDies", "TestWorkerLossWithoutRetries", "e2e:TestNoRetries_WorkerKilled"}},
	"Z13": {"the master dies when all rows are written and the job is not closed", []string{"TestMasterKilledAtEveryMoment", "TestSpecKMasterDiesAfterEachStep", "gridtest:TestJob_CrashSweep"}},
	"Z14": {"the master dies in a checkpoint, a savepoint, or while one is triggered", []string{"TestCheckpoint_DeathAtEveryMoment", "TestSavepoint_DeathAtEveryMoment", "gridtest:TestCheckpoint_CrashSweep", "soak:TestShortSoak"}},
	"Z15": {"a start from a savepoint with more and with fewer subtasks", []string{"TestSavepoint_StopAndStart", "TestSavepoint_DeathBeforeTheFirstCheckpoint"}},
	"Z16": {"the life of a job through REST: submit, savepoint, start, stop, list", []string{"soak:TestShortSoak", "e2e:TestC029_C034_C035_C036_C037_Jobs"}},
	"Z17": {"too few slots fail a job, and the next one runs", []string{"TestSlotsReject"}},
	"Z18": {"tags: workers by filter, a job on a matching worker only", []string{"gridtest:TestJob_MastersAndWorkersApart_SlotsAndTags", "TestQueueTags"}},
	"Z19": {"the text of a failure survives", []string{"TestFailuresAreKept", "TestFailures"}},
	"Z20": {"an unknown job, and one whose history is over", []string{"TestHistoryIsBounded", "e2e:TestC045_C047_IDsOfJobs"}},
	"Z21": {"an error at the last checkpoint: FAILED, not FINISHED", []string{"TestFailures", "TestDecideEnds"}},
	"Z22": {"every path on every member, in both forms", []string{"e2e:TestC029_C034_C035_C036_C037_Jobs", "rest:TestAliases_AnswerAlike", "e2e:TestC044_C051_C052_ListsAndCounters"}},
	"Z23": {"nothing of an ended job stays: memory, files, goroutines, entries", []string{"e2e:TestC185_C191_C193_NothingStays", "TestCheckpoint_ThousandsLeaveNothing"}},

	"ZA": {"two masters die inside the cleanup window, and one at each step of it", []string{"TestTombstoneSurvivesTwoMasters", "TestSpecKMasterDiesAfterEachStep", "e2e:TestC005_FiveMembers_TwoMastersKilledInsideTheCleanupDelay"}},
	"ZB": {"the master dies between a job's info and its state", []string{"TestJobWithoutStateIsRepaired"}},
	"ZC": {"the same id inside the window, plainly and with a savepoint, on both sides of a change of masters", []string{"TestZetaSameIDInsideTheWindow", "TestSubmitInsideTheCleanupWindow"}},
	"ZD": {"a deposed master comes back with a late timer or callback", []string{"TestSpecCleanupNamesTheIncarnation", "TestSpecLateOrders", "TestSpecStaleReports", "TestMasterDeposedAtEveryMoment"}},
	"ZE": {"the grid is split and merges", []string{"gridtest:TestSpecJob_CutOffMaster", "e2e:TestC169_MasterCutOff_ComesBack"}},
	"ZF": {"worker and master are lost together", []string{"TestMasterAndWorkerKilledAtEveryMoment", "gridtest:TestCheckpoint_CrashSweep"}},
	"ZG": {"counts and lists agree at every moment, on every member", []string{"TestCountsAddUpAtEachMoment", "TestSpecI10EndedJobsAreNeverListed", "soak:TestShortSoak"}},
	"ZH": {"after many jobs and their windows all maps are empty but history", []string{"e2e:TestC185_C191_C193_NothingStays", "soak:TestShortSoak"}},
	"ZI": {"a cancel or a savepoint while the worker dies", []string{"TestCancelAndTheWorkerDies", "TestCancelAtEveryMoment", "TestSavepoint_DeathAtEveryMoment"}},
	"ZJ": {"a task still runs for a job that has ended", []string{"TestStrayTasksAreStopped"}},
	"ZK": {"kill -9, a pause longer than the failure timeout, a step of the clock", []string{"e2e:TestMasterPaused", "TestRestWait", "TestCleanupAfterAStepOfTheClock", "soak:TestShortSoak"}},
}

// Every row has a test that is there and names it.
func TestZetaTableIsComplete(t *testing.T) {
	tests := map[string]string{} // name to comment
	for prefix, dir := range map[string]string{"": ".", "gridtest:": "../internal/gridtest", "e2e:": "../e2e", "soak:": "../e2e/soak", "rest:": "../rest"} {
		for name, doc := range testsIn(t, dir) {
			tests[prefix+name] = doc
		}
	}
	for _, id := range slices.Sorted(maps.Keys(zetaRows)) {
		row := zetaRows[id]
		if len(row.tests) == 0 || row.what == "" {
			t.Errorf("%s has no test", id)
		}
		for i, name := range row.tests {
			doc, ok := tests[name]
			switch {
			case !ok:
				t.Errorf("%s: there is no %s", id, name)
			case i == 0 && !names(doc, id):
				t.Errorf("%s: the comment of %s does not name it", id, name)
			}
		}
	}
	if len(zetaRows) != 23+11 {
		t.Errorf("%d rows", len(zetaRows))
	}
}

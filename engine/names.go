package engine

// The distributed maps of the engine, by SeaTunnel's names. Every key of a job has the job id as its place, so that one change of a job over
// several maps is one [Txn].
const (
	MapRunningJobInfo    = "engine_runningJobInfo"    // what was submitted; written once
	MapRunningJobState   = "engine_runningJobState"   // the job with all its pipelines and task groups
	MapStateTimestamps   = "engine_stateTimestamps"   // when each state was entered
	MapPendingJobCleanup = "engine_pendingJobCleanup" // what is left to clean up after a job's end
	MapFinishedJobState  = "engine_finishedJobState"  // history, with a TTL

	// The following names are reserved: the engine keeps these facts in the entries above.
	MapOwnedSlotProfiles     = "engine_ownedSlotProfilesIMap"
	MapRunningJobMetrics     = "engine_runningJobMetrics"
	MapFinishedJobMetrics    = "engine_finishedJobMetrics"
	MapFinishedJobVertexInfo = "engine_finishedJobVertexInfo"
	MapCheckpointID          = "engine_checkpoint-id-map"
	MapCheckpointMonitor     = "engine_checkpoint_monitor"
)

// keyOf returns the key of a job's entry in one of the maps.
func keyOf(mapName, jobID string) Key { return Key{Map: mapName, Place: jobID, Key: jobID} }

// MapNames returns the names of the maps that the engine uses, in no particular order.
func MapNames() []string {
	return []string{MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapPendingJobCleanup, MapFinishedJobState}
}

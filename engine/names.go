package engine

// The distributed maps of the engine, by SeaTunnel's names. Every key of a job has the job id as its place, so that one change of a job over
// several maps is one [Txn].
const (
	MapRunningJobInfo    = "engine_runningJobInfo"    // what was submitted; written once
	MapRunningJobState   = "engine_runningJobState"   // the job with all its pipelines and task groups
	MapStateTimestamps   = "engine_stateTimestamps"   // when each state was entered
	MapPendingJobCleanup = "engine_pendingJobCleanup" // what is left to clean up after a job's end
	MapFinishedJobState  = "engine_finishedJobState"  // history, with a TTL

	MapCheckpointID      = "engine_checkpoint-id-map"  // which checkpoints of a job are kept; outlives a job that can be started again
	MapCheckpointMonitor = "engine_checkpoint_monitor" // figures of a job's checkpoints; outlives the job as long as its history
	MapCheckpointData    = "engine_checkpoint_data"    // complete checkpoints, one entry each

	// The following names are reserved: the engine keeps these facts in the entries above.
	MapOwnedSlotProfiles     = "engine_ownedSlotProfilesIMap"
	MapRunningJobMetrics     = "engine_runningJobMetrics"
	MapFinishedJobMetrics    = "engine_finishedJobMetrics"
	MapFinishedJobVertexInfo = "engine_finishedJobVertexInfo"
)

// keyOf returns the key of a job's entry in one of the maps.
func keyOf(mapName, jobID string) Key { return Key{Map: mapName, Place: jobID, Key: jobID} }

// MapNames returns the names of the maps that the engine uses, in no particular order.
func MapNames() []string {
	return []string{MapRunningJobInfo, MapRunningJobState, MapStateTimestamps, MapPendingJobCleanup, MapFinishedJobState,
		MapCheckpointID, MapCheckpointMonitor, MapCheckpointData}
}

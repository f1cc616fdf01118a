package rest

import (
	"runtime/debug"
)

// buildVersion returns the version of the main module, and the abbreviated revision of its source, as the build recorded them.
func buildVersion() (version, revision string) {
	version, revision = "dev", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value[:min(len(s.Value), 7)]
		}
	}
	return version, revision
}

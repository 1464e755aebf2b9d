package pawl

// NamespaceInfo is a namespace that had work.
type NamespaceInfo struct {
	Namespace string `json:"namespace"`
	OpenTasks int64  `json:"open_tasks"` // those that have neither ended nor failed
	Workers   int64  `json:"workers"`    // seen within WorkerLive
}

package hot

// Files are the embedded texts, for the test that prepares them all.
var Files = files

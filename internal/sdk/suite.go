package main

import (
	"regexp"
	"strconv"
	"time"
)

// suite is one test suite. To add one, add a row to suites and its count to sdk/baseline.json.
type suite struct {
	name    string
	command []string // run in the root of the repository; it installs what it needs
	counts  counter  // reads the output of the command
	foreign bool     // others wrote its tests: some may fail, and the baseline holds those that pass
	minutes int      // how long it may take; 0 = 20
	short   []string // the command of the short form, which fails if a test does; nil = there is none
}

// counter finds how many tests passed, of how many, in the output of a command, without colours.
type counter func(output string) (passed, total int, ok bool)

var suites = []suite{
	{name: "typescript", command: []string{"./sdk/typescript/run", "core"}, counts: nodeTest,
		short: []string{"./sdk/typescript/run", "short"}},
	{name: "ai-sdk", command: []string{"./sdk/typescript/run", "ai"}, counts: nodeTest},
	{name: "python", command: []string{"./sdk/python/run"}, counts: pytest,
		short: []string{"./sdk/python/run", "tests/test_client.py", "tests/test_vectors.py", "tests/test_surface.py", "frameworks/test_crashes.py"}},
	{name: "langgraph-python", command: []string{"./sdk/python/run", "frameworks/test_langgraph.py"}, counts: pytest, foreign: true},
	{name: "pydantic-ai", command: []string{"./sdk/python/run", "frameworks/test_pydantic_ai.py"}, counts: pytest},
	{name: "openai-agents", command: []string{"./sdk/python/run", "frameworks/test_openai_agents.py"}, counts: pytest},
	{name: "claude-agent-sdk", command: []string{"./sdk/python/run", "frameworks/test_claude_agent_sdk.py"}, counts: pytest},
	{name: "agents-that-die", command: []string{"./sdk/python/run", "frameworks/test_crashes.py"}, counts: pytest, minutes: 60},
	{name: "langgraph-js", command: []string{"./sdk/langgraph/run"}, counts: vitest, foreign: true},
	{name: "durable-streams", command: []string{"./sdk/streams/run"}, counts: vitest},
	{name: "workflow-world", command: []string{"./sdk/workflow/run"}, counts: vitest},
}

func (s suite) limit() time.Duration {
	if s.minutes > 0 {
		return time.Duration(s.minutes) * time.Minute
	}
	return 20 * time.Minute
}

// escapes are the colours of a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

var (
	nodeTests  = regexp.MustCompile(`(?m)^(?:#|ℹ) tests (\d+)$`)
	nodePassed = regexp.MustCompile(`(?m)^(?:#|ℹ) pass (\d+)$`)
)

// nodeTest reads the last summary of Node's test runner.
func nodeTest(output string) (passed, total int, ok bool) {
	tests, pass := nodeTests.FindAllStringSubmatch(output, -1), nodePassed.FindAllStringSubmatch(output, -1)
	if len(tests) == 0 || len(pass) == 0 {
		return 0, 0, false
	}
	return number(pass[len(pass)-1][1]), number(tests[len(tests)-1][1]), true
}

var (
	pytestEnd  = regexp.MustCompile(`(?m)^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s.*$`)
	pytestPart = regexp.MustCompile(`(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)`)
)

// pytest adds up the last lines of all runs of pytest.
func pytest(output string) (passed, total int, ok bool) {
	for _, end := range pytestEnd.FindAllStringSubmatch(output, -1) {
		for _, part := range pytestPart.FindAllStringSubmatch(end[1], -1) {
			n := number(part[1])
			total += n
			if part[2] == "passed" || part[2] == "xpassed" {
				passed += n
			}
			ok = true
		}
	}
	return passed, total, ok
}

var (
	vitestEnd  = regexp.MustCompile(`(?m)^ +Tests +(.*)\((\d+)\)$`)
	vitestPass = regexp.MustCompile(`(\d+) passed`)
)

// vitest reads the last summary of Vitest.
func vitest(output string) (passed, total int, ok bool) {
	ends := vitestEnd.FindAllStringSubmatch(output, -1)
	if len(ends) == 0 {
		return 0, 0, false
	}
	end := ends[len(ends)-1]
	if pass := vitestPass.FindStringSubmatch(end[1]); pass != nil {
		passed = number(pass[1])
	}
	return passed, number(end[2]), true
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the patterns match digits only
	return n
}

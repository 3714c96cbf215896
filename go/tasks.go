package molbox

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"molbox/workflow"
)

const (
	firstPoll = 200 * time.Millisecond
	lastPoll  = 5 * time.Second
)

// TaskFailed is the end of a task that is no success; errors.As finds it.
type TaskFailed struct {
	ID     string
	Status string
	// Failure has the reason and perhaps a remedy; nil of a task that was cancelled.
	Failure *workflow.Failure
}

func (t *TaskFailed) Error() string {
	if t.Failure == nil {
		return t.ID + " " + t.Status
	}
	return fmt.Sprintf("%s %s: %s", t.ID, t.Status, t.Failure.Message)
}

// state is what the records of all tasks have.
type state struct {
	status     string
	finishedAt *string
	failure    *workflow.Failure
}

// isOver reports whether a task has ended. Of a later service's status the time of the end tells.
func (s state) isOver() bool {
	switch s.status {
	case "queued", "running":
		return false
	case "succeeded", "failed", "cancelled":
		return true
	}
	return s.finishedAt != nil
}

// WaitSystem waits until a system is built; onProgress, if there is one, gets each record that is looked up. The context
// ends the wait, not the task.
func (c *Client) WaitSystem(
	ctx context.Context, id string, onProgress func(workflow.SystemRecord),
) (workflow.SystemRecord, error) {
	return wait(ctx, c, id, "/info/system/", onProgress, func(r workflow.SystemRecord) state {
		return state{r.Status, r.FinishedAt, r.Error}
	})
}

// WaitJob waits until a simulation has ended, as WaitSystem does.
func (c *Client) WaitJob(
	ctx context.Context, id string, onProgress func(workflow.JobRecord),
) (workflow.JobRecord, error) {
	return wait(ctx, c, id, "/info/job/", onProgress, func(r workflow.JobRecord) state {
		return state{r.Status, r.FinishedAt, r.Error}
	})
}

// WaitAnalysis waits until an analysis has ended, as WaitSystem does.
func (c *Client) WaitAnalysis(
	ctx context.Context, id string, onProgress func(workflow.AnalysisRecord),
) (workflow.AnalysisRecord, error) {
	return wait(ctx, c, id, "/info/analysis/", onProgress, func(r workflow.AnalysisRecord) state {
		return state{r.Status, r.FinishedAt, r.Error}
	})
}

func wait[T any](
	ctx context.Context, c *Client, id, path string, onProgress func(T), stateOf func(T) state,
) (T, error) {
	for pause := firstPoll; ; pause = min(pause*5/4, lastPoll) {
		record, err := Get[T](ctx, c, path+url.PathEscape(id), nil)
		if err != nil {
			return record, err
		}
		if onProgress != nil {
			onProgress(record)
		}
		if at := stateOf(record); at.isOver() {
			if at.status != "succeeded" {
				return record, &TaskFailed{ID: id, Status: at.status, Failure: at.failure}
			}
			return record, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return record, err
		}
	}
}

// kinds are the prefixes of identifiers, with what they are of.
var kinds = map[string]string{"file": "file", "box": "system", "job": "job", "ana": "analysis"}

// isDigest reports whether a text is a SHA-256 in hexadecimal.
func isDigest(text string) bool {
	return len(text) == 64 && !slices.ContainsFunc([]byte(text), func(b byte) bool {
		return (b < '0' || b > '9') && (b < 'a' || b > 'f')
	})
}

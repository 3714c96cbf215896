package molbox

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"molbox/workflow"
)

const jobID = "job_0123456789abcdefghij"

// serve answers with a function that also gets the number of the request, from 0.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, nth int)) *Client {
	t.Helper()
	var nth atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Counted before: an answer may break off.
		answer(w, r, int(nth.Add(1)-1))
	}))
	t.Cleanup(server.Close)
	client, err := New(server.URL, "mbx_secret")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func etagOf(content string) string {
	return fmt.Sprintf(`"sha256-%x"`, sha256.Sum256([]byte(content)))
}

// breakOff ends a connection in the middle of an answer.
func breakOff() { panic(http.ErrAbortHandler) }

func TestTheKeyGoesToNoOtherOrigin(t *testing.T) {
	keys := []string{}
	other := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		keys = append(keys, r.Header.Get("x-api-key"))
		fmt.Fprint(w, `{"account": "ada"}`)
	})
	client := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		keys = append(keys, r.Header.Get("x-api-key"))
		http.Redirect(w, r, other.base.String(), http.StatusTemporaryRedirect)
	})
	account, err := Get[workflow.Account](context.Background(), client, "/info/account", nil)
	if err != nil || account.Account != "ada" {
		t.Fatal(account, err)
	}
	if keys[0] != "mbx_secret" || keys[1] != "" {
		t.Fatal(keys)
	}
}

func TestASubmissionIsNotRedirected(t *testing.T) {
	n := 0
	client := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		n++
		http.Redirect(w, r, "/moved", []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect}[n-1])
	})
	for range 2 {
		_, err := Post[workflow.JobRecord](context.Background(), client, "/submit/job", workflow.JobCreateParams{})
		if err == nil || !strings.Contains(err.Error(), "redirects to /moved; give that address") {
			t.Fatal(err)
		}
	}
	if n != 2 {
		t.Fatal(n)
	}
}

func TestTransientErrorsAreRepeatedWithTheSameIdempotencyKey(t *testing.T) {
	keys := map[string]int{}
	client := serve(t, func(w http.ResponseWriter, r *http.Request, nth int) {
		keys[r.Header.Get("idempotency-key")]++
		if nth < 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"job_id": %q, "a field of tomorrow": [1]}`, jobID)
	})
	job, err := Post[workflow.JobRecord](context.Background(), client, "/submit/job", workflow.JobCreateParams{})
	if err != nil || job.JobId != jobID {
		t.Fatal(job, err)
	}
	if len(keys) != 1 || keys[""] != 0 {
		t.Fatal(keys)
	}
}

func TestWhatMayNotBeDoneTwiceIsNotRepeated(t *testing.T) {
	n := 0
	client := serve(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
		n = nth + 1
		w.WriteHeader(http.StatusBadGateway)
	})
	_, err := Post[workflow.NewKey](context.Background(), client, "/submit/key", workflow.KeyRequest{})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Status != http.StatusBadGateway || n != 1 {
		t.Fatal(err, n)
	}
}

func TestADeleteThatWasNotBegunIsRepeatedAndAnUncertainOneIsNot(t *testing.T) {
	n := 0
	client := serve(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
		n = nth + 1
		w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusNoContent, http.StatusBadGateway}[nth])
	})
	if err := Delete(context.Background(), client, "/info/job/"+jobID); err != nil {
		t.Fatal(err)
	}
	var refusal *Refusal
	err := Delete(context.Background(), client, "/info/job/"+jobID)
	if !errors.As(err, &refusal) || refusal.Status != http.StatusBadGateway || n != 3 {
		t.Fatal(err, n)
	}
}

func TestAMarginIsWaitedForLongerThanARecord(t *testing.T) {
	waiting, isOver := make(chan bool, 1), make(chan bool)
	client := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if strings.HasPrefix(r.URL.Path, "/margin/") {
			waiting <- true
			<-isOver
			fmt.Fprint(w, `{}`)
			return
		}
		<-r.Context().Done()
	})
	client.Retries = 0
	each := client.HTTP.Transport.(transports)
	if each.margin.ResponseHeaderTimeout != 7*time.Minute {
		t.Fatal(each.margin.ResponseHeaderTimeout)
	}
	each.ResponseHeaderTimeout = 50 * time.Millisecond
	margin := make(chan error)
	go func() {
		path := "/margin/submit_job/historical/json"
		_, err := Post[map[string]any](context.Background(), client, path, struct{}{})
		margin <- err
	}()
	<-waiting
	// The margin was asked for before, and so has waited for longer.
	if _, err := Get[workflow.Account](context.Background(), client, "/info/account", nil); err == nil {
		t.Error("a record is waited for without end")
	}
	close(isOver)
	if err := <-margin; err != nil {
		t.Fatal(err)
	}
}

func TestARefusalNamesTheField(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("x-request-id", "r1")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"detail": [{"loc": ["body", "equilibration", 1, "time"], "msg": "is too long", "type": "x"}]}`)
	})
	_, err := Post[workflow.JobRecord](context.Background(), client, "/submit/job", workflow.JobCreateParams{})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.RequestID != "r1" {
		t.Fatal(err)
	}
	if err.Error() != "refused with 422: equilibration.1.time: is too long" {
		t.Fatal(err)
	}
}

func TestADownloadThatBreaksIsResumed(t *testing.T) {
	content := strings.Repeat("0123456789", 1000)
	client := serve(t, func(w http.ResponseWriter, r *http.Request, nth int) {
		w.Header().Set("etag", etagOf(content))
		if nth == 0 {
			w.Header().Set("content-length", fmt.Sprint(len(content)))
			fmt.Fprint(w, content[:4000])
			w.(http.Flusher).Flush()
			breakOff()
		}
		if r.Header.Get("range") != "bytes=4000-" || r.Header.Get("if-range") != etagOf(content) {
			t.Errorf("asked for %q", r.Header.Get("range"))
		}
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, content[4000:])
	})
	path := filepath.Join(t.TempDir(), "results.zip")
	if err := client.Download(context.Background(), jobID, path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != content {
		t.Fatal(len(got), err)
	}
}

func TestADownloadThatCannotBeWrittenIsNotAskedForAgain(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
		if nth > 0 {
			t.Error("asked for again")
		}
		w.Header().Set("etag", etagOf("content"))
		fmt.Fprint(w, "content")
	})
	full, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	// As on a full disk.
	full.Close()
	err = client.receive(context.Background(), "/retrieve/job/"+jobID, "job", full)
	if !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
}

func TestADamagedDownloadIsNotThere(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("etag", etagOf("right"))
		fmt.Fprint(w, "wrong")
	})
	folder := t.TempDir()
	err := client.Download(context.Background(), jobID, filepath.Join(folder, "results.zip"))
	if !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Fatal(left)
	}
}

func TestAnUploadSendsNoKeyToTheLinkAndComparesTheDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "villin.ent")
	if err := os.WriteFile(path, []byte("ATOM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for digest, want := range map[string]error{
		fmt.Sprintf("%x", sha256.Sum256([]byte("ATOM"))): nil,
		strings.Repeat("0", 64):                          ErrDamaged,
	} {
		client := serve(t, func(w http.ResponseWriter, r *http.Request, nth int) {
			key := r.Header.Get("x-api-key")
			switch {
			case nth == 0 && r.URL.Query().Get("filetype") == "pdb" && key != "":
				fmt.Fprintf(w, `{"file_id": "file_1", "upload_url": "http://%s/put"}`, r.Host)
			case nth == 1 && r.URL.Path == "/put" && key == "" && r.ContentLength == 4:
			case nth == 2 && key != "":
				fmt.Fprintf(w, `{"file_id": "file_1", "name": "villin", "sha256": %q}`, digest)
			default:
				t.Errorf("request %d: %s %s", nth, r.Method, r.URL)
			}
		})
		if _, err := client.Upload(context.Background(), path, UploadOptions{}); !errors.Is(err, want) {
			t.Fatal(err, want)
		}
	}
}

// register answers the requests of an upload, and calls registered with that of its registration, from 0.
func register(t *testing.T, registered func(w http.ResponseWriter, r *http.Request, nth int)) *Client {
	nth := 0
	return serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch r.URL.Path {
		case "/submit/upload-url":
			fmt.Fprintf(w, `{"file_id": "file_1", "upload_url": "http://%s/put"}`, r.Host)
		case "/submit/file/":
			nth++
			registered(w, r, nth-1)
		}
	})
}

func TestARegistrationIsRepeatedWithTheSameIdempotencyKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "villin.pdb")
	if err := os.WriteFile(path, []byte("ATOM"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := []string{}
	client := register(t, func(w http.ResponseWriter, r *http.Request, nth int) {
		keys = append(keys, r.Header.Get("idempotency-key"))
		if nth == 0 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, `{"file_id": "file_1"}`)
	})
	if _, err := client.Upload(context.Background(), path, UploadOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
		t.Fatal(keys)
	}
}

func TestEachFileOfABuiltSystemHasANameOfItsOwn(t *testing.T) {
	folder := t.TempDir()
	for file, want := range map[string][2]string{
		"system.prmtop": {"system.prmtop", "prmtop"},
		"system.rst7":   {"system.rst7", "inpcrd"},
		"villin.ENT":    {"villin", "pdb"},
	} {
		var sent workflow.FileRegistration
		client := register(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, `{"file_id": "file_1"}`)
		})
		path := filepath.Join(folder, file)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Upload(context.Background(), path, UploadOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := [2]string{*sent.Name, *sent.Format}; got != want {
			t.Fatal(got, want)
		}
	}
}

func TestAWaitEndsWithTheTaskAndSaysWhyItFailed(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request, nth int) {
		if nth == 0 {
			fmt.Fprint(w, `{"status": "running"}`)
			return
		}
		fmt.Fprint(w, `{"status": "failed", "error": {"code": "x", "message": "it blew up", "remedy": "a shorter step"}}`)
	})
	seen := []string{}
	_, err := client.WaitJob(context.Background(), jobID, func(job workflow.JobRecord) {
		seen = append(seen, job.Status)
	})
	var failed *TaskFailed
	if !errors.As(err, &failed) || *failed.Failure.Remedy != "a shorter step" {
		t.Fatal(err)
	}
	if strings.Join(seen, " ") != "running failed" {
		t.Fatal(seen)
	}
}

func TestAContextEndsAWait(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		fmt.Fprint(w, `{"status": "queued"}`)
	})
	_, err := client.WaitSystem(ctx, "box_1", func(workflow.SystemRecord) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

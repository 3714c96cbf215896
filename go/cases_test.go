package molbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"molbox/workflow"
)

// The table of cases that all clients run, as JSON: `cargo xtask clients go` makes it of clients/cases.yaml.
const casesFile = "cases.json"

type reply struct {
	Status   int
	Headers  map[string]string
	JSON     json.RawMessage
	Text     string
	Content  []int
	Transfer string
	Silent   bool
}

type wanted struct {
	Line  string
	Has   map[string]string
	Lacks []string
	Sends map[string]any
}

type clientCase struct {
	Name              string
	Call              string
	Retries           *int
	File              string
	Part              int
	Answers           []reply
	Elsewhere         []reply
	Requests          []wanted
	RequestsElsewhere []wanted `json:"requests_elsewhere"`
	OneKey            bool     `json:"one_key"`
	Outcome           struct {
		Status         any
		Whole          bool
		AtLeastSeconds float64 `json:"at_least_seconds"`
		Error          string
		Message        string
		RetryAfter     int64  `json:"retry_after"`
		RequestID      string `json:"request_id"`
	}
}

const tableJobID = "job_7cpejpkq0zxnh8yydfbe"

func tableContent() []byte {
	content := make([]byte, 1200)
	for n := range content {
		content[n] = byte(n % 251)
	}
	return content
}

// received is a request as it came.
type received struct {
	method, target string
	header         http.Header
	body           []byte
}

// tableService answers as the table says, and remembers what it was asked.
type tableService struct {
	answers []reply
	names   *strings.Replacer
	origin  string

	lock     sync.Mutex
	received []received
}

func serveTable(t *testing.T, answers []reply, other string) *tableService {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	origin := "http://" + listener.Addr().String()
	digest := fmt.Sprintf("%x", sha256.Sum256(tableContent()))
	names := strings.NewReplacer(
		"{base}", origin+"/local", "{other}", other, "{job}", tableJobID, "{digest}", digest)
	service := &tableService{answers: answers, names: names, origin: origin}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go service.answer(connection)
		}
	}()
	return service
}

func (s *tableService) answer(connection net.Conn) {
	defer connection.Close()
	request, err := http.ReadRequest(bufio.NewReader(connection))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(request.Body)
	header := request.Header
	if request.ContentLength > 0 {
		header.Set("content-length", fmt.Sprint(request.ContentLength))
	}
	if len(request.TransferEncoding) > 0 {
		header.Set("transfer-encoding", strings.Join(request.TransferEncoding, ","))
	}
	s.lock.Lock()
	s.received = append(s.received, received{request.Method, request.RequestURI, header, body})
	nth := min(len(s.received), len(s.answers)) - 1
	s.lock.Unlock()
	if nth >= 0 && !s.answers[nth].Silent {
		// Whoever hangs up does so in a case that is about that.
		_, _ = connection.Write(s.wire(s.answers[nth]))
	}
}

func (s *tableService) wire(reply reply) []byte {
	status := max(reply.Status, 0)
	if status == 0 {
		status = http.StatusOK
	}
	body, first := []byte(reply.Text), 0
	lines := []string{"connection: close"}
	switch {
	case reply.Content != nil:
		first = reply.Content[0]
		body = tableContent()[first:reply.Content[1]]
	case reply.JSON != nil:
		body = []byte(s.names.Replace(string(reply.JSON)))
		lines = append(lines, "content-type: application/json")
	}
	for name, value := range reply.Headers {
		lines = append(lines, name+": "+s.names.Replace(value))
	}
	switch {
	case reply.Transfer == "chunked":
		lines = append(lines, "transfer-encoding: chunked")
		body = fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	case reply.Transfer == "cut":
		lines = append(lines, fmt.Sprintf("content-length: %d", len(tableContent())-first))
	case reply.Transfer == "" && status != http.StatusNoContent:
		lines = append(lines, fmt.Sprintf("content-length: %d", len(body)))
	}
	head := fmt.Sprintf("HTTP/1.1 %d of the table\r\n%s\r\n\r\n", status, strings.Join(lines, "\r\n"))
	return append([]byte(head), body...)
}

// expect compares what arrived with what the table has.
func (s *tableService) expect(t *testing.T, requests []wanted) {
	t.Helper()
	s.lock.Lock()
	defer s.lock.Unlock()
	parsed := func(method, target string) string {
		address, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		return method + " " + address.Path + "?" + address.Query().Encode()
	}
	var came, expected []string
	for _, one := range s.received {
		came = append(came, parsed(one.method, one.target))
	}
	for _, one := range requests {
		method, target, _ := strings.Cut(s.names.Replace(one.Line), " ")
		expected = append(expected, parsed(method, target))
	}
	if !reflect.DeepEqual(came, expected) {
		t.Fatalf("there were the requests %q, not %q", came, expected)
	}
	for nth, one := range requests {
		came := s.received[nth]
		for name, value := range one.Has {
			if came.header.Get(name) != value {
				t.Errorf("%s is %q", name, came.header.Get(name))
			}
		}
		for _, name := range one.Lacks {
			if came.header.Get(name) != "" {
				t.Errorf("%s is there", name)
			}
		}
		var sent map[string]any
		if len(one.Sends) > 0 && json.Unmarshal(came.body, &sent) != nil {
			t.Errorf("the body is %q", came.body)
		}
		for name, value := range one.Sends {
			if !reflect.DeepEqual(sent[name], value) {
				t.Errorf("%s is %v", name, sent[name])
			}
		}
	}
}

// called does what a case asks for; the status of a record, if it has one.
func called(ctx context.Context, client *Client, one clientCase, folder string) (string, error) {
	switch path := "/info/job/" + tableJobID; one.Call {
	case "view_job":
		job, err := Get[workflow.JobRecord](ctx, client, path, nil)
		return job.Status, err
	case "submit_job":
		box := "box_1"
		job, err := Post[workflow.JobRecord](ctx, client, "/submit/job", workflow.JobCreateParams{BoxId: &box})
		return job.Status, err
	case "delete_job":
		return "", Delete(ctx, client, path)
	case "wait_job":
		job, err := client.WaitJob(ctx, tableJobID, nil)
		return job.Status, err
	case "upload":
		name, options := one.File, UploadOptions{}
		if name == "" {
			name, options = "content", UploadOptions{Name: "villin", Format: "pdb"}
		}
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, tableContent(), 0o600); err != nil {
			return "", err
		}
		record, err := client.Upload(ctx, file, options)
		return record.Status, err
	case "download":
		return "", client.Download(ctx, tableJobID, filepath.Join(folder, "results.zip"))
	}
	return "", errors.New("there is no such call")
}

func (one clientCase) run(t *testing.T) {
	other := serveTable(t, one.Elsewhere, "")
	service := serveTable(t, one.Answers, other.origin)
	client, err := New(service.origin+"/local", "mbx_secret")
	if err != nil {
		t.Fatal(err)
	}
	if one.Retries != nil {
		client.Retries = *one.Retries
	}
	folder := t.TempDir()
	start := time.Now()
	status, err := called(context.Background(), client, one, folder)
	expected := one.Outcome
	if took := time.Since(start); took.Seconds() < expected.AtLeastSeconds {
		t.Errorf("it waited for %s", took)
	}
	if (err != nil) != (expected.Error != "") {
		t.Fatal(err)
	}
	if err == nil && expected.Status != nil && status != expected.Status {
		t.Errorf("the status is %q", status)
	}
	if expected.Whole {
		content, err := os.ReadFile(filepath.Join(folder, "results.zip"))
		if err != nil || !bytes.Equal(content, tableContent()) {
			t.Error(len(content), err)
		}
	}
	one.expectError(t, err)
	service.expect(t, one.Requests)
	if one.RequestsElsewhere != nil {
		other.expect(t, one.RequestsElsewhere)
	}
	if one.OneKey {
		first := service.received[0].header.Get("idempotency-key")
		for _, request := range service.received {
			if key := request.header.Get("idempotency-key"); key == "" || key != first {
				t.Errorf("the key is %q after %q", key, first)
			}
		}
	}
}

func (one clientCase) expectError(t *testing.T, err error) {
	t.Helper()
	expected := one.Outcome
	var refusal *Refusal
	switch status, _ := expected.Status.(float64); {
	case expected.Error == "refused" && status >= 400:
		if !errors.As(err, &refusal) || refusal.Status != int(status) {
			t.Fatal(err)
		}
		if refusal.RequestID != expected.RequestID || int64(refusal.RetryAfter.Seconds()) != expected.RetryAfter {
			t.Error(refusal.RequestID, refusal.RetryAfter)
		}
	case expected.Error == "refused":
		// A redirect that is not followed is no answer of the service.
		if errors.As(err, &refusal) {
			t.Error(err)
		}
	case expected.Error == "damaged":
		if !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
		return
	case expected.Error == "failed":
		var failed *TaskFailed
		if !errors.As(err, &failed) {
			t.Error(err)
		}
	}
	if err != nil && !strings.Contains(err.Error(), expected.Message) {
		t.Error(err)
	}
}

func TestTheCasesOfAllClients(t *testing.T) {
	text, err := os.ReadFile(casesFile)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the repository's table is not beside this test")
	}
	var cases []clientCase
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range cases {
		// There are no parts that are left on the disk, no call for whole listings, and no way to read 1.0 as a
		// whole number.
		if one.Call != "list_jobs" && one.Part == 0 && one.Name != "unknown fields and values are read" {
			t.Run(one.Name, func(t *testing.T) {
				t.Parallel()
				one.run(t)
			})
		}
	}
}

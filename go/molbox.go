// Package molbox is a client of the molbox molecular dynamics and margin service. The packages workflow and margin
// below it have the types of requests and records, generated from the service's document; this one sends them, and
// uploads, waits and downloads.
//
//	client, err := molbox.New("http://127.0.0.1:8080/local", os.Getenv("MOLBOX_API_KEY"))
//	file, err := client.Upload(ctx, "1vii.pdb", molbox.UploadOptions{})
//	system, err := molbox.Post[workflow.SystemRecord](ctx, client, "/submit/system",
//		workflow.SystemBuildRequest{Protein: &file.FileId})
//	_, err = client.WaitSystem(ctx, system.SystemId, nil)
//
// It needs the standard library alone.
package molbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"molbox/workflow"
)

const (
	firstDelay = 250 * time.Millisecond
	// A longer delay that the service asks for is left to the caller.
	longestDelay = time.Minute
	// A margin may wait a minute for its turn and be calculated for five, in which nothing is sent.
	longestMargin = 7 * time.Minute
	// An error's body is read up to here, and a record's.
	maxErrorBytes  = 1 << 20
	maxRecordBytes = 256 << 20
	// So much of a text that is no answer of the service is shown.
	maxWords = 200
)

// What may be asked for again when nobody knows whether it was done: an idempotency key goes with it.
var repeatable = regexp.MustCompile(`^/(submit/(file|system|job|analysis)|extend|retry|cancel|check|margin)\b`)

// Client sends requests to one address with one key. It may be used by several goroutines.
type Client struct {
	// HTTP carries the requests. New sets one whose redirects take the key to no other origin.
	HTTP *http.Client
	// Retries is how often a request is repeated after a transient error.
	Retries int

	base *url.URL
	key  string
}

// New makes a client of the service at baseURL, with the deployment stage: https://md.example.org/prod. Margins have an
// address of their own, and so a client of their own.
func New(baseURL, key string) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("base address: %w", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" {
		return nil, fmt.Errorf("base address: must be http(s)://host/path, got %q", baseURL)
	}
	key = strings.TrimSpace(key)
	if key == "" {
		return nil, errors.New("the API key is empty")
	}
	// Go takes headers of its caller to wherever a redirect leads, but for those that it knows to be secrets; and it
	// makes a GET of a POST that is redirected, or sends its body elsewhere.
	atOrigin := func(request *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet {
			return http.ErrUseLastResponse
		}
		if len(via) > 5 {
			return fmt.Errorf("more than 5 %w", errRedirects)
		}
		// The path has identifiers of the account, and no other server needs it.
		request.Header.Del("referer")
		if request.URL.Scheme != via[0].URL.Scheme || request.URL.Host != via[0].URL.Host {
			request.Header.Del("x-api-key")
		}
		return nil
	}
	usual := http.DefaultTransport.(*http.Transport).Clone()
	usual.ResponseHeaderTimeout = time.Minute
	margin := usual.Clone()
	margin.ResponseHeaderTimeout = longestMargin
	return &Client{
		HTTP:    &http.Client{CheckRedirect: atOrigin, Transport: transports{usual, margin}},
		Retries: 4,
		base:    base,
		key:     key,
	}, nil
}

// transports has the patience that an answer needs: margins, which are calculated while the connection waits, need more.
type transports struct {
	*http.Transport
	margin *http.Transport
}

func (t transports) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/margin/") {
		return t.margin.RoundTrip(request)
	}
	return t.Transport.RoundTrip(request)
}

// CloseIdleConnections is what http.Client calls.
func (t transports) CloseIdleConnections() {
	t.Transport.CloseIdleConnections()
	t.margin.CloseIdleConnections()
}

// Refusal is the service's answer to what it did not do; errors.As finds it.
type Refusal struct {
	Status int
	// Violations say what is wrong, each at its field.
	Violations []workflow.ValidationError
	// RequestID is what to give to whoever runs the service.
	RequestID string
	// RetryAfter is how long the service wants to have waited before the request is sent again.
	RetryAfter time.Duration

	// What a proxy on the way answers, which knows no violations.
	words string
}

func (r *Refusal) Error() string {
	texts := make([]string, len(r.Violations))
	for i, violation := range r.Violations {
		texts[i] = violation.Msg
		if path := Path(violation); path != "" {
			texts[i] = path + ": " + violation.Msg
		}
	}
	if len(texts) == 0 && r.words != "" {
		texts = []string{r.words}
	}
	return fmt.Sprintf("refused with %d: %s", r.Status, strings.Join(texts, "; "))
}

// Path is where a violation is, without what part of the request it is in: equilibration.1.time.
func Path(violation workflow.ValidationError) string {
	var steps []string
	for i, step := range violation.Loc {
		if i > 0 || step != "body" {
			steps = append(steps, fmt.Sprint(step))
		}
	}
	return strings.Join(steps, ".")
}

// Get reads a record: Get[workflow.JobRecord](ctx, client, "/info/job/"+id, nil).
func Get[T any](ctx context.Context, client *Client, path string, query url.Values) (T, error) {
	return call[T](ctx, client, http.MethodGet, path, query, nil)
}

// Post sends a request, and reads what is answered.
func Post[T any](ctx context.Context, client *Client, path string, body any) (T, error) {
	return PostWith[T](ctx, client, path, nil, body)
}

// PostWith is Post with parameters in the query.
func PostWith[T any](ctx context.Context, client *Client, path string, query url.Values, body any) (T, error) {
	content, err := json.Marshal(body)
	if err != nil {
		var none T
		return none, err
	}
	return call[T](ctx, client, http.MethodPost, path, query, content)
}

// Delete deletes what is at a path.
func Delete(ctx context.Context, client *Client, path string) error {
	answer, err := client.send(ctx, http.MethodDelete, path, nil, nil, nil)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func call[T any](ctx context.Context, client *Client, method, path string, query url.Values, body []byte) (T, error) {
	var record T
	answer, err := client.send(ctx, method, path, query, http.Header{"Accept": {"application/json"}}, body)
	if err != nil {
		return record, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxRecordBytes)).Decode(&record); err != nil {
		return record, fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return record, nil
}

// send gives an answer of the service, or a Refusal; it repeats what passes and may be done twice.
func (c *Client) send(
	ctx context.Context, method, path string, query url.Values, header http.Header, body []byte,
) (*http.Response, error) {
	canRepeat := method == http.MethodGet || (method == http.MethodPost && repeatable.MatchString(path))
	idempotency := ""
	if method == http.MethodPost && canRepeat {
		idempotency = randomKey()
	}
	return c.repeat(ctx, canRepeat, func() (*http.Response, error) {
		address := c.base.String() + path
		if len(query) > 0 {
			address += "?" + query.Encode()
		}
		request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		for name, values := range header {
			request.Header[name] = values
		}
		request.Header.Set("x-api-key", c.key)
		if body != nil {
			request.Header.Set("content-type", "application/json")
		}
		if idempotency != "" {
			request.Header.Set("idempotency-key", idempotency)
		}
		return c.once(request)
	})
}

var errRedirects = errors.New("redirects")

// once sends a request, and makes an error of a refusal.
func (c *Client) once(request *http.Request) (*http.Response, error) {
	answer, err := c.HTTP.Do(request)
	if err != nil || answer.StatusCode < 300 {
		return answer, err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 400 {
		origin := request.URL.Scheme + "://" + request.URL.Host
		return nil, fmt.Errorf("%s %w to %s; give that address", origin, errRedirects, answer.Header.Get("location"))
	}
	refusal := &Refusal{Status: answer.StatusCode, RequestID: answer.Header.Get("x-request-id")}
	after := answer.Header.Get("retry-after")
	if seconds, err := strconv.Atoi(after); err == nil {
		refusal.RetryAfter = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(after); err == nil {
		refusal.RetryAfter = max(0, time.Until(date))
	}
	// What cannot be read to its end is shown as far as it came.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes))
	var body workflow.HTTPValidationError
	if json.Unmarshal(text, &body) == nil && body.Detail != nil {
		refusal.Violations = *body.Detail
	} else {
		refusal.words = wordsOf(string(text))
	}
	return nil, refusal
}

var title = regexp.MustCompile(`(?is)<title[^>]*>([^<]*)</title>`)

// wordsOf is what a proxy on the way answers, in a sentence.
func wordsOf(text string) string {
	if found := title.FindStringSubmatch(text); found != nil {
		page := strings.Join(strings.Fields(found[1]), " ")
		return fmt.Sprintf("the answer is a web page, %q, of a proxy on the way or of another server", page)
	}
	words := []rune(strings.TrimSpace(text))
	return string(words[:min(len(words), maxWords)])
}

func (c *Client) repeat(
	ctx context.Context, canRepeat bool, attempt func() (*http.Response, error),
) (*http.Response, error) {
	for nth := 0; ; nth++ {
		answer, err := attempt()
		if err == nil {
			return answer, nil
		}
		delay, isTransient := delayAfter(err, nth, canRepeat)
		if !isTransient || nth >= c.Retries || ctx.Err() != nil {
			return nil, err
		}
		if err := sleep(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// delayAfter is how long to wait before the next attempt, if there may be one.
func delayAfter(err error, nth int, canRepeat bool) (time.Duration, bool) {
	backoff := firstDelay << nth
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return backoff, canRepeat && !errors.Is(err, errRedirects)
	}
	switch refusal.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		// These two say that the request was not begun.
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		if !canRepeat {
			return 0, false
		}
	default:
		return 0, false
	}
	return max(backoff, refusal.RetryAfter), refusal.RetryAfter <= longestDelay
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// randomKey is a name that nobody else draws.
func randomKey() string {
	var bytes [16]byte
	// It gives all of them, or ends the program.
	_, _ = rand.Read(bytes[:])
	return fmt.Sprintf("%x", bytes)
}

// The main job: a structure file to a results bundle; a margin; and requests that are refused.
package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"molbox-client-example/molbox"
)

// expect returns an answer, or ends with what the service said instead.
func expect[T any](answer T, _ *http.Response, err error) T {
	var refusal *molbox.GenericOpenAPIError
	if errors.As(err, &refusal) {
		log.Fatalf("%v: %s", err, refusal.Body())
	}
	check(err)
	return answer
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func isOpen(status string) bool { return status == "queued" || status == "running" }

func newClient(baseURL string) *molbox.APIClient {
	config := molbox.NewConfiguration()
	config.Servers = molbox.ServerConfigurations{{URL: baseURL}}
	config.AddDefaultHeader("x-api-key", os.Getenv("MOLBOX_API_KEY"))
	return molbox.NewAPIClient(config)
}

// showRefusal prints what the service finds wrong with a request.
func showRefusal[T any](_ T, response *http.Response, err error) {
	var refusal *molbox.GenericOpenAPIError
	if !errors.As(err, &refusal) {
		log.Fatalf("a bad request was accepted: %v", err)
	}
	violations, ok := refusal.Model().(molbox.HTTPValidationError)
	if !ok {
		log.Fatalf("an error of another shape: %s", refusal.Body())
	}
	for _, violation := range violations.Detail {
		words := make([]string, len(violation.Loc))
		for i, item := range violation.Loc {
			words[i] = fmt.Sprint(item.GetActualInstanceValue())
		}
		fmt.Printf("refused %d %s %s\n", response.StatusCode, strings.Join(words, "."), violation.Type)
	}
}

func main() {
	client := newClient(os.Getenv("MOLBOX_BASE_URL"))
	ctx := context.Background()

	link := expect(client.FileAPI.UploadUrlCreate(ctx).Filetype("pdb").Execute())
	structure, err := os.ReadFile(os.Args[1])
	check(err)
	// The link is a grant of its own: it takes no key.
	put, err := http.NewRequest(http.MethodPut, link.UploadUrl, bytes.NewReader(structure))
	check(err)
	upload, err := http.DefaultClient.Do(put)
	check(err)
	if upload.StatusCode != http.StatusOK && upload.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(upload.Body)
		log.Fatalf("%s: %s", upload.Status, text)
	}
	registration := molbox.FileRegistration{Name: molbox.PtrString("go alanine"), FileId: molbox.PtrString(link.FileId)}
	file := expect(client.FileAPI.FileRegister(ctx).FileRegistration(registration).Execute())
	fmt.Printf("uploaded %d bytes\n", file.GetSizeBytes())

	build := molbox.SystemBuildRequest{
		Protein:        molbox.PtrString(file.FileId),
		MinimumPadding: molbox.PtrFloat64(0.8),
		Seed:           molbox.PtrInt64(7),
	}
	system := expect(client.SystemAPI.SystemSubmit(ctx).SystemBuildRequest(build).Execute())
	for isOpen(system.Status) {
		time.Sleep(500 * time.Millisecond)
		system = expect(client.SystemAPI.SystemView(ctx, system.SystemId).Execute())
	}
	if system.Summary == nil {
		log.Fatalf("%s: %s", system.Status, system.Error.GetMessage())
	}
	fmt.Printf("built %d atoms\n", system.Summary.Atoms)

	bad := molbox.JobCreateParams{Temperature: *molbox.NewNullableFloat64(molbox.PtrFloat64(-1))}
	showRefusal(client.JobAPI.JobSubmit(ctx).JobCreateParams(bad).Execute())

	params := molbox.JobCreateParams{
		BoxId:             molbox.PtrString(system.SystemId),
		NonBondedCutoff:   *molbox.NewNullableFloat64(molbox.PtrFloat64(0.7)),
		MinimizationSteps: *molbox.NewNullableInt64(molbox.PtrInt64(100)),
		Equilibration:     []molbox.EquilibrationStep{{Time: *molbox.NewNullableFloat64(molbox.PtrFloat64(0.0001))}},
		Production: *molbox.NewNullableProductionParams(&molbox.ProductionParams{
			Time:     *molbox.NewNullableFloat64(molbox.PtrFloat64(0.0002)),
			TrajFreq: *molbox.NewNullableInt64(molbox.PtrInt64(25)),
		}),
		Seed: *molbox.NewNullableInt64(molbox.PtrInt64(7)),
	}
	job := expect(client.JobAPI.JobSubmit(ctx).JobCreateParams(params).Execute())
	for isOpen(job.Status) {
		time.Sleep(500 * time.Millisecond)
		job = expect(client.JobAPI.JobView(ctx, job.JobId).Execute())
	}
	if job.Status != "succeeded" {
		log.Fatalf("%s: %s", job.Status, job.Error.GetMessage())
	}
	last := job.Stages[len(job.Stages)-1]
	fmt.Printf("simulated %d steps, %d frames\n", last.Steps, last.Frames)

	bundle := expect(client.JobAPI.JobDownload(ctx, job.JobId).Execute())
	check(os.Rename(bundle.Name(), "results.zip"))
	archive, err := zip.OpenReader("results.zip")
	check(err)
	found := "no"
	for _, entry := range archive.File {
		if strings.HasSuffix(entry.Name, "/production.dcd") {
			found = "yes"
		}
	}
	fmt.Printf("downloaded the trajectory: %s\n", found)

	margin := newClient(os.Getenv("MOLBOX_MARGIN_URL"))
	calculate := margin.MarginAPI.MarginSubmit(ctx, molbox.DATAFORMAT_JSON)
	request := molbox.MarginJobRequest{
		MarginDate: molbox.PtrString("2024-12-31"),
		Portfolio: &molbox.Portfolio{Futures: []molbox.FuturesPosition{{
			Ticker:   molbox.PtrString("XEQ1"),
			Type:     molbox.PtrString("long"),
			Quantity: molbox.PtrFloat64(10),
		}}},
	}
	answer, response, err := calculate.MarginJobRequest(request).Execute()
	expect(answer, response, err)
	text, err := os.ReadFile(answer.Name())
	check(err)
	check(os.Remove(answer.Name()))
	found = "no"
	if bytes.Contains(text, []byte("XEQ1")) {
		found = "yes"
	}
	fmt.Printf("margin %s %s\n", response.Header.Get("x-margin-initial"), response.Header.Get("x-margin-currency"))
	fmt.Printf("the file has the position: %s\n", found)

	request.NumScenarios = molbox.PtrInt64(0)
	showRefusal(calculate.MarginJobRequest(request).Execute())
}

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

	"molbox-client-example/margin"
	"molbox-client-example/workflow"
)

// expect returns an answer, or ends with what the service said instead.
func expect[T any](answer T, _ *http.Response, err error) T {
	var refusal interface{ Body() []byte }
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

// showRefusal prints what the service finds wrong with a request.
func showRefusal(response *http.Response, err error) {
	var refusal interface{ Model() any }
	if !errors.As(err, &refusal) {
		log.Fatalf("a bad request was accepted: %v", err)
	}
	switch violations := refusal.Model().(type) {
	case workflow.HTTPValidationError:
		for _, violation := range violations.Detail {
			show(response, violation.Loc, violation.Type)
		}
	case margin.HTTPValidationError:
		for _, violation := range violations.Detail {
			show(response, violation.Loc, violation.Type)
		}
	default:
		log.Fatalf("an error of another shape: %v", err)
	}
}

func show[T interface{ GetActualInstanceValue() any }](response *http.Response, loc []T, kind string) {
	words := make([]string, len(loc))
	for i, item := range loc {
		words[i] = fmt.Sprint(item.GetActualInstanceValue())
	}
	fmt.Printf("refused %d %s %s\n", response.StatusCode, strings.Join(words, "."), kind)
}

func main() {
	key := os.Getenv("MOLBOX_API_KEY")
	config := workflow.NewConfiguration()
	config.Servers = workflow.ServerConfigurations{{URL: os.Getenv("MOLBOX_BASE_URL")}}
	config.AddDefaultHeader("x-api-key", key)
	client := workflow.NewAPIClient(config)
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
	registration := workflow.FileRegistration{Name: workflow.PtrString("go alanine"), FileId: workflow.PtrString(link.FileId)}
	file := expect(client.FileAPI.FileRegister(ctx).FileRegistration(registration).Execute())
	fmt.Printf("uploaded %d bytes\n", file.GetSizeBytes())

	build := workflow.SystemBuildRequest{
		Protein:        workflow.PtrString(file.FileId),
		MinimumPadding: workflow.PtrFloat64(0.8),
		Seed:           workflow.PtrInt64(7),
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

	bad := workflow.JobCreateParams{Temperature: *workflow.NewNullableFloat64(workflow.PtrFloat64(-1))}
	_, refused, err := client.JobAPI.JobSubmit(ctx).JobCreateParams(bad).Execute()
	showRefusal(refused, err)

	params := workflow.JobCreateParams{
		BoxId:             workflow.PtrString(system.SystemId),
		NonBondedCutoff:   *workflow.NewNullableFloat64(workflow.PtrFloat64(0.7)),
		MinimizationSteps: *workflow.NewNullableInt64(workflow.PtrInt64(100)),
		Equilibration:     []workflow.EquilibrationStep{{Time: *workflow.NewNullableFloat64(workflow.PtrFloat64(0.0001))}},
		Production: *workflow.NewNullableProductionParams(&workflow.ProductionParams{
			Time:     *workflow.NewNullableFloat64(workflow.PtrFloat64(0.0002)),
			TrajFreq: *workflow.NewNullableInt64(workflow.PtrInt64(25)),
		}),
		Seed: *workflow.NewNullableInt64(workflow.PtrInt64(7)),
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

	config.Servers = workflow.ServerConfigurations{{URL: os.Getenv("MOLBOX_LATER_URL")}}
	record := expect(workflow.NewAPIClient(config).JobAPI.JobView(ctx, job.JobId).Execute())
	fmt.Printf("a later service: %s, %s\n", record.Status, record.Parameters.GetTrajectoryOutputFormat())

	marginConfig := margin.NewConfiguration()
	marginConfig.Servers = margin.ServerConfigurations{{URL: os.Getenv("MOLBOX_MARGIN_URL")}}
	marginConfig.AddDefaultHeader("x-api-key", key)
	calculate := margin.NewAPIClient(marginConfig).MarginAPI.MarginSubmit(ctx, margin.DATAFORMAT_JSON).Shape(margin.MARGINSHAPE_REPORT)
	request := margin.MarginJobRequest{
		MarginDate: margin.PtrString("2024-12-31"),
		Portfolio: &margin.Portfolio{Futures: []margin.FuturesPosition{{
			Ticker:   margin.PtrString("XEQ1"),
			Type:     margin.PtrString("long"),
			Quantity: margin.PtrFloat64(10),
		}}},
	}
	answer, response, err := calculate.MarginJobRequest(request).Execute()
	report := expect(answer, response, err).MarginReport
	fmt.Printf("margin %s %s\n", response.Header.Get("x-margin-initial"), report.Summary.GetBaseCurrency())
	fmt.Printf("of a %s position in %s\n", report.Rows[0].PositionType, report.Rows[0].Ticker)

	request.NumScenarios = margin.PtrInt64(0)
	_, response, err = calculate.MarginJobRequest(request).Execute()
	showRefusal(response, err)
}

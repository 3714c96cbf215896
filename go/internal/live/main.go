// The main job with this module, as clients/README.md has it: what it prints is what all other clients print.
package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"strings"

	"molbox"
	"molbox/margin"
	"molbox/workflow"
)

func expect[T any](answer T, err error) T {
	check(err)
	return answer
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ptr[T any](value T) *T { return &value }

// showRefusal prints what the service finds wrong with a request.
func showRefusal(err error) {
	var refusal *molbox.Refusal
	if !errors.As(err, &refusal) {
		log.Fatalf("a bad request was accepted: %v", err)
	}
	for _, violation := range refusal.Violations {
		words := make([]string, len(violation.Loc))
		for i, step := range violation.Loc {
			words[i] = fmt.Sprint(step)
		}
		fmt.Printf("refused %d %s %s\n", refusal.Status, strings.Join(words, "."), violation.Type)
	}
}

func main() {
	ctx := context.Background()
	key := os.Getenv("MOLBOX_API_KEY")
	client := expect(molbox.New(os.Getenv("MOLBOX_BASE_URL"), key))

	file := expect(client.Upload(ctx, os.Args[1], molbox.UploadOptions{Name: "go module alanine"}))
	fmt.Printf("uploaded %d bytes\n", *file.SizeBytes)

	build := workflow.SystemBuildRequest{Protein: &file.FileId, MinimumPadding: ptr(0.8), Seed: ptr[int64](7)}
	submitted := expect(molbox.Post[workflow.SystemRecord](ctx, client, "/submit/system", build))
	system := expect(client.WaitSystem(ctx, submitted.SystemId, nil))
	fmt.Printf("built %d atoms\n", system.Summary.Atoms)

	bad := workflow.JobCreateParams{Temperature: ptr(-1.0)}
	_, err := molbox.Post[workflow.JobRecord](ctx, client, "/submit/job", bad)
	showRefusal(err)

	params := workflow.JobCreateParams{
		BoxId:             &system.SystemId,
		NonBondedCutoff:   ptr(0.7),
		MinimizationSteps: ptr[int64](100), // enough for this test; left out, it goes on until it has converged
		Equilibration:     &[]workflow.EquilibrationStep{{Time: ptr(0.0001)}},
		Production:        &workflow.ProductionParams{Time: ptr(0.0002), TrajFreq: ptr[int64](25)},
		Seed:              ptr[int64](7),
	}
	started := expect(molbox.Post[workflow.JobRecord](ctx, client, "/submit/job", params))
	job := expect(client.WaitJob(ctx, started.JobId, nil))
	stages := *job.Stages
	last := stages[len(stages)-1]
	fmt.Printf("simulated %d steps, %d frames\n", last.Steps, last.Frames)

	check(client.Download(ctx, job.JobId, "results.zip"))
	archive := expect(zip.OpenReader("results.zip"))
	found := "no"
	for _, entry := range archive.File {
		if strings.HasSuffix(entry.Name, "/production.dcd") {
			found = "yes"
		}
	}
	fmt.Printf("downloaded the trajectory: %s\n", found)

	later := expect(molbox.New(os.Getenv("MOLBOX_LATER_URL"), key))
	record := expect(molbox.Get[workflow.JobRecord](ctx, later, "/info/job/"+job.JobId, nil))
	fmt.Printf("a later service: %s, %s\n", record.Status, *record.Parameters.TrajectoryOutputFormat)

	margins := expect(molbox.New(os.Getenv("MOLBOX_MARGIN_URL"), key))
	request := margin.MarginJobRequest{
		MarginDate: ptr("2024-12-31"),
		Portfolio: &margin.Portfolio{Futures: &[]margin.FuturesPosition{{
			Ticker:   ptr("XEQ1"),
			Type:     ptr("long"),
			Quantity: ptr(10.0),
		}}},
	}
	const path = "/margin/submit_job/historical/json"
	shape := url.Values{"shape": {"report"}}
	report := expect(molbox.PostWith[margin.MarginReport](ctx, margins, path, shape, request))
	fmt.Printf("margin %v %s\n", report.Summary.InitialMargin, *report.Summary.BaseCurrency)
	fmt.Printf("of a %s position in %s\n", report.Rows[0].PositionType, report.Rows[0].Ticker)
	request.NumScenarios = ptr[int64](0)
	_, err = molbox.PostWith[margin.MarginReport](ctx, margins, path, shape, request)
	showRefusal(err)
}

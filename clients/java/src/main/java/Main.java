import java.io.File;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.stream.Collectors;
import java.util.zip.ZipFile;
import molbox.margin.api.MarginApi;
import molbox.margin.model.DataFormat;
import molbox.margin.model.FuturesPosition;
import molbox.margin.model.MarginJobRequest;
import molbox.margin.model.MarginShape;
import molbox.margin.model.Portfolio;
import molbox.workflow.api.FileApi;
import molbox.workflow.api.JobApi;
import molbox.workflow.api.SystemApi;
import molbox.workflow.client.ApiClient;
import molbox.workflow.client.ApiException;
import molbox.workflow.client.JSON;
import molbox.workflow.model.EquilibrationStep;
import molbox.workflow.model.FileRegistration;
import molbox.workflow.model.HTTPValidationError;
import molbox.workflow.model.JobCreateParams;
import molbox.workflow.model.ProductionParams;
import molbox.workflow.model.SystemBuildRequest;

/** The main job: a structure file to a results bundle; a margin; and requests that are refused. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        var client = client(System.getenv("MOLBOX_BASE_URL"));
        var files = new FileApi(client);
        var systems = new SystemApi(client);
        var jobs = new JobApi(client);

        var link = files.uploadUrlCreate("pdb").execute();
        // The link is a grant of its own: it takes no key.
        var put = HttpRequest.newBuilder(URI.create(link.getUploadUrl()))
                .PUT(HttpRequest.BodyPublishers.ofFile(Path.of(arguments[0])))
                .build();
        var upload = HttpClient.newHttpClient().send(put, HttpResponse.BodyHandlers.ofString());
        if (upload.statusCode() >= 300) {
            throw new IllegalStateException(upload.body());
        }
        var registration = new FileRegistration().name("java alanine").fileId(link.getFileId());
        var file = files.fileRegister(registration).execute();
        System.out.printf("uploaded %d bytes%n", file.getSizeBytes());

        var build = new SystemBuildRequest().protein(file.getFileId()).minimumPadding(0.8).seed(7L);
        var system = systems.systemSubmit(build).execute();
        while (isOpen(system.getStatus())) {
            Thread.sleep(500);
            system = systems.systemView(system.getSystemId()).execute();
        }
        if (system.getSummary() == null) {
            throw new IllegalStateException(system.getStatus() + ": " + system.getError());
        }
        System.out.printf("built %d atoms%n", system.getSummary().getAtoms());

        showRefusal(() -> jobs.jobSubmit(new JobCreateParams().temperature(-1.0)).execute());

        var params = new JobCreateParams()
                .boxId(system.getSystemId())
                .nonBondedCutoff(0.7)
                .minimizationSteps(100L)
                .equilibration(List.of(new EquilibrationStep().time(0.0001)))
                .production(new ProductionParams().time(0.0002).trajFreq(25L))
                .seed(7L);
        var job = jobs.jobSubmit(params).execute();
        while (isOpen(job.getStatus())) {
            Thread.sleep(500);
            job = jobs.jobView(job.getJobId()).execute();
        }
        if (!job.getStatus().equals("succeeded")) {
            throw new IllegalStateException(job.getStatus() + ": " + job.getError());
        }
        var last = job.getStages().get(job.getStages().size() - 1);
        System.out.printf("simulated %d steps, %d frames%n", last.getSteps(), last.getFrames());

        File bundle = jobs.jobDownload(job.getJobId()).execute();
        Files.move(bundle.toPath(), Path.of("results.zip"), StandardCopyOption.REPLACE_EXISTING);
        try (var archive = new ZipFile("results.zip")) {
            var found = archive.stream().anyMatch(entry -> entry.getName().endsWith("/production.dcd"));
            System.out.printf("downloaded the trajectory: %s%n", found ? "yes" : "no");
        }

        var record = new JobApi(client(System.getenv("MOLBOX_LATER_URL"))).jobView(job.getJobId()).execute();
        var format = record.getParameters().getTrajectoryOutputFormat();
        System.out.printf("a later service: %s, %s%n", record.getStatus(), format);

        var margins = new MarginApi(marginClient(System.getenv("MOLBOX_MARGIN_URL")));
        var future = new FuturesPosition().ticker("XEQ1").type("long").quantity(10.0);
        var request = new MarginJobRequest().marginDate("2024-12-31").portfolio(new Portfolio().addFuturesItem(future));
        var answer = margins.marginSubmit(DataFormat.JSON, MarginShape.REPORT, request).executeWithHttpInfo();
        var report = answer.getData().getMarginReport();
        var row = report.getRows().get(0);
        var margin = answer.getHeaders().get("x-margin-initial").get(0);
        System.out.printf("margin %s %s%n", margin, report.getSummary().getBaseCurrency());
        System.out.printf("of a %s position in %s%n", row.getPositionType(), row.getTicker());
        showRefusal(() -> margins.marginSubmit(DataFormat.JSON, MarginShape.REPORT, request.numScenarios(0L)).execute());
        // The client's idle threads would keep the program for a minute.
        System.exit(0);
    }

    private interface Call {
        Object send() throws Exception;
    }

    private static ApiClient client(String baseUrl) {
        var client = new ApiClient();
        client.setBasePath(baseUrl);
        client.addDefaultHeader("x-api-key", System.getenv("MOLBOX_API_KEY"));
        return client;
    }

    private static molbox.margin.client.ApiClient marginClient(String baseUrl) {
        var client = new molbox.margin.client.ApiClient();
        client.setBasePath(baseUrl);
        client.addDefaultHeader("x-api-key", System.getenv("MOLBOX_API_KEY"));
        return client;
    }

    private static void showRefusal(Call call) throws Exception {
        try {
            call.send();
        } catch (ApiException refusal) {
            show(refusal.getCode(), refusal.getResponseBody());
            return;
        } catch (molbox.margin.client.ApiException refusal) {
            show(refusal.getCode(), refusal.getResponseBody());
            return;
        }
        throw new IllegalStateException("a bad request was accepted");
    }

    /** Both addresses refuse in the same form. */
    private static void show(int status, String body) {
        for (var violation : JSON.getGson().fromJson(body, HTTPValidationError.class).getDetail()) {
            var loc = violation.getLoc().stream()
                    .map(item -> String.valueOf(item.getActualInstance()))
                    .collect(Collectors.joining("."));
            System.out.printf("refused %d %s %s%n", status, loc, violation.getType());
        }
    }

    private static boolean isOpen(String status) {
        return status.equals("queued") || status.equals("running");
    }
}

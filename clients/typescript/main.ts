// The main job: a structure file to a results bundle; a margin; and requests that are refused.

import { readFile, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import createClient from "openapi-fetch";

import type * as Margin from "./margin.js";
import type * as Workflow from "./workflow.js";

const { MOLBOX_BASE_URL, MOLBOX_MARGIN_URL, MOLBOX_API_KEY } = process.env;
const structure = process.argv[2];
if (!MOLBOX_BASE_URL || !MOLBOX_MARGIN_URL || !MOLBOX_API_KEY || !structure) {
  throw new Error("usage: MOLBOX_BASE_URL=… MOLBOX_MARGIN_URL=… MOLBOX_API_KEY=… main STRUCTURE");
}
const headers = { "x-api-key": MOLBOX_API_KEY };
const molbox = createClient<Workflow.paths>({ baseUrl: MOLBOX_BASE_URL, headers });

/** The data of an answer, if it is the one that is hoped for. */
function expect<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

function showRefusal(answer: { error?: Workflow.components["schemas"]["HTTPValidationError"]; response: Response }): void {
  for (const { loc, type } of answer.error?.detail ?? []) {
    console.log(`refused ${answer.response.status} ${loc.join(".")} ${type}`);
  }
}

const isOpen = (status: string) => status === "queued" || status === "running";

const link = expect(await molbox.GET("/submit/upload-url", { params: { query: { filetype: "pdb" } } }));
// The link is a grant of its own: it takes no key.
const upload = await fetch(link.upload_url, { method: "PUT", body: new Uint8Array(await readFile(structure)) });
if (!upload.ok) throw new Error(await upload.text());
const file = expect(
  await molbox.POST("/submit/file/", { body: { name: "typescript alanine", file_id: link.file_id } }),
);
console.log(`uploaded ${file.size_bytes} bytes`);

const build = { protein: file.file_id, minimum_padding: 0.8, seed: 7 };
let system = expect(await molbox.POST("/submit/system", { body: build }));
while (isOpen(system.status)) {
  await sleep(500);
  const { system_id } = system;
  system = expect(await molbox.GET("/info/system/{system_id}", { params: { path: { system_id } } }));
}
if (!system.summary) throw new Error(`${system.status}: ${system.error?.message}`);
console.log(`built ${system.summary.atoms} atoms`);

showRefusal(await molbox.POST("/submit/job", { body: { temperature: -1 } }));

const params = {
  box_id: system.system_id,
  non_bonded_cutoff: 0.7,
  minimization_steps: 100, // enough for this test; left out, it goes on until it has converged
  equilibration: [{ time: 0.0001 }],
  production: { time: 0.0002, traj_freq: 25 },
  seed: 7,
};
let job = expect(await molbox.POST("/submit/job", { body: params }));
while (isOpen(job.status)) {
  await sleep(500);
  const { job_id } = job;
  job = expect(await molbox.GET("/info/job/{job_id}", { params: { path: { job_id } } }));
}
const last = job.stages?.at(-1);
if (!last || job.status !== "succeeded") throw new Error(`${job.status}: ${job.error?.message}`);
console.log(`simulated ${last.steps} steps, ${last.frames} frames`);

const { job_id } = job;
const bundle = await molbox.GET("/retrieve/job/{job_id}", { params: { path: { job_id } }, parseAs: "arrayBuffer" });
const bytes = Buffer.from(expect(bundle));
await writeFile("results.zip", bytes);
console.log(`downloaded the trajectory: ${bytes.includes("/production.dcd") ? "yes" : "no"}`);

const later = createClient<Workflow.paths>({ baseUrl: process.env.MOLBOX_LATER_URL, headers });
const record = expect(await later.GET("/info/job/{job_id}", { params: { path: { job_id } } }));
console.log(`a later service: ${record.status}, ${record.parameters.trajectory_output_format}`);

const margin = createClient<Margin.paths>({ baseUrl: MOLBOX_MARGIN_URL, headers });
const calculate = (numScenarios?: number) =>
  margin.POST("/margin/submit_job/historical/{data_format}", {
    params: { path: { data_format: "json" }, query: { shape: "report" } },
    body: {
      marginDate: "2024-12-31",
      numScenarios,
      portfolio: { futures: [{ ticker: "XEQ1", type: "long", quantity: 10 }] },
    },
  });
const answer = await calculate();
const report = expect(answer);
if (Array.isArray(report) || "portfolios" in report) throw new Error("not one report");
console.log(`margin ${answer.response.headers.get("x-margin-initial")} ${report.summary.baseCurrency}`);
console.log(`of a ${report.rows[0]?.positionType} position in ${report.rows[0]?.ticker}`);
showRefusal(await calculate(0));

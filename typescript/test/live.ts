// The main job with this package, as clients/README.md has it: what it prints is what all other clients print.

import { readFile, writeFile } from "node:fs/promises";

import { Molbox, MolboxMargin, RefusedError } from "../src/index.js";

const { MOLBOX_BASE_URL = "", MOLBOX_MARGIN_URL = "", MOLBOX_LATER_URL = "", MOLBOX_API_KEY = "" } = process.env;
const structure = process.argv[2];
if (!structure) throw new Error("usage: MOLBOX_BASE_URL=… MOLBOX_MARGIN_URL=… MOLBOX_API_KEY=… live STRUCTURE");
const molbox = new Molbox({ baseUrl: MOLBOX_BASE_URL, apiKey: MOLBOX_API_KEY });

async function showRefusal(call: Promise<unknown>): Promise<void> {
  const error = await call.then(
    () => new Error("a bad request was accepted"),
    (refused: unknown) => refused,
  );
  if (!(error instanceof RefusedError)) throw error;
  for (const { loc, type } of error.violations) console.log(`refused ${error.status} ${loc.join(".")} ${type}`);
}

const file = await molbox.upload(await readFile(structure), { name: "typescript package alanine", format: "pdb" });
console.log(`uploaded ${file.size_bytes} bytes`);

const build = { protein: file.file_id, minimum_padding: 0.8, seed: 7 };
const submitted = await molbox.post("/submit/system", { body: build });
const system = await molbox.waitSystem(submitted.system_id);
console.log(`built ${system.summary?.atoms} atoms`);

await showRefusal(molbox.post("/submit/job", { body: { temperature: -1 } }));

const { job_id } = await molbox.post("/submit/job", {
  body: {
    box_id: system.system_id,
    non_bonded_cutoff: 0.7,
    minimization_steps: 100, // enough for this test; left out, it goes on until it has converged
    equilibration: [{ time: 0.0001 }],
    production: { time: 0.0002, traj_freq: 25 },
    seed: 7,
  },
});
let nRecords = 0;
for await (const record of molbox.events(job_id)) nRecords += record.job_id === job_id ? 1 : 0;
if (nRecords === 0) throw new Error("there were no events");
const job = await molbox.waitJob(job_id);
const last = job.stages?.at(-1);
console.log(`simulated ${last?.steps} steps, ${last?.frames} frames`);

const bundle = await molbox.download(job_id);
await writeFile("results.zip", bundle);
console.log(`downloaded the trajectory: ${Buffer.from(bundle).includes("/production.dcd") ? "yes" : "no"}`);

const later = new Molbox({ baseUrl: MOLBOX_LATER_URL, apiKey: MOLBOX_API_KEY });
const record = await later.get("/info/job/{job_id}", { path: { job_id } });
console.log(`a later service: ${record.status}, ${record.parameters.trajectory_output_format}`);

const margin = new MolboxMargin({ baseUrl: MOLBOX_MARGIN_URL, apiKey: MOLBOX_API_KEY });
const calculate = (numScenarios?: number) =>
  margin.post("/margin/submit_job/historical/{data_format}", {
    path: { data_format: "json" },
    query: { shape: "report" },
    body: {
      marginDate: "2024-12-31",
      numScenarios,
      portfolio: { futures: [{ ticker: "XEQ1", type: "long", quantity: 10 }] },
    },
  });
const report = await calculate();
if (Array.isArray(report) || "portfolios" in report) throw new Error("not one report");
console.log(`margin ${report.summary.initialMargin} ${report.summary.baseCurrency}`);
console.log(`of a ${report.rows[0]?.positionType} position in ${report.rows[0]?.ticker}`);
await showRefusal(calculate(0));

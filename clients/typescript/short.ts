// The short job, once for each of the other generators: register a file, have a request refused, read the
// answer of a later service, calculate a margin.

import { readFile } from "node:fs/promises";

import { createClient } from "./hey-api/workflow/client/index.js";
import * as heyMargin from "./hey-api/margin/sdk.gen.js";
import * as hey from "./hey-api/workflow/sdk.gen.js";
import * as orvalMargin from "./orval/margin.js";
import * as orval from "./orval/workflow.js";
import { Api as MarginApi } from "./swagger-typescript-api/margin.js";
import { Api } from "./swagger-typescript-api/workflow.js";
import type { components as Margin } from "./margin.js";
import type { components as Workflow } from "./workflow.js";

const { MOLBOX_BASE_URL = "", MOLBOX_MARGIN_URL = "", MOLBOX_LATER_URL = "", MOLBOX_API_KEY = "" } = process.env;
const [, , generator = "", structure = ""] = process.argv;
const headers = { "x-api-key": MOLBOX_API_KEY };

type Of = Workflow["schemas"];
type Answer<T> = { status: number; data: T | Of["HTTPValidationError"] };

/** What each generator's client has to do. */
interface Molbox {
  link(filetype: string): Promise<Answer<Of["UploadLink"]>>;
  register(file: Of["FileRegistration"]): Promise<Answer<Of["FileRecord"]>>;
  submit(job: Of["JobCreateParams"]): Promise<Answer<Of["JobRecord"]>>;
  later(job_id: string): Promise<Answer<Of["JobRecord"]>>;
  margin(job: Margin["schemas"]["MarginJobRequest"]): Promise<Answer<Margin["schemas"]["MarginAnswer"]>>;
}

function heyApi(): Molbox {
  const at = (baseUrl: string) => ({ client: createClient({ baseUrl, headers }) });
  type Result<T> = { data?: T; error?: Of["HTTPValidationError"]; response?: Response };
  const answer = async <T>(call: Promise<Result<T>>) => {
    const { data, error, response } = await call;
    return { status: response?.status ?? 0, data: (data ?? error)! };
  };
  return {
    link: (filetype) => answer(hey.uploadUrlCreate({ ...at(MOLBOX_BASE_URL), query: { filetype } })),
    register: (body) => answer(hey.fileRegister({ ...at(MOLBOX_BASE_URL), body })),
    submit: (body) => answer(hey.jobSubmit({ ...at(MOLBOX_BASE_URL), body })),
    later: (job_id) => answer(hey.jobView({ ...at(MOLBOX_LATER_URL), path: { job_id } })),
    margin: (body) => {
      const path = { data_format: "json" } as const;
      return answer(heyMargin.marginSubmit({ ...at(MOLBOX_MARGIN_URL), path, query: { shape: "report" }, body }));
    },
  };
}

function orvals(): Molbox {
  const at = (base: string) => ({ base, headers });
  return {
    link: (filetype) => orval.uploadUrlCreate({ filetype }, at(MOLBOX_BASE_URL)),
    register: (body) => orval.fileRegister(body, at(MOLBOX_BASE_URL)),
    submit: (body) => orval.jobSubmit(body, at(MOLBOX_BASE_URL)),
    later: (job_id) => orval.jobView(job_id, at(MOLBOX_LATER_URL)),
    margin: (body) => orvalMargin.marginSubmit("json", body, { shape: "report" }, at(MOLBOX_MARGIN_URL)),
  };
}

function swaggerTypescriptApi(): Molbox {
  const at = (baseUrl: string) => ({ baseUrl, baseApiParams: { headers } });
  const { submit } = new Api(at(MOLBOX_BASE_URL));
  // It throws what is refused.
  const answer = async <T>(call: Promise<{ status: number; data: T }>) =>
    call.catch(({ status, error }) => ({ status, data: error }));
  return {
    link: (filetype) => answer(submit.uploadUrlCreate({ filetype })),
    register: (body) => answer(submit.fileRegister(body)),
    submit: (body) => answer(submit.jobSubmit(body)),
    later: (job_id) => answer(new Api(at(MOLBOX_LATER_URL)).info.jobView(job_id)),
    margin: (body) => {
      const { margin } = new MarginApi(at(MOLBOX_MARGIN_URL));
      return answer(margin.marginSubmit("json", { shape: "report" }, body));
    },
  };
}

function hoped<T extends object>({ status, data }: Answer<T>): T {
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(data)}`);
  return data as T;
}

function showRefusal({ status, data }: Answer<object>): void {
  for (const { loc, type } of (data as Of["HTTPValidationError"]).detail ?? []) {
    console.log(`refused ${status} ${loc.join(".")} ${type}`);
  }
}

const clients: Record<string, () => Molbox> = {
  "hey-api": heyApi,
  orval: orvals,
  "swagger-typescript-api": swaggerTypescriptApi,
};
const molbox = clients[generator]?.();
if (!molbox) throw new Error(`one of ${Object.keys(clients).join(", ")}`);

const link = hoped(await molbox.link("pdb"));
await fetch(link.upload_url, { method: "PUT", body: new Uint8Array(await readFile(structure)) });
const file = hoped(await molbox.register({ name: `${generator} alanine`, file_id: link.file_id }));
console.log(`uploaded ${file.size_bytes} bytes`);
showRefusal(await molbox.submit({ temperature: -1 }));
const record = hoped(await molbox.later("job_0c2k4m6p8r1s3t5v7x9z"));
console.log(`a later service: ${record.status}, ${record.parameters.trajectory_output_format}`);

const job = { marginDate: "2024-12-31", portfolio: { futures: [{ ticker: "XEQ1", type: "long", quantity: 10 }] } };
const report = hoped(await molbox.margin(job));
if (Array.isArray(report) || "portfolios" in report) throw new Error("not one report");
console.log(`margin ${report.summary.initialMargin} ${report.summary.baseCurrency}`);
console.log(`of a ${report.rows[0]?.positionType} position in ${report.rows[0]?.ticker}`);
showRefusal(await molbox.margin({ ...job, numScenarios: 0 }));

// What the compiler must refuse: this file is compiled and not run.

import type { Molbox } from "../src/index.js";

export async function refused(molbox: Molbox): Promise<void> {
  // @ts-expect-error There is no such path.
  await molbox.get("/info/nothing");
  // @ts-expect-error The identifier is missing.
  await molbox.get("/info/job/{job_id}");
  // @ts-expect-error A field is misspelt.
  await molbox.post("/submit/job", { body: { temprature: 300 } });
  // @ts-expect-error A parameter is misspelt.
  await molbox.get("/info/jobs", { query: { limt: 3 } });
  // @ts-expect-error The name of an account is a text.
  const account: number = (await molbox.get("/info/account")).account;
  // @ts-expect-error Nothing is answered.
  const gone: string = await molbox.delete("/info/job/{job_id}", { path: { job_id: "job_1" } });
  void [account, gone];
}
